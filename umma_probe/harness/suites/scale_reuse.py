"""``scale-reuse``: whether a copy of scale factors waits for an earlier MMA that reads the columns which it overwrites.

The PTX ISA lists ``tcgen05.cp`` before ``tcgen05.mma`` as a pipeline, and nothing for the other direction; kernels
known to work depend on it. A and B are ones, so that round r gives D = K * 2^r with its own scale factors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.harness.suite import Experiment, Judgement, LaunchPlan, Output, Outputs, passed
from umma_probe.harness.wording import counted
from umma_probe.record.sets import format_set
from umma_probe.spec.descriptors import Problem, encode_idesc, encode_smem_desc
from umma_probe.spec.kinds import KINDS, check_shape
from umma_probe.spec.machine import TMEM_LANES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from umma_probe.harness.suite import Array
    from umma_probe.record.schema import Check

_KIND, _TYPE, _M = "mxf8f6f4", "e4m3", 128
_COLUMNS = 384
"""That D of all rounds may take."""
_IMAGE = 512
"""Bytes of the scale factors of 128 rows."""


def prepare(params: Mapping[str, Any], arch: str, seed: int = 0) -> Experiment:
    """One launch; nothing is random."""
    n = int(params["n"])
    rounds = _COLUMNS // n
    problems: list[Problem] = check_shape(_KIND, m=_M, n=n, a_type=_TYPE, b_type=_TYPE, arch=arch)
    a_desc, b_desc = (encode_smem_desc(start_bytes=0, lbo_bytes=16 * rows, sbo_bytes=128) for rows in (_M, n))
    launch = LaunchPlan(
        entry="scale_reuse",
        args=[
            *map(np.uint64, (a_desc, b_desc, encode_smem_desc(start_bytes=0, lbo_bytes=16, sbo_bytes=128))),
            np.uint32(encode_idesc(_KIND, a_type=_TYPE, b_type=_TYPE, m=_M, n=n)),
            Output("d", (TMEM_LANES, rounds, n)),
        ],
        dynamic_smem=32 * (_M + n) + _IMAGE * (rounds + 1),
    )
    return Experiment(
        params=params,
        problems=problems,
        defines={"N": n, "ROUNDS": rounds, "WAIT": int(params["wait"])},
        launches=[launch],
        judge=judge,
    )


def judge(outputs: Sequence[Outputs]) -> Judgement:
    """Whose scale factors each round met."""
    met = scaled_by(outputs[0]["d"])
    own = np.arange(met.shape[1])[None, :, None]
    wrong = np.flatnonzero((met != own).any(axis=(0, 2)))
    metrics = {"rounds": float(met.shape[1]), "rounds_wrong": float(len(wrong))}
    return Judgement(list(_checks(met, own)), metrics=metrics)


def scaled_by(d: Array) -> Array:
    """The round whose scale factors each element of D met, (lane, round, column); -1 for none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        exponent = np.log2(d.view(np.float32).astype(np.float64) / KINDS[_KIND].k_dense)
    known = (exponent == np.floor(exponent)) & (exponent >= 0) & (exponent < d.shape[1])
    return np.where(known, exponent, -1).astype(np.int64)


def _checks(met: Array, own: Array) -> Iterator[Check]:
    for name, words, wrong in (
        ("scaled", "D names no round", met < 0),
        ("copy-in-time", "an earlier round's scale factors", (met >= 0) & (met < own)),
        ("copy-not-early", "a later round's scale factors", met > own),
    ):
        rounds = np.flatnonzero(wrong.any(axis=(0, 2)))
        yield passed(name, not len(rounds), "no round", counted(len(rounds), "round"),
                     f"rounds {format_set(rounds)}: {words}")  # fmt: skip
