"""What a probe's Python module gives: from parameters to an experiment, and from what it left to a judgement.

A probe is ``probes/NAME.cu`` (the kernel), ``probes/NAME.yaml`` (its contract) and ``harness/suites/NAME.py`` with a
function ``prepare(params, arch, seed) -> Experiment``. The runner does the rest: options, target, launches, report.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from umma_probe.errors import InternalError
from umma_probe.record.accuracy import Accuracy
from umma_probe.record.schema import Check, Diagnosis, Occupancy, SanitizerFinding, TmemRecord, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from umma_probe.errors import UmmaProbeError
    from umma_probe.spec.problems import Problem

Array = npt.NDArray[Any]
Outputs = dict[str, Array]


@dataclass(frozen=True)
class Input:
    """A buffer that the kernel reads."""

    values: Array


@dataclass(frozen=True)
class Output:
    """A buffer that the kernel writes; filled with ``0xA5`` bytes before, so that what it leaves out shows."""

    name: str
    shape: tuple[int, ...]
    dtype: npt.DTypeLike = np.uint32

    def initial(self) -> Array:
        """The contents before the launch."""
        dtype = np.dtype(self.dtype)
        count = int(np.prod(self.shape, dtype=np.int64)) * dtype.itemsize
        return np.full(count, 0xA5, np.uint8).view(dtype).reshape(self.shape)


@dataclass(frozen=True)
class Mapped:
    """A buffer that the kernel reads through a tensor map; ``fields`` are those of the device's ``tensor_map``."""

    values: Array
    fields: Mapping[str, Any]


Argument = Input | Output | Mapped | np.generic | bytes


@dataclass(frozen=True)
class LaunchPlan:
    """One launch; all launches of an experiment use the same code."""

    entry: str
    args: Sequence[Argument]
    grid: tuple[int, ...] = (1,)
    block: tuple[int, ...] = (128,)
    cluster: tuple[int, ...] | None = None
    dynamic_smem: int = 0
    label: str = ""


@dataclass
class Judgement:
    """What the outputs show."""

    checks: list[Check]
    tmem: TmemRecord | None = None
    occupancy: Occupancy | None = None
    diagnosis: Diagnosis | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    accuracy: Accuracy | None = None
    notes: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)


class Diagnose(Protocol):
    """From what a failed run left to its cause."""

    def __call__(
        self,
        outputs: Sequence[Outputs],
        again: Sequence[tuple[str, Sequence[Outputs]]],
        findings: Sequence[SanitizerFinding],
    ) -> Diagnosis | None:
        """The cause, or None where nothing is wrong.

        :param again: the same launches once more, labelled: under the model's other policies, repeated on a GPU.
        :param findings: the sanitizer's, on the model.
        """
        ...


@dataclass(frozen=True)
class Experiment:
    """Everything that is decided before anything runs."""

    params: Mapping[str, Any]
    """With the defaults that depend on other parameters filled in; goes into the report."""
    problems: Sequence[Problem]
    """Rules that the parameters break; the runner refuses them unless forced."""
    defines: Mapping[str, object]
    """``-D`` options."""
    launches: Sequence[LaunchPlan]
    judge: Callable[[Sequence[Outputs]], Judgement]
    """From the outputs of each launch, by name."""
    findings: Sequence[str] = ()
    """Ids of the recorded findings that the probe bears on."""
    source: str = ""
    """Another kernel than the contract's, beside it."""
    diagnose: Diagnose | None = None
    """Names the cause of a failure; for probes whose ``judge`` does not. See :class:`Diagnose`."""
    judge_fault: Callable[[UmmaProbeError], Judgement] | None = None
    """For an experiment that should fault: what it means that it did."""


class Suite(Protocol):
    """A module of ``harness/suites``."""

    def prepare(self, params: Mapping[str, Any], arch: str, seed: int = 0) -> Experiment:
        """Decide everything.

        :param seed: of what is drawn at random.

        :raises ConfigError: the parameters make no experiment, not even by force.
        """
        ...


def load_suite(probe: str) -> Suite:
    """The module of a probe.

    :raises InternalError: there is none.
    """
    name = f"umma_probe.harness.suites.{probe.replace('-', '_')}"
    try:
        module: Any = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise InternalError(f"probe '{probe}' has a contract, but {name} is missing") from error
    suite: Suite = module
    return suite


def noted(name: str, actual: str) -> Check:
    """What a target does where no document says what it should."""
    return Check(name, Verdict.PASS.value, "no document says", actual)


def passed(name: str, ok: bool, expected: str, actual: str, message: str = "") -> Check:
    """A check that passes or fails."""
    verdict = Verdict.PASS if ok else Verdict.FAIL
    return Check(name, verdict.value, expected, actual, "" if ok else message)
