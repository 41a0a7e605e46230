"""``numerics`` on the model: every kind, the words measured on a B200, and planted faults of either witness."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from probe_runs import POLICIES, failed, passes, run

from umma_probe.cli.commands import dot
from umma_probe.errors import ConfigError
from umma_probe.harness.manifest import load_probe
from umma_probe.harness.suites import numerics as suite
from umma_probe.model.mma import tensor_core

VECTORS = Path(__file__).parents[1] / "vectors" / "b200_words.json"


def forms() -> dict[tuple[object, ...], dict[str, object]]:
    """Every instruction of which the file has vectors, as options."""
    found: dict[tuple[object, ...], dict[str, object]] = {}
    for vector in json.loads(VECTORS.read_text())["vectors"]:
        scales = vector.get("scale_vec")
        options = {
            "kind": vector["kind"], "a_type": vector["a_format"], "b_type": vector["b_format"],
            "d_type": vector["d_format"], "saturate": vector.get("saturate", False),
            "scale_vec": str(scales) if scales else None, "scale_type": vector.get("scale_format"),
        }  # fmt: skip
        found[tuple(options.values())] = options
    return found


@pytest.mark.parametrize("options", list(forms().values()), ids=lambda o: "-".join(str(v) for v in o.values() if v))
def test_words_measured_on_a_b200(options: dict[str, object]) -> None:
    report = run("numerics", vectors=str(VECTORS), **options)
    passes(report)
    assert "silicon" in {check.name for check in report.checks}


def test_all_vectors_are_run() -> None:
    wanted = [suite.Form.of({**options, "negate_a": False, "scale_input_d": 0}) for options in forms().values()]
    listed = json.loads(VECTORS.read_text())["vectors"]
    assert sum(len(suite._from_file(form, VECTORS).silicon) for form in wanted) == len(listed) == 30  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "params",
    [
        {"kind": "f16", "a_type": "f16", "d_type": "f16", "data": "special"},
        {"kind": "f8f6f4", "a_type": "e2m1", "b_type": "e3m2", "negate_a": True, "data": "wide"},
        {"kind": "f8f6f4", "a_type": "e2m3", "d_type": "f16", "data": "cancelling"},
        {"kind": "mxf8f6f4", "a_type": "e5m2", "b_type": "e3m2", "data": "any", "n": 128},
        {"kind": "mxf4", "data": "any"},
        {"kind": "mxf4nvf4", "data": "wide"},
        {"kind": "i8", "b_type": "u8", "saturate": True, "data": "any"},
    ],
    ids=str,
)
def test_drawn_operands(params: dict[str, object]) -> None:
    passes(run("numerics", **params))


@pytest.mark.parametrize("policy", POLICIES)
def test_policies(policy: str) -> None:
    passes(run("numerics", kind="tf32", n=8, policy=policy))


def test_upper_halves_of_f16_results_are_noted() -> None:
    report = run("numerics", a_type="f16", d_type="f16", data="normal", n=8)
    assert [check.actual for check in report.checks if check.name == "upper-halves"] == ["zero"]


def test_machine_that_rounds_to_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last bit of results differs; the command in the message computes the word that the rule gives."""
    original = tensor_core.mma
    monkeypatch.setattr(tensor_core, "mma", lambda *args, **options: original(*args, **options) + np.uint32(1))
    report = run("numerics", data="wide", n=8, negate_a=True)
    assert failed(report) == {"wide"}
    (check,) = [check for check in report.checks if check.name == "wide"]
    words, command = check.message.split(", the word by: umma-probe dot ")
    found, expected = (int(text.split()[-1], 16) for text in words.split(", must be "))
    assert found == expected + 1
    answer = CliRunner().invoke(dot.command, shlex.split(command), catch_exceptions=False)
    assert int(answer.output, 16) == expected


def test_wrong_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    original = suite.mma
    monkeypatch.setattr(suite, "mma", lambda *args, **options: original(*args, **{**options, "negate_a": True}))
    assert failed(run("numerics", data="normal", n=8)) == {"normal"}


def test_what_a_kind_does_not_have() -> None:
    with pytest.raises(ConfigError, match="saturate is given, must be left out under kind::f16"):
        run("numerics", saturate=True)
    with pytest.raises(ConfigError, match="scale-vec and scale-type must be left out"):
        run("numerics", scale_vec="2")
    with pytest.raises(ConfigError, match="cannot read"):
        run("numerics", vectors=str(VECTORS.with_name("nothing.json")))
    with pytest.raises(ConfigError, match="is of kind f16 with bf16, f16, f32"):
        run("numerics", a_type="bf16", b_type="f16", vectors=str(VECTORS))


@pytest.mark.parametrize("scale", [1, 7, 15])
@pytest.mark.parametrize("types", [{}, {"a_type": "f16", "d_type": "f16"}, {"kind": "tf32"}], ids=str)
def test_scale_input_d(types: dict[str, object], scale: int) -> None:
    report = run("numerics", n=8, scale_input_d=scale, **types)
    passes(report)
    assert next(check.expected for check in report.checks) == "1024 words by float64"


def test_machine_that_scales_c_by_half_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    original = tensor_core.mma
    monkeypatch.setattr(
        tensor_core,
        "mma",
        lambda *args, scale_input_d, **rest: original(*args, scale_input_d=scale_input_d // 2, **rest),
    )
    assert {"exact", "normal"} <= failed(run("numerics", n=8, scale_input_d=4))


@pytest.mark.parametrize(
    ("words", "added"),
    [
        ("unchanged", lambda c: c),
        ("shifted to the right", lambda c: c >> 2),
        ("divided, towards zero", lambda c: np.trunc(c / 4)),
        ("divided, to the nearest even", lambda c: np.rint(c / 4)),
        ("left out", np.zeros_like),
        ("something else", lambda c: c << 1),
    ],
)
def test_what_i8_makes_of_it_is_named(words: str, added: Callable[[np.ndarray], np.ndarray]) -> None:
    contract = load_probe("numerics").resolve({"kind": "i8", "scale_input_d": 2, "n": 8})
    form = suite.Form.of(contract)
    numbers = suite._exact(form, 8, 0)
    a, b = (operand.astype(np.uint8).view(np.int8).astype(np.int64) for operand in (numbers.a, numbers.b))
    d = (a @ b.T + added(numbers.c.view(np.int32).astype(np.int64))).astype(np.int64).astype(np.uint32)
    (check,) = suite.judge(form, [numbers], "sm_100a", [{"d": d}]).checks
    assert (check.name, check.verdict, check.actual) == ("scaled-c", "pass", words)


def test_scale_input_d_of_other_kinds() -> None:
    with pytest.raises(ConfigError, match="scale-input-d is 1, must be 0 under kind::i8"):
        run("numerics", kind="i8", scale_input_d=1)
    assert run("numerics", kind="i8", scale_input_d=1, force=True).verdict == "undecided"
    with pytest.raises(ConfigError, match="the assembler refuses it"):
        run("numerics", kind="f8f6f4", scale_input_d=1, force=True)
