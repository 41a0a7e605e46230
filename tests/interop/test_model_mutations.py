"""A model that is wrong in any of these ways is noticed by a kernel or a probe of this project."""

from __future__ import annotations

import pytest
from model_mutations import MUTATIONS, Mutation, planted
from mutation_cases import Witness, complains, own_witnesses

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def witnesses(tmp_path_factory: pytest.TempPathFactory) -> list[Witness]:
    return list(own_witnesses(tmp_path_factory.mktemp("cases")))


def test_nobody_complains_without_a_fault(witnesses: list[Witness]) -> None:
    assert [witness.name for witness in witnesses if complains(witness)] == []


@pytest.mark.parametrize("fault", MUTATIONS, ids=lambda fault: fault.name)
def test_somebody_notices(fault: Mutation, witnesses: list[Witness]) -> None:
    with planted(fault):
        assert any(complains(witness) for witness in witnesses)
