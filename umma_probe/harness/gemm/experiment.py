"""A GEMM probe's experiment: from its case to launches and a judgement. The probes' suites differ in the case only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from umma_probe.harness.gemm.judge import cell_checks, layout_of, observe, value_checks
from umma_probe.harness.gemm.launch import defines, launch
from umma_probe.harness.gemm.passes import Pass, gemm_passes
from umma_probe.harness.gemm.trial import Trial, seen_of
from umma_probe.harness.inject import inject
from umma_probe.harness.suite import Experiment, Judgement, Outputs, passed
from umma_probe.record.schema import TmemRecord
from umma_probe.spec.machine import TMEM_COLUMNS, TMEM_LANES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from umma_probe.harness.gemm.case import GemmCase
    from umma_probe.harness.gemm.recipe import Recipe
    from umma_probe.harness.occupancy import Observation
    from umma_probe.record.schema import Check

KERNEL = "gemm.cu"

if TYPE_CHECKING:
    Extra = Callable[[Trial, Observation], tuple[list[Check], list[str]]]


@dataclass(frozen=True)
class Plan:
    """Recipes and passes of one experiment; ``control`` is the column pass over a sentinel, after a fill of zeros."""

    clean: Recipe
    planted: Recipe
    passes: tuple[Pass, ...]
    before: Pass | None
    arch: str

    @property
    def runs(self) -> list[tuple[Pass, str]]:
        """Operands and fill of each launch. After zeros, a launch over the sentinel tells *zero* from *not written*."""
        runs = [(codes, self.clean.fill) for codes in self.passes]
        return [*runs, (self.passes[1], "sentinel")] if self.clean.fill == "zero" else runs

    def trial(self, outputs: Sequence[Outputs]) -> Trial:
        """What was seen."""
        seen = [seen_of(self.clean, codes, fill, output)
                for (codes, fill), output in zip(self.runs, outputs, strict=True)]  # fmt: skip
        clean = replace(
            self.clean, read_as_layout_d=self.planted.read_as_layout_d
        )  # the reader's belief, not the kernel's
        return Trial(clean, self.before, self.arch, seen)


def plan_of(
    case: GemmCase, clean: Recipe, before: tuple[Recipe, GemmCase] | None, fault: str | None, arch: str, seed: int
) -> Plan:
    """Draw the operands and plant the fault.

    :raises ConfigError: D cannot hold the coded sums, or no such fault.
    """
    types = case.a_type, case.b_type, case.d_type
    passes = gemm_passes(case.m, case.n, clean.tile_k, clean.tiles, types, salt=4 * seed)
    stale = None
    if before is not None:
        clean = replace(clean, before=before[0])
        stale = gemm_passes(before[1].m, before[1].n, clean.tile_k, before[1].tiles, types, salt=4 * seed + 2)[2]
    return Plan(clean, inject(clean, fault), passes, stale, arch)


def experiment(
    plan: Plan, params: Mapping[str, Any], problems: Sequence[Any], extra: Extra | None = None
) -> Experiment:
    """The launches and how they are judged.

    :param extra: from the trial and the observation to more checks and notes.
    """
    from umma_probe.harness.diagnosis.engine import diagnose

    return Experiment(
        params=params,
        problems=problems,
        defines=defines(plan.planted),
        launches=[_launch(plan, codes, fill) for codes, fill in plan.runs],
        judge=lambda outputs: judge(plan.trial(outputs), extra),
        diagnose=lambda outputs, again, findings: diagnose(
            plan.trial(outputs), [(label, plan.trial(other)) for label, other in again], findings
        ),
    )


def _launch(plan: Plan, codes: Pass, fill: str) -> Any:
    recipe = replace(plan.planted, fill=fill) if fill != plan.planted.fill else plan.planted
    return launch(recipe, codes, plan.before, f"{codes.name} pass over {fill}")


def judge(trial: Trial, extra: Extra | None = None) -> Judgement:
    """All checks, and the picture of the coded passes."""
    main = [seen for seen in trial.seen if seen.fill == trial.clean.fill]
    coded = [seen for seen in main if seen.codes.coded]
    observed = observe(trial, coded)
    expected, recovered = layout_of(trial, observed)
    values, metrics = value_checks(trial, main)
    layout = passed("layout", recovered == expected, expected, recovered, "the recovered map is another one")
    checks = [*cell_checks(trial, observed, main), *values, layout]
    notes: list[str] = []
    if extra is not None:
        more, notes = extra(trial, observed)
        checks += more
    return Judgement(
        checks=checks,
        tmem=TmemRecord(
            TMEM_LANES, TMEM_COLUMNS, observed.cells(), expected, recovered, observed.digests(), trial.clean.fill
        ),
        occupancy=observed.occupancy(),
        metrics=metrics,
        notes=notes,
    )
