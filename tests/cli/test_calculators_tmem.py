"""``layout``, ``ldst`` and ``cp`` as scripts see them: JSON keys, CSV, text, exit codes."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pytest

from umma_probe.cli.rendering import heading, render

VECTORS = Path(__file__).parents[1] / "vectors"


def golden(name):
    with gzip.open(VECTORS / f"{name}.json.gz", "rt", encoding="utf-8") as file:
        return json.load(file)["cases"]


def addresses(found):
    """``lane << 16 | column`` of each element, as the tables write it."""
    rows = zip(found["lane"], found["column"], strict=True)
    return [[lane << 16 | column for lane, column in zip(*row, strict=True)] for row in rows]


@pytest.fixture
def umma(cli):
    """Run a command line: exit code, stdout, stderr."""

    def call(line: str):
        return cli(*line.split())

    return call


@pytest.fixture
def answer(umma):
    """The one JSON object that a command prints."""

    def call(line: str):
        code, out, err = umma(f"{line} --json")
        assert (code, err) == (0, "")
        assert out.count("\n") == 1
        return json.loads(out)

    return call


def test_accumulator_json_has_the_contract_keys_and_cute_values(answer):
    case = next(c for c in golden("tmem_c_layouts") if c["mma_m"] == 64 and "expanded" in c and c["cta_group"] == 1)
    found = answer(f"layout acc --m 64 --n {case['n']}" + (" --ws" if case.get("alloc_mode") == "ws" else ""))
    assert {"layout", "cta", "lane", "column"} <= set(found)
    assert addresses(found) == case["expanded"]
    assert found["cta"] == [[0] * case["n"]] * 64


def test_accumulator_over_two_ctas(answer):
    found = answer("layout acc --m 128 --n 32 --cta-group 2")
    assert found["layout"] == "B"
    assert [len(found[key]) for key in ("cta", "lane", "column")] == [128] * 3
    assert found["cta"][64] == [1] * 32
    assert found["lane"][3] == [3] * 16 + [67] * 16
    assert found["column"][3] == [*range(16), *range(16)]


def test_sparse_conflict_is_part_of_the_answer(answer, umma):
    found = answer("layout acc --m 128 --n 32 --cta-group 2 --sparse")
    assert found["layout"] == "C"
    assert [claim["layout"] for claim in found["disagreements"][0]["claims"]] == ["C", "B"]
    assert "The documents disagree" in umma("layout acc --m 128 --n 32 --cta-group 2 --sparse")[1]
    assert answer("layout acc --m 128 --n 32 --cta-group 2")["disagreements"] == []


def test_one_element_and_one_cell(answer):
    at = answer("layout acc --m 64 --n 64 --ws --at 5,40")
    assert at == {"layout": "E", "m": 5, "n": 40, "cta": 0, "lane": 69, "column": 8}
    assert answer("layout acc --m 64 --n 64 --ws --cell 69,8") == at
    assert answer("layout acc --m 256 --n 64 --cta-group 2 --cell 3,9,1")["m"] == 131
    assert answer("layout acc --m 64 --n 64 --cell 17,0")["m"] is None


def test_operand_a_json(answer):
    found = answer("layout a --m 128 --elem bf16 --cta-group 2")
    assert {"lane", "column", "bit", "copies", "cta"} <= set(found)
    assert found["copies"] == [[0, 64]]
    assert (len(found["lane"]), len(found["lane"][0])) == (128, 16)
    assert found["column"][7] == [k // 2 for k in range(16)]
    assert found["bit"][7] == [0, 16] * 8
    assert found["cta"][64] == [1] * 16
    assert answer("layout a --m 128 --elem bf16")["copies"] == [[0]]
    assert len(answer("layout a --m 128 --elem e2m1")["lane"][0]) == 64
    assert len(answer("layout a --m 128 --elem e2m1 --container 8")["lane"][0]) == 32
    assert len(answer("layout a --m 128 --elem tf32")["lane"][0]) == 8
    assert answer("layout a --m 32 --elem s8 --ws --cell 97,3,9")["k"] == 13


def test_scale_factor_json(answer):
    found = answer("layout sf --rows 128 --scale-vec 2 --sf-id 2")
    assert {"lane", "column", "byte", "copies"} <= set(found)
    assert found["copies"] == [0, 32, 64, 96]
    assert (found["lane"][70], found["column"][70], found["byte"][70]) == ([6, 6], [2, 2], [2, 3])
    halves = answer("layout sf --rows 256 --scale-vec 1 --cta-group 2")
    assert (halves["cta"][128], halves["column"][128]) == ([1], [0])
    split = answer("layout sf --rows 128 --scale-vec 1 --cta-group 2 --operand b --split-n")
    assert (split["copies"], split["in_both_ctas"], split["lane"][64]) == ([0, 32], True, [64])
    assert answer("layout sf --rows 128 --scale-vec 1 --cell 70,2,0")["row"] == 70
    # K = 96: scale 3 of SF_ID 2 is byte 1 of the next word, 8 columns further on for 256 rows
    last = answer("layout sf --rows 256 --scale-vec 6 --sf-id 2")
    assert (last["column"][255], last["byte"][255]) == ([7, 7, 15, 15, 15, 15], [2, 3, 0, 1, 2, 3])


def test_ldst_json(answer):
    case = next(c for c in golden("ldst_maps") if "16x256b.x2.b32" in c["ptx"])
    found = answer("ldst 16x256b.x2")
    assert found["registers"] == case["regs"] == 8
    assert addresses(found) == case["expanded"]
    assert "column_high" not in found
    packing = answer("ldst 16x256b.x2 --pack")
    assert packing["column"][0] == [2 * column for column in found["column"][0]]
    assert packing["column_high"][0] == [2 * column + 1 for column in found["column"][0]]
    assert answer("ldst 16x32bx2.x2 --half-split 7")["column"][16] == [7, 8]
    assert answer("ldst 16x32bx2.x2")["column"][16] == [2, 3]
    assert answer("ldst 16x128b.x2 --at 5,3") == {"thread": 5, "register": 3, "lane": 9, "column": 5}
    assert answer("ldst 16x128b.x2 --cell 9,5")["holders"] == [{"thread": 5, "register": 3, "low_bit": 0, "bits": 32}]


def test_cp_json(answer):
    case = next(c for c in golden("cp_maps") if "02_13" in c["ptx"])
    found = answer("cp 64x128b.warpx2::02_13")
    rows = zip(found["lane"], found["column"], found["row"], [8 * byte for byte in found["byte"]], strict=True)
    assert sorted(map(list, rows)) == sorted(case["expanded"])
    assert found["source"][0] == [[0, 0], [0, 1], [0, 2], [0, 3]]
    unpacked = answer("cp 32x128b.warpx4 --decompress b6x16_p32")
    assert unpacked["source"][1] == [[0, 3], [0, 4], [0, 5]]
    assert answer("cp 32x128b.warpx4 --cell 33,1")["source"] == [[1, 4], [1, 5], [1, 6], [1, 7]]
    assert answer("cp 32x128b.warpx4 --at 1,5")["cells"] == [[1, 1], [33, 1], [65, 1], [97, 1]]


@pytest.mark.parametrize(
    ("line", "header", "count", "last"),
    [
        ("layout acc --m 64 --n 8", "m,n,cta,lane,column", 512, ["63", "7", "0", "111", "7"]),
        ("layout a --m 64 --elem tf32", "m,k,cta,lane,column,bit", 512, ["63", "7", "0", "111", "7", "0"]),
        ("layout sf --rows 33 --scale-vec 1", "row,scale,cta,lane,column,byte", 33, ["32", "0", "0", "0", "1", "0"]),
        ("ldst 32x32b.x2", "thread,register,lane,column", 64, ["31", "1", "31", "1"]),
        ("ldst 32x32b.x1 --pack", "thread,register,lane,column,column_high", 32, ["31", "0", "31", "0", "1"]),
        ("cp 4x256b", "lane,column,row,byte", 32, ["96", "7", "3", "28"]),
        ("layout acc --m 64 --n 8 --at 63,7", "layout,m,n,cta,lane,column", 1, ["F", "63", "7", "0", "111", "7"]),
    ],
)
def test_csv(umma, line, header, count, last):
    code, out, _ = umma(f"{line} --format csv")
    rows = list(csv.reader(io.StringIO(out)))
    assert code == 0
    assert ",".join(rows[0]) == header
    assert len(rows) == count + 1
    assert rows[-1] == last


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("layout acc --m 128 --n 64", ["Layout D", "64 columns", "0-127", "D[0-127, 0-63]", "0x007f003f", "PTX ISA"]),
        ("layout acc --m 64 --n 64", ["Layout F", "96-111", "D[48-63, 0-63]", "·"]),
        ("layout acc --m 64 --n 8 --at 17,3", ["m 17, n 3", "lane 33", "column 3"]),
        ("layout acc --m 64 --n 8 --cell 17,3", ["no element"]),
        ("layout a --m 128 --elem e2m3 --cta-group 2", ["layout B", "2 copies, at lane + 0, 64", "8-13", "assumed"]),
        ("layout sf --rows 40 --scale-vec 1", ["32-39", "40 rows: 2 columns"]),
        ("ldst 16x256b.x1", ["16x256b.x1", "4 registers", "T31:3"]),
        ("ldst 32x32b.x1 --pack", ["T31:0.lo", "T31:0.hi"]),
        ("cp 64x128b.warpx2::01_23", ["64-95", "32-63", "12-15"]),
    ],
)
def test_text_shows_what_a_reader_looks_for(umma, line, parts):
    code, out, err = umma(line)
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    assert [part for part in parts if part not in out] == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("layout acc --m 96 --n 64", "M is 96, must be 64 or 128"),
        ("layout acc --m 64 --n 8 --at 64,0", "--at: m is 64, must be 0 to 63"),
        ("layout acc --m 64 --n 8 --at 3", "must be M,N"),
        ("layout acc --m 64 --n 8 --cell 128,0", "lane is 128, must be 0 to 127"),
        ("layout acc --m 64 --n 8 --cell 0,0,1", "CTA is 1, must be 0"),
        ("layout acc --m 64 --n 8 --cell 0,0 --at 0,0", "must be one of them"),
        ("layout a --m 64 --elem bf61", "did you mean bf16?"),
        ("layout a --m 64 --elem bf16 --k 24", "K is 24, must be a positive multiple of 16"),
        ("layout sf --rows 128 --scale-vec 2 --sf-id 1", "SF_ID is 1, must be 0, 2"),
        ("layout sf --rows 128 --scale-vec 5", "'5' is not one of"),
        ("ldst 16x256b.x64", "the largest is 16x256b.x32"),
        ("ldst 32x32b.x1 --half-split 1", "only 16x32bx2 has one"),
        ("ldst 32x32b.x1 --at 32,0", "thread is 32, must be 0 to 31"),
        ("cp 64x128b", "must be spelled 64x128b.warpx2::02_13"),
        ("cp 4x256b --decompress b6", "unknown tcgen05.cp source format 'b6'"),
    ],
)
def test_mistakes_leave_with_exit_code_2_and_say_what_was_expected(umma, line, message):
    code, out, err = umma(line)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize(
    ("terminal", "no_color", "coloured"), [(True, "", True), (True, "1", False), (False, "", False)]
)
def test_colour_only_on_a_terminal_without_no_color(monkeypatch, terminal, no_color, coloured):
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert ("\x1b[" in render(heading("Layout D"))) is coloured


def test_a_file_never_gets_colours(umma, monkeypatch, tmp_path):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.setenv("TERM", "xterm-256color")
    umma(f"layout acc --m 64 --n 8 -o {tmp_path / 'map.txt'}")
    text = (tmp_path / "map.txt").read_text()
    assert text.startswith("Layout F")
    assert "\x1b" not in text


def test_output_file(umma, tmp_path):
    file = tmp_path / "map.json"
    code, out, _ = umma(f"ldst 32x32b.x1 --json -o {file}")
    assert (code, out) == (0, "")
    assert json.loads(file.read_text())["registers"] == 1
