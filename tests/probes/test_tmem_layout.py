"""``tmem-layout`` on the model: the documents, the kernel's own staging and the machine agree; planted faults show."""

import itertools
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from umma_probe.assets import asset_dir
from umma_probe.backends.target import open_target
from umma_probe.errors import ConfigError
from umma_probe.harness import manifest
from umma_probe.harness.run import exit_code, run_probe
from umma_probe.record.schema import Report
from umma_probe.spec.shapes import legal_shapes

POLICIES = ("eager", "lazy", "random:7")
PLAIN = {"f16": [(64, 8), (128, 64), (128, 256)], "tf32": [(64, 256), (128, 24)], "f8f6f4": [(128, 96), (64, 16)],
         "i8": [(64, 24), (128, 48)]}  # fmt: skip
WS = [(32, 64), (64, 128), (128, 256)]
SHAPES = [(kind, m, n, False) for kind, shapes in PLAIN.items() for m, n in shapes] + [
    (kind, m, n, True) for kind, (m, n) in zip(PLAIN, itertools.cycle(WS), strict=False)
]


def layout(**params: object) -> Report:
    policy = str(params.pop("policy", "eager"))
    return run_probe("tmem-layout", params, target="model", policy=policy)


def passes(report: Report) -> None:
    assert report.verdict == "pass", [(c.name, c.actual, c.message) for c in report.checks if c.verdict != "pass"]


@pytest.mark.parametrize(
    ("kind", "m", "n", "ws", "policy"),
    [(*shape, "eager") for shape in SHAPES]
    + [("f16", 128, 64, False, "lazy"), ("i8", 64, 32, False, "random:7"), ("tf32", 32, 64, True, "random:8")],
)
def test_shapes(kind: str, m: int, n: int, ws: bool, policy: str) -> None:
    report = layout(kind=kind, m=m, n=n, ws=ws, policy=policy)
    passes(report)
    assert report.tmem is not None
    assert report.tmem.layout_recovered == {(False, 64): "F", (False, 128): "D"}.get((ws, m), "GED"[m // 64])


@pytest.mark.parametrize(
    "params",
    [
        {"m": 128},
        {"m": 64},
        {"m": 64, "taddr_lane": 16},
        {"m": 64, "ws": True},
        {"m": 32, "ws": True, "kind": "tf32"},
        {"m": 128, "kind": "f8f6f4", "a_type": "e2m1", "b_type": "e3m2"},
        {"m": 128, "kind": "i8", "a_type": "u8", "b_type": "s8"},
    ],
    ids=str,
)
def test_a_in_tensor_memory(params: dict[str, object]) -> None:
    passes(layout(n=64, a_source="tmem", k_tiles=2, policy="lazy", **params))


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("UMMA_PROBE_FULL"), reason="minutes; UMMA_PROBE_FULL=1 runs it")
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("ws", [False, True])
@pytest.mark.parametrize("kind", list(PLAIN))
def test_every_legal_shape(kind: str, ws: bool, policy: str) -> None:
    for m, n in legal_shapes(kind, 1, ws):
        passes(layout(kind=kind, m=m, n=n, ws=ws, policy=policy))


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize(("a_major", "b_major"), [("k", "k"), ("mn", "k"), ("k", "mn"), ("mn", "mn")])
def test_majorness_and_swizzle(a_major: str, b_major: str, swizzle: str) -> None:
    kind = "f16" if a_major == b_major else "f8f6f4"
    passes(layout(kind=kind, m=128, n=48, a_major=a_major, b_major=b_major, swizzle=swizzle, k_tiles=5))


def test_mn_major_tf32() -> None:
    passes(layout(kind="tf32", m=64, n=40, a_major="mn", b_major="mn", k_tiles=3))


@pytest.mark.parametrize(("a_type", "b_type"), [("e4m3", "e2m1"), ("e2m1", "e5m2"), ("e2m3", "e3m2"), ("e2m1", "e2m1")])
def test_narrow_types_and_16_bit_d(a_type: str, b_type: str) -> None:
    passes(layout(kind="f8f6f4", a_type=a_type, b_type=b_type, d_type="f16", n=256))


@pytest.mark.parametrize("readback", ["16x64b.x16", "16x128b.x8", "16x32bx2.x16", "16x256b.x1", "32x32b.x128"])
def test_readbacks(readback: str) -> None:
    passes(layout(n=16, readback=readback))


def test_columns_move_with_the_d_address() -> None:
    report = layout(m=128, n=64, taddr_column=448)
    passes(report)
    assert report.occupancy is not None
    assert report.occupancy.written_columns == "448-511"


def test_a_device_is_used_again() -> None:
    device = open_target("model", policy="lazy")
    for n in (16, 32):
        report = run_probe("tmem-layout", {"n": n}, device=device)
        passes(report)
        assert report.target.policy == "lazy"


def test_the_report_says_what_ran() -> None:
    report = layout(m=64, n=8)
    assert (report.command, report.probe, report.target.kind, report.target.arch) == (
        "run", "tmem-layout", "model", "sm_100a",
    )  # fmt: skip
    assert report.params["idesc"] == "0x04020490"
    assert report.environment.versions["numpy"] == np.__version__
    assert exit_code(report) == 0


def test_a_forced_shape_gets_no_expectation() -> None:
    with pytest.raises(ConfigError, match="M is 96, must be 64 or 128"):
        layout(m=96)
    report = run_probe("tmem-layout", {"m": 96}, target="model", force=True)
    assert report.verdict in ("undecided", "fault")
    assert any("M is 96" in note for note in report.notes)


# what is planted in the kernel's own code, and the checks that must fail
FAULTS = {
    "swizzle phase": ("smem >> 7 & (ROW_BYTES", "smem >> 8 & (ROW_BYTES", {"layout"}),
    "wrong stride": ("row / 8 * op.sbo", "row / 8 * (op.sbo / 2)", {"layout"}),
    "d one column further": ("d_taddr = tmem + d_offset", "d_taddr = tmem + d_offset + 1", {"layout", "missing"}),
}


@pytest.mark.parametrize("name", list(FAULTS))
def test_planted_faults_are_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's staging is a witness of its own: what is wrong there shows, the layouts cannot make up for it."""
    old, new, checks = FAULTS[name]
    folder = tmp_path / "probes"
    shutil.copytree(asset_dir("probes"), folder)
    touched = 0
    for path in folder.glob("*.cu*"):
        text = path.read_text()
        touched += text.count(old)
        path.write_text(text.replace(old, new))
    assert touched == 1
    monkeypatch.setattr(manifest, "asset_dir", lambda kind: folder)
    manifest.load_probe.cache_clear()
    try:
        report = layout(m=128, n=64)
    finally:
        manifest.load_probe.cache_clear()
    assert report.verdict == "fail"
    assert checks <= {check.name for check in report.checks if check.verdict == "fail"}
    assert report.diagnosis is not None
