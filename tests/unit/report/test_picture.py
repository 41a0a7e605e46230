"""The picture and the sentences, from a record written by hand."""

import numpy as np
import pytest

from umma_probe.errors import RecordError
from umma_probe.record.schema import Cells, LaneRows, TmemRecord
from umma_probe.report.picture import picture, sentences, states_of


def tmem(*rows: tuple[str, str], lanes: int = 128, columns: int = 512) -> TmemRecord:
    return TmemRecord(lanes, columns, Cells({}, [LaneRows(*row) for row in rows]))


HOLES = tmem(("0-127", "R32 m4 R12 .464"))


def test_states_by_lane_and_column() -> None:
    states = states_of(tmem(("0-15,32-47", "R8 .504"), ("16-31,48-127", ".512")))
    assert states.shape == (128, 512)
    assert (states == "R").sum() == 32 * 8
    assert states[40, 7] == "R"
    assert states[20, 7] == "."


def test_runs_must_cover_the_dump() -> None:
    with pytest.raises(RecordError, match="have 511 cells, must be 512"):
        states_of(tmem(("0-127", "R511")))


def test_sentences_say_what_is_where() -> None:
    assert sentences(states_of(HOLES)) == [
        "columns 0-31: written in all lanes",
        "columns 32-35: missing (sentinel) in all lanes",
        "columns 36-47: written in all lanes",
        "columns 48-511: untouched",
    ]


def test_sentences_name_the_lanes_of_a_mixture() -> None:
    lines = sentences(states_of(tmem(("0-15", "R8 .504"), ("16-126", ".512"), ("127", "!8 .504"))))
    assert lines[0] == "columns 0-7: unexpected in lane 127, written in lanes 0-15"


def test_many_runs_are_cut_short() -> None:
    lines = sentences(states_of(tmem(("0-127", " ".join(["R1 01"] * 256)))), limit=5)
    assert len(lines) == 5
    assert lines[-1] == "... and 508 more runs of columns"


def test_picture_shows_what_matters() -> None:
    drawn = picture(states_of(HOLES), 100)
    assert (drawn.first_column, drawn.columns_per_char, len(drawn.rows)) == (0, 1, 16)
    assert set(drawn.rows) == {"R" * 32 + "m" * 4 + "R" * 12 + "." * 8}
    assert drawn.lane_label(1) == "8-15"
    assert drawn.ruler().split() == ["0", "16", "32", "48"]


def test_one_bad_cell_is_seen_in_its_block() -> None:
    states = states_of(tmem(("0-127", "R256 .256"))).copy()
    states[77, 130] = "0"
    drawn = picture(states, 80)
    assert drawn.columns_per_char == 4
    assert [row for row, text in enumerate(drawn.rows) if "0" in text] == [77 // 8]
    assert drawn.rows[9].index("0") == 130 // 4


def test_a_dump_that_nothing_touched() -> None:
    drawn = picture(np.full((128, 512), ".", "<U1"), 64)
    assert set(drawn.rows) == {"." * 64}
