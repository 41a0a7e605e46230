"""Scale factors and metadata looked for in the wrong columns: planted, and named from the dump alone."""

from __future__ import annotations

import numpy as np
import pytest
from probe_runs import POLICIES, run

from umma_probe.errors import ConfigError
from umma_probe.harness.displacement import diagnose_shift, shift_of

PLANTED = [
    ("sf-map", {"n": 8}, "scale-columns:a,4", "scale-factors-misplaced: scale factors of A are taken 4 columns"),
    ("sf-map", {"n": 8}, "scale-columns:b,1", "scale-factors-misplaced: scale factors of B are taken 1 column"),
    (
        "sf-map",
        {"n": 8, "kind": "mxf4nvf4"},
        "scale-columns:b,16",
        "scale factors of B are taken 16 columns further on",
    ),
    ("sparse-map", {}, "metadata-columns:2", "metadata-misplaced: metadata are taken 2 columns further on"),
    ("sparse-map", {"kind": "i8", "m": "64"}, "metadata-columns:4", "metadata are taken 4 columns further on"),
]


@pytest.mark.parametrize(("probe", "params", "fault", "cause"), PLANTED, ids=lambda value: str(value)[:30])
def test_the_shift_is_named(probe: str, params: dict[str, object], fault: str, cause: str) -> None:
    report = run(probe, inject=fault, **params)
    assert report.verdict == "fail"
    assert report.diagnosis is not None
    assert cause in report.diagnosis.cause
    assert report.diagnosis.confidence == "certain"


@pytest.mark.parametrize("probe", ["sf-map", "sparse-map"])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_clean_run_names_nothing(probe: str, policy: str) -> None:
    report = run(probe, policy=policy)
    assert (report.verdict, report.diagnosis) == ("pass", None)


@pytest.mark.parametrize(
    ("probe", "text"),
    [("sf-map", "scale-columns:c,4"), ("sf-map", "scale-columns:4"), ("sf-map", "scale-columns:a,17"),
     ("sf-map", "operand-hole:3"), ("sparse-map", "metadata-columns:-1"), ("sparse-map", "metadata-columns:a,2")],
)  # fmt: skip
def test_other_words_are_refused(probe: str, text: str) -> None:
    with pytest.raises(ConfigError, match="must be"):
        run(probe, inject=text)


def test_only_one_shift_of_all_elements_is_a_cause() -> None:
    documented = {"column": np.array([0, 0, 1, 1]), "byte": np.array([0, 1, 0, 1])}
    moved = {"column": np.array([3, 3, 4, 4]), "byte": documented["byte"]}
    mixed = {"column": np.array([3, 3, 4, 5]), "byte": documented["byte"]}
    assert shift_of(moved, documented) == {"column": 3, "byte": 0}
    assert shift_of(mixed, documented) is None
    assert shift_of(documented, documented) is None
    assert diagnose_shift("x", "y", mixed, documented) is None
