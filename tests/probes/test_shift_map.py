"""``shift-map`` on the model, and machines that shift otherwise: each is named."""

from pathlib import Path

import numpy as np
import pytest
from probe_runs import POLICIES, edited_kernel, failed, passes, run

from umma_probe.assets import asset_dir
from umma_probe.errors import ConfigError
from umma_probe.harness.suites import shift_map as suite
from umma_probe.model.mma import operand_fetch, tensor_core
from umma_probe.record.schema import Report

NEXT = "row i takes row i + 1, the last stays"
BEFORE = "row i takes row i - 1, the first stays"


def actual(report: Report, name: str) -> str:
    return next(check.actual for check in report.checks if check.name == name)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("params", [{}, {"refresh": True, "column": 100}, {"form": "ashift"}], ids=str)
def test_policies(params: dict[str, object], policy: str) -> None:
    report = run("shift-map", policy=policy, **params)
    passes(report)
    assert actual(report, "direction") == NEXT


@pytest.mark.parametrize("kind", ["tf32", "f8f6f4", "i8"])
def test_kinds(kind: str) -> None:
    passes(run("shift-map", form="ashift", kind=kind))


def test_partitions_of_an_address_are_noted() -> None:
    report = run("shift-map", lane="64")
    passes(report)
    assert actual(report, "partitions") == "2 move"


def test_the_copy_before_the_shift_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the fresh row is shifted to lane 30, and lane 31 keeps it."""
    source = (asset_dir("probes") / "shift_map.cu").read_text()
    shift = "    tcgen05_shift_down(tmem + taddr);\n"
    old = source[source.index(shift) : source.index("  });\n  dump_registers")]
    new = old.replace(shift, "") + shift
    with edited_kernel(old, new, tmp_path, monkeypatch):
        report = run("shift-map", refresh=True, policy="lazy")
    assert failed(report) == {"direction"}
    assert "30 takes none" in next(check.message for check in report.checks if check.name == "direction")


# what a machine leaves: the judgement of hand-made dumps
def cells(came_from: np.ndarray, column: int = 8) -> np.ndarray:
    lane, columns = np.indices((128, 512))
    words = np.uint32(0xFF80FC00) | (lane << 16 | columns + 1).astype(np.uint32)
    words[:, column : column + 8] = words[came_from, column : column + 8]
    dump = np.zeros((16, 4, 32, 32), np.uint32)  # 32x32b.x32: (instruction, warp, thread, register)
    for instruction in range(16):
        block = words[:, 32 * instruction : 32 * instruction + 32]
        dump[instruction] = block.reshape(4, 32, 32)
    return dump


LANES = np.arange(128)
MACHINES = {
    BEFORE: LANES - (LANES % 32 > 0),
    f"{NEXT}, over all lanes": np.minimum(LANES + 1, 127),
    f"{BEFORE}, over all lanes": np.maximum(LANES - 1, 0),
    "row i takes row i + 1, in a circle": LANES // 32 * 32 + (LANES + 1) % 32,
    "no row moves": LANES,
    "none of the known rules": (LANES + 2) % 128,
}


@pytest.mark.parametrize(("name", "came_from"), MACHINES.items(), ids=list(MACHINES))
def test_other_machines_are_named(name: str, came_from: np.ndarray) -> None:
    judged = suite.judge_cells(8, False, [{"dump": cells(came_from)}])
    found = {check.name: check for check in judged.checks}
    assert (found["direction"].verdict, found["direction"].actual) == ("fail", name)
    assert found["outside"].verdict == "pass"


def test_wider_elements_are_seen() -> None:
    came_from = np.minimum(LANES + 1, LANES // 32 * 32 + 31)
    judged = suite.judge_cells(4, False, [{"dump": cells(came_from, 8)}])
    assert "outside" in {check.name for check in judged.checks if check.verdict == "fail"}


def test_mma_that_shifts_the_other_way(monkeypatch: pytest.MonkeyPatch) -> None:
    original = operand_fetch.fetch_tmem_a

    def other_way(call, slot, feed):  # type: ignore[no-untyped-def]
        return [np.concatenate([a[:1], a[:1], a[:-2]]) for a in original(call, slot, feed)]

    monkeypatch.setattr(tensor_core, "fetch_tmem_a", other_way)
    report = run("shift-map", form="ashift")
    assert failed(report) == {"direction"}


def test_targets_without_it() -> None:
    with pytest.raises(ConfigError, match=r"must be an 'a' target for tcgen05\.shift"):
        run("shift-map", arch="sm_100f")
