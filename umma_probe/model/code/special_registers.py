"""Special registers: each a function that gives the row of one CTA (PTX ISA, "Special Registers").

A name of :mod:`umma_probe.ptx.special_registers` that has no row here is :class:`NotModelled` when a kernel uses it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.model.code.variables import SHARED_BASE

if TYPE_CHECKING:
    from collections.abc import Callable

Dim3 = tuple[int, int, int]
SHARED_UNIT = 128
"""Bytes in which shared memory is allocated (PTX ISA, "Special Registers: %total_smem_size")."""
COOPERATIVE_SCRATCH = range(512, 512 + 288)
"""The part of the reserved shared memory that cooperative groups of several warps synchronise and reduce in: zero when
a CTA starts. Where it lies is not documented (``%reserved_smem_offset_1`` says); its size is the most that the CUDA
toolkit's cooperative_groups/details/memory.h expects."""


@dataclass(frozen=True, slots=True)
class CtaPlace:
    """What a CTA's special registers depend on. Coordinates are (x, y, z)."""

    grid: Dim3
    block: Dim3
    cluster: Dim3
    cta: Dim3
    explicit_cluster: bool
    sm: int
    sm_count: int
    dynamic_shared_bytes: int
    total_shared_bytes: int
    """Static and dynamic, in units of ``SHARED_UNIT``; what the system reserves is not among them."""
    grid_workspace: int = 0
    """Address of what the CTAs of a cooperative launch synchronise on; 0 in any other launch."""

    @property
    def cluster_index(self) -> Dim3:
        """Position of the cluster in the grid of clusters."""
        return _each(lambda i: self.cta[i] // self.cluster[i])

    @property
    def in_cluster(self) -> Dim3:
        """Position of the CTA in its cluster."""
        return _each(lambda i: self.cta[i] % self.cluster[i])

    @property
    def rank(self) -> int:
        """``%cluster_ctarank``."""
        x, y, z = self.in_cluster
        return x + self.cluster[0] * (y + self.cluster[1] * z)


def _each(function: Callable[[int], int]) -> Dim3:
    return function(0), function(1), function(2)


Row = Any
SPECIAL_REGISTERS: dict[str, Callable[[CtaPlace, Any], Row]] = {}
"""Name to a function of (place, linear thread index in the CTA as an array)."""

_LANES = np.uint32(1) << np.arange(32, dtype=np.uint32)


def _coordinates(name: str, value: Callable[[CtaPlace], Dim3]) -> None:
    for axis, letter in enumerate("xyz"):
        SPECIAL_REGISTERS[f"%{name}.{letter}"] = lambda p, t, axis=axis: value(p)[axis]  # type: ignore[misc]
    SPECIAL_REGISTERS[f"%{name}.w"] = lambda p, t: 0


def _lane_mask(name: str, mask: Any) -> None:
    table = np.asarray(mask, np.uint32)
    SPECIAL_REGISTERS[f"%lanemask_{name}"] = lambda p, t: table[t % 32]


SPECIAL_REGISTERS["%tid.x"] = lambda p, t: t % p.block[0]
SPECIAL_REGISTERS["%tid.y"] = lambda p, t: t // p.block[0] % p.block[1]
SPECIAL_REGISTERS["%tid.z"] = lambda p, t: t // (p.block[0] * p.block[1])
SPECIAL_REGISTERS["%tid.w"] = lambda p, t: 0
_coordinates("ntid", lambda p: p.block)
_coordinates("ctaid", lambda p: p.cta)
_coordinates("nctaid", lambda p: p.grid)
_coordinates("clusterid", lambda p: p.cluster_index)
_coordinates("nclusterid", lambda p: _each(lambda i: -(-p.grid[i] // p.cluster[i])))
_coordinates("cluster_ctaid", lambda p: p.in_cluster)
_coordinates("cluster_nctaid", lambda p: p.cluster)
SPECIAL_REGISTERS |= {
    "%laneid": lambda p, t: t % 32,
    "%warpid": lambda p, t: t // 32,
    "%nwarpid": lambda p, t: 64,
    "%smid": lambda p, t: p.sm,
    "%nsmid": lambda p, t: p.sm_count,
    "%gridid": lambda p, t: 1,
    "%is_explicit_cluster": lambda p, t: int(p.explicit_cluster),
    "%cluster_ctarank": lambda p, t: p.rank,
    "%cluster_nctarank": lambda p, t: p.cluster[0] * p.cluster[1] * p.cluster[2],
    "%dynamic_smem_size": lambda p, t: p.dynamic_shared_bytes,
    "%total_smem_size": lambda p, t: p.total_shared_bytes,
    "%aggr_smem_size": lambda p, t: p.total_shared_bytes + SHARED_BASE,
    "%reserved_smem_offset_begin": lambda p, t: 0,
    "%reserved_smem_offset_end": lambda p, t: SHARED_BASE,
    "%reserved_smem_offset_cap": lambda p, t: SHARED_BASE,
    "%reserved_smem_offset_1": lambda p, t: COOPERATIVE_SCRATCH.start,
    **{f"%envreg{n}": (lambda p, t: 0) for n in range(32)},
    # not PTX but what the driver promises cooperative_groups/details/driver_abi.h of the CUDA toolkit
    "%envreg1": lambda p, t: p.grid_workspace >> 32,
    "%envreg2": lambda p, t: p.grid_workspace & 0xFFFF_FFFF,
}
_lane_mask("eq", _LANES)
_lane_mask("lt", _LANES - 1)
_lane_mask("le", _LANES | (_LANES - 1))
_lane_mask("gt", ~(_LANES | (_LANES - 1)))
_lane_mask("ge", ~(_LANES - 1))

CLOCKS = frozenset({"%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"})
"""Registers that read the machine's step counter; their rows are refreshed while the kernel runs."""
for _name in CLOCKS:
    SPECIAL_REGISTERS[_name] = lambda p, t: 0
