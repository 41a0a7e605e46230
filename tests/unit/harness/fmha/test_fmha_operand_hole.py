"""Holes in V: where they are planted, and that they are recognised from O alone."""

from __future__ import annotations

import numpy as np
import pytest

from umma_probe.errors import ConfigError
from umma_probe.harness.fmha.compare import compare
from umma_probe.harness.fmha.inputs import Tensors, draw
from umma_probe.harness.fmha.limits import limits
from umma_probe.harness.fmha.operand_hole import plant, recognise
from umma_probe.harness.fmha.problem import FmhaProblem
from umma_probe.harness.fmha.reference import attention
from umma_probe.record.schema import Diagnosis

PROBLEM = FmhaProblem(64, seq_q=40, seq_k=48, heads=2, kv_heads=1)


def diagnose(tensors: Tensors, seen: Tensors, scale: float = 1) -> Diagnosis | None:
    """The cause when the kernel computes with ``seen`` instead of ``tensors``."""
    reference = attention(PROBLEM, tensors)
    limit = limits(PROBLEM, tensors, reference).o
    return recognise(
        PROBLEM, tensors, reference, compare(reference.o, attention(PROBLEM, seen).o * scale, limit), limit
    )


def test_elements_count_sixteen_keys_to_a_column() -> None:
    tensors = draw(PROBLEM, "normal", 0)
    v = plant(PROBLEM, tensors, "operand-hole:512-575,17").v
    zero = np.argwhere((v == 0) & (tensors.v != 0))
    assert set(zero[:, 3]) == {1, 32, 33, 34, 35}
    assert set(zero[zero[:, 3] == 1][:, 2]) == {1, 17, 33}
    assert set(zero[zero[:, 3] == 32][:, 2]) == set(range(48))


def test_the_historic_hole_is_named() -> None:
    tensors = draw(PROBLEM, "normal", 0)
    found = diagnose(tensors, plant(PROBLEM, tensors, "operand-hole:512-575,768-831"))
    assert found is not None
    assert found.cause.startswith("operand hole in V")
    text = " ".join(found.evidence)
    assert "zero: columns 32-35,48-51;" in text
    assert "elements 512-575,768-831" in text


def test_a_hole_of_single_elements_is_named() -> None:
    tensors = draw(PROBLEM, "normal", 1)
    found = diagnose(tensors, plant(PROBLEM, tensors, "operand-hole:3,100-101"))
    assert found is not None
    assert "elements 3,100-101" in " ".join(found.evidence)
    assert found.evidence[0] == "wrong in every tile: columns 0,6 of O; right: the other 62"


def test_one_column_is_one_column() -> None:
    tensors = draw(PROBLEM, "normal", 1)
    found = diagnose(tensors, plant(PROBLEM, tensors, "operand-hole:3"))
    assert found is not None
    assert found.evidence[0] == "wrong in every tile: column 0 of O; right: the other 63"


def test_what_is_no_hole_is_not_called_one() -> None:
    tensors = draw(PROBLEM, "normal", 2)
    swapped = Tensors(tensors.q, tensors.k, tensors.v[:, :, ::-1])
    assert diagnose(tensors, swapped) is None
    assert diagnose(tensors, tensors, scale=4) is None
    assert diagnose(tensors, tensors) is None


@pytest.mark.parametrize("fault", ["hole:1", "operand-hole", "operand-hole:1024", "operand-hole:x"])
def test_wrong_faults(fault: str) -> None:
    with pytest.raises(ConfigError):
        plant(PROBLEM, draw(PROBLEM, "normal", 0), fault)
