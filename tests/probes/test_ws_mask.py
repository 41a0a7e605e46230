"""``ws-mask`` on the model: hand-counted runs, every M, and planted faults of either witness."""

import pytest
from probe_runs import POLICIES, failed, passes, run

from umma_probe.errors import ConfigError
from umma_probe.harness.suites import ws_mask as suite
from umma_probe.model.mma import mma_issue, zero_column_mask


def zeroed(report: object) -> str:
    (check,) = [check for check in report.checks if check.name == "zeroed"]  # type: ignore[attr-defined]
    return str(check.actual)


def test_runs_counted_by_hand() -> None:
    """M = 64, N = 64: two parts of 32 columns; zeroed 4, used 12; the second begins used, 3 columns shorter."""
    report = run("ws-mask", m="64", n="64", zero_run=4, used_run=12, zero_first="1,0", start="0,3")
    passes(report)
    assert zeroed(report) == "columns 0-3,16-19,41-44,57-60"


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("m", "n"), [("32", "64"), ("64", "128"), ("128", "256")])
def test_every_m_under_every_policy(m: str, n: str, policy: str) -> None:
    passes(run("ws-mask", m=m, n=n, shift=16, policy=policy))


@pytest.mark.parametrize("kind", ["tf32", "f8f6f4", "i8"])
def test_kinds(kind: str) -> None:
    passes(run("ws-mask", kind=kind, m="32", n="64", start="0,1,2,200"))


def test_disabled_still_shifts() -> None:
    report = run("ws-mask", m="128", n="64", disabled=True, shift=20)
    passes(report)
    assert zeroed(report) == "no column"


def test_machine_with_the_spans_of_the_field_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zeroed and used exchanged: the probe says just that."""
    original = zero_column_mask.decode_mask

    def exchanged(word: int, m: int, n: int, max_shift: int) -> object:
        zero, shift = original(word, m, n, max_shift)
        return ~zero, shift

    monkeypatch.setattr(mma_issue, "decode_mask", exchanged)
    report = run("ws-mask", m="64", n="64")
    assert failed(report) == {"zeroed"}
    (check,) = [check for check in report.checks if check.name == "zeroed"]
    assert "exchanged" in check.message


def test_machine_that_shifts_one_too_far(monkeypatch: pytest.MonkeyPatch) -> None:
    original = zero_column_mask.decode_mask
    monkeypatch.setattr(mma_issue, "decode_mask", lambda *args: (original(*args)[0], original(*args)[1] - 1))
    report = run("ws-mask", m="128", n="64", shift=8)
    assert failed(report) == {"shift"}
    (check,) = [check for check in report.checks if check.name == "shift"]
    assert check.message == "column 3 takes column 10"


def test_wrong_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layout D in place of G: rows and cells do not fit."""
    monkeypatch.setattr(suite, "accumulator_map", lambda m, n, ws: _plain(m, n))
    assert failed(run("ws-mask", m="64", n="64")) >= {"rows", "outside"}


def _plain(m: int, n: int) -> object:
    from umma_probe.layouts.tmem_accumulator import accumulator_map

    return accumulator_map(m, n)


def test_values_that_no_mask_has() -> None:
    with pytest.raises(ConfigError, match="start is '1,2,300'"):
        run("ws-mask", start="1,2,300")
    with pytest.raises(ConfigError, match="shift is 20, must be at most 16"):
        run("ws-mask", m="32", shift=20)
