"""The sm_90 probes on the model: they pass, they find what is planted, and they say what they need."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from umma_probe.errors import ConfigError, DeviceUnavailable
from umma_probe.harness.manifest import load_probe
from umma_probe.harness.run import run_probe
from umma_probe.harness.suites import mbarrier, tma_map, wgmma_desc_map, wgmma_layout, wgmma_numerics

CASES: list[tuple[str, dict[str, Any]]] = [
    ("wgmma-layout", {"n": 24, "a_type": "f16", "d_type": "f16"}),
    ("wgmma-layout", {"n": 8, "a_type": "tf32", "a_source": "registers"}),
    ("wgmma-layout", {"n": 48, "a_type": "s8", "swizzle": "none"}),
    ("wgmma-layout", {"n": 256, "a_type": "e4m3", "b_type": "e5m2", "swizzle": "32B"}),
    ("wgmma-desc-map", {"operand": "b", "major": "mn", "swizzle": "64B"}),
    ("wgmma-desc-map", {"type": "u8", "swizzle": "none", "lbo": 4096, "sbo": 256, "start": 512}),
    ("wgmma-desc-map", {"base_offset": 3, "start": 128}),
    ("wgmma-numerics", {"a_type": "e4m3", "d_type": "f16", "data": "special", "cases": 1}),
    ("wgmma-numerics", {"a_type": "tf32", "data": "small", "cases": 1, "negate_a": True}),
    ("tma-map", {"dtype": "u8", "tensor": "48,9,3", "box": "32,4,2", "start": "-16,-1,1", "swizzle": "32B"}),
    ("tma-map", {"dtype": "f32", "tensor": "16,40", "box": "16,32", "start": "4,20", "fill": "nan", "swizzle": "none"}),
    ("mbarrier", {"count": 7, "drop": True}),
]


@pytest.mark.parametrize(("probe", "params"), CASES, ids=[f"{p} {i}" for i, (p, _) in enumerate(CASES)])
@pytest.mark.parametrize("policy", ["eager", "lazy"])
def test_passes_on_the_model(probe: str, params: dict[str, Any], policy: str) -> None:
    report = run_probe(probe, params, target="model", policy=policy)
    assert report.verdict == "pass", [check for check in report.checks if check.verdict != "pass"]
    assert report.outputs


def test_wgmma_takes_its_own_architecture_and_no_other() -> None:
    assert run_probe("wgmma-layout", {"n": 8}, target="model").target.arch == "sm_90a"
    with pytest.raises(DeviceUnavailable, match="sm_100a has no wgmma, must be sm_90a"):
        run_probe("wgmma-layout", {"n": 8}, target="model", arch="sm_100a")


@pytest.mark.parametrize(
    ("params", "message"),
    [({"n": 40, "a_type": "s8"}, "N is 40"), ({"a_type": "bf16", "d_type": "f16"}, "D is f16"),
     ({"a_type": "e4m3", "b_type": "bf16"}, "of one kind")],
)  # fmt: skip
def test_illegal_shapes_are_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run_probe("wgmma-layout", params, target="model")


def _verdicts(judgement: Any) -> dict[str, str]:
    return {check.name: check.verdict for check in judgement.checks}


def _experiment(module: Any, probe: str, **params: Any) -> Any:
    return module.prepare(load_probe(probe).resolve(params), "sm_90a", 0)


def _outputs(probe: str, module: Any, **params: Any) -> tuple[Any, list[dict[str, Any]]]:
    """The experiment and what the model leaves."""
    from umma_probe.backends.model import ModelDevice
    from umma_probe.harness.run import _launch

    contract, experiment = load_probe(probe), _experiment(module, probe, **params)
    device = ModelDevice("sm_90a")
    source = contract.path.parent / contract.source
    options = [f"-D{key}={value}" for key, value in experiment.defines.items()]
    kernels = device.compile(source.read_text(), str(source), options=options)
    return experiment, [_launch(device, kernels[plan.entry], plan, 60)[1] for plan in experiment.launches]


def test_a_permuted_fragment_is_seen() -> None:
    experiment, outputs = _outputs("wgmma-layout", wgmma_layout, n=16)
    for output in outputs:
        output["d"][0][:, [0, 1]] = output["d"][0][:, [1, 0]]
    judged = experiment.judge(outputs)
    assert _verdicts(judged) == {"written": "pass", "elements": "pass", "fragment": "fail"}
    assert "thread 0, register 0 holds (0, 1), must hold (0, 0)" in judged.checks[2].message


def test_an_unwritten_register_is_seen() -> None:
    experiment, outputs = _outputs("wgmma-layout", wgmma_layout, n=8)
    before = np.asarray(experiment.launches[0].args[2].values)
    for output in outputs:
        output["d"][0][5, 2] = before[0][5, 2]
    judged = experiment.judge(outputs)
    assert _verdicts(judged)["written"] == "fail"
    assert "thread 5 register 2" in judged.checks[0].message


def test_another_byte_is_named() -> None:
    experiment, outputs = _outputs("wgmma-desc-map", wgmma_desc_map, type="bf16", swizzle="none")
    for output in outputs:
        output["d"][0] = output["d"][0][[4, *range(1, 4), 0, *range(5, 128)]]  # rows 0 and 1 change places
    judged = experiment.judge(outputs)
    assert _verdicts(judged) == {"fetched": "pass", "map": "fail"}
    assert "element (row 0, k 0) comes from byte 0x10, must from 0x0" in judged.checks[1].message


def test_one_wrong_word_is_told_with_both_values() -> None:
    experiment, outputs = _outputs("wgmma-numerics", wgmma_numerics, cases=1, n=8)
    outputs[0]["d"][0][0, 0] ^= 1
    judged = experiment.judge(outputs)
    assert judged.checks[0].actual == "1 of 512 differ"
    assert judged.checks[0].message.startswith("case 0 m 0 n 0; the first is 0x")


def test_a_moved_byte_of_a_box_is_told() -> None:
    experiment, outputs = _outputs("tma-map", tma_map)
    for output in outputs:
        output["dump"][[0, 16]] = output["dump"][[16, 0]]
    judged = experiment.judge(outputs)
    assert _verdicts(judged)["map"] == "fail"
    assert "shared byte 0x0 holds byte 16 of the tensor, must hold byte 0" in judged.checks[3].message


def test_a_late_phase_is_told() -> None:
    experiment, outputs = _outputs("mbarrier", mbarrier)
    answers = outputs[0]["answers"]
    at = int(np.flatnonzero(answers)[0])
    answers[at] = 0
    judged = experiment.judge(outputs)
    assert judged.checks[0].verdict == "fail"
    assert f"step {at}, " in judged.checks[0].message
