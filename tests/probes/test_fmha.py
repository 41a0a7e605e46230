"""FMHA on the model: sizes, types and forms; edges; every timing gives the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from probe_runs import failed, passes, run

from umma_probe.assets import asset_file
from umma_probe.backends.model import ModelDevice
from umma_probe.errors import CompileError
from umma_probe.harness.manifest import load_probe
from umma_probe.harness.suite import LaunchPlan, Mapped, Output
from umma_probe.harness.suites.fmha import prepare
from umma_probe.record.schema import Report

DEFAULTS = load_probe("fmha").resolve({})


@pytest.mark.parametrize("p", ["tmem", "smem"])
@pytest.mark.parametrize(
    "case",
    [
        {"hd": 16, "dtype": "f16", "seq_q": 129, "seq_k": 200, "causal": True},
        {"hd": 32, "pv_n": "16", "seq_k": 129},
        {"hd": 64, "pv_n": "16", "heads": 2, "kv_heads": 1, "batch": 2, "causal": True},
        {"hd": 64, "dtype": "f16", "pv_n": "32", "seq_k": 512},
        {"hd": 96, "pv_n": "32"},
        {"hd": 128, "pv_n": "64", "dtype": "f16", "causal": True},
        {"hd": 192, "dtype": "f16"},
        {"hd": 256, "seq_k": 384},
    ],
    ids=lambda case: "-".join(f"{key}={value}" for key, value in case.items()),
)
def test_forms(p: str, case: dict[str, Any]) -> None:
    report = run("fmha", p=p, stage="all" if case["hd"] <= 96 else "none", **case)
    passes(report)
    assert report.metrics["cosine"] >= 0.99999
    assert not report.reviews


@pytest.mark.parametrize("inputs", ["equal", "large", "tiny", "rising", "minus-inf"])
def test_inputs(inputs: str) -> None:
    passes(run("fmha", hd=16, seq_k=384, inputs=inputs, stage="all"))
    passes(run("fmha", hd=16, seq_q=200, seq_k=129, causal=True, dtype="f16", p="smem", inputs=inputs))


def test_nan_stays_in_its_row_and_is_reported() -> None:
    report = run("fmha", hd=16, inputs="nan", stage="all")
    passes(report)
    assert report.notes == ["NaN in the inputs: 16 elements of O are NaN (1 rows expected), as they must be."]


@pytest.mark.parametrize(
    ("seq_q", "seq_k"),
    [(1, 1), (128, 1), (127, 127), (128, 128), (129, 129), (1000, 1000), (100, 300), (300, 100)],
)
def test_lengths(seq_q: int, seq_k: int) -> None:
    """With more queries than keys the first query tile has no KV tile at all."""
    passes(run("fmha", hd=16, seq_q=seq_q, seq_k=seq_k, causal=True, stage="all"))


def test_rows_that_see_no_key_are_zero() -> None:
    o, lse = _outputs(ModelDevice(), seq_q=300, seq_k=100, causal=True)
    assert not o[..., :200, :].any()
    assert np.isneginf(lse[..., :200]).all()
    assert np.isfinite(lse[..., 200:]).all()


def _outputs(device: ModelDevice, policy: str = "eager", **params: object) -> tuple[np.ndarray, np.ndarray]:
    (o, lse), outcome = _launch(device, policy, **params)
    assert not outcome.findings
    assert not outcome.reviews
    return o, lse


def _launch(device: ModelDevice, policy: str, **params: object):
    """O and LSE of one launch; code is compiled once for each form of the kernel."""
    experiment = prepare({**DEFAULTS, "hd": 16, **params}, "sm_100a", 1)
    plan: LaunchPlan = experiment.launches[0]
    key = tuple(experiment.defines.items())
    if key not in _KERNELS:
        path = asset_file("probes", "fmha.cu")
        options = [f"-D{name}={value}" for name, value in experiment.defines.items()]
        _KERNELS[key] = (device, device.compile(path.read_text(), str(path), options=options)["fmha"])
    device, kernel = _KERNELS[key]
    device.policy = policy
    outputs, alive, arguments = [], [], []
    for argument in plan.args:
        match argument:
            case Mapped(values, fields):
                alive.append(device.array(values))
                arguments.append(device.tensor_map(alive[-1], **fields))
            case Output():
                outputs.append(device.array(argument.initial()))
                arguments.append(outputs[-1])
            case _:
                arguments.append(argument)
    outcome = kernel.launch(grid=plan.grid, block=plan.block, dynamic_smem=plan.dynamic_smem, args=arguments)
    return [buffer.numpy() for buffer in outputs], outcome


_KERNELS: dict[object, object] = {}


@pytest.mark.slow
@pytest.mark.parametrize("p", ["tmem", "smem"])
def test_every_timing_gives_the_same_bits(p: str) -> None:
    sizes = {"p": p, "seq_q": 129, "seq_k": 512}
    expected = _outputs(ModelDevice(), **sizes)
    for policy in ["lazy", *(f"random:{seed}" for seed in range(20))]:
        actual = _outputs(ModelDevice(), policy, **sizes)
        assert [x.tobytes() for x in expected] == [x.tobytes() for x in actual], policy


# ---------------------------------------------------------------------- what goes wrong
def test_the_historic_picture() -> None:
    """The hole that was once taken for skipped columns."""
    report = run("fmha", hd=64, inject="operand-hole:512-575,768-831")
    assert report.verdict == "fail"
    assert failed(report) == {"cosine", "O"}
    assert report.diagnosis is not None
    assert report.diagnosis.cause.startswith("operand hole in V")
    assert any("elements 512-575,768-831" in line for line in report.diagnosis.evidence)
    accuracy = report.accuracy
    assert accuracy is not None
    assert accuracy.error_map is not None
    assert set(accuracy.error_map.lines) == {"." * 32 + "0" * 4 + "." * 12 + "0" * 4 + "." * 12}
    wrong = [d for d, error in enumerate(accuracy.column_max_abs_error) if error > 0.05]
    assert wrong == [32, 33, 34, 35, 48, 49, 50, 51]


def _run_source(monkeypatch: pytest.MonkeyPatch, change: tuple[str, str], **params: object) -> Report:
    """The probe with one change in its source."""
    original = ModelDevice.compile

    def compile_changed(self: ModelDevice, source: str, name: str = "", **options: object):
        assert source.count(change[0]) == 1
        return original(self, source.replace(*change), name, **options)

    monkeypatch.setattr(ModelDevice, "compile", compile_changed)
    return run("fmha", hd=32, **params)


@pytest.mark.parametrize(
    ("change", "first"),
    [
        (("k + Operand::k_major_offset(i)", "k"), "S = Q K^T"),
        (("maximum(s) * problem.scale_log2", "s[0] * problem.scale_log2"), "row maximum"),
        (("fmaf(row_sum, rescale, sum(s))", "row_sum + sum(s)"), "row sum"),
        (("pack_elements(s[2 * i], s[2 * i + 1])", "pack_elements(s[2 * i + 1], s[2 * i])"), "P"),
        (("rescale_output(rescale);", ";"), "O before the division"),
    ],
)  # fmt: skip
def test_the_first_wrong_stage_is_named(monkeypatch: pytest.MonkeyPatch, change: tuple[str, str], first: str) -> None:
    report = _run_source(monkeypatch, change, stage="all", inputs="rising")
    assert report.verdict == "fail"
    assert report.accuracy is not None
    assert next(stage.name for stage in report.accuracy.stages if stage.verdict == "fail") == first
    assert report.diagnosis is not None
    assert report.diagnosis.cause == f"the first wrong stage is {first}"


def test_a_wrong_division_shows_in_o_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    report = _run_source(monkeypatch, ("row_sum == 0 ? 0 : 1 / row_sum", "1"), stage="all")
    assert failed(report) == {"O"} or failed(report) == {"O", "cosine"}


@pytest.mark.parametrize(
    ("define", "value", "message"),
    [
        ("EXPECTED_SMEM_BYTES", 1024, "the host's budget differs from the kernel's"),
        ("EXPECTED_PANEL_COLUMNS", 32, "the tensor maps' boxes are not the kernel's"),
        ("PV_N", 48, "sub-tiles of PV cover the head dimension"),
    ],
)
def test_the_kernel_checks_its_budget(define: str, value: int, message: str) -> None:
    path = asset_file("probes", "fmha.cu")
    defines = prepare(DEFAULTS, "sm_100a").defines
    assert define in defines
    options = [f"-D{name}={value}" for name, value in {**defines, define: value}.items()]
    with pytest.raises(CompileError, match=message):
        ModelDevice().compile(path.read_text(), str(path), options=options)
