"""Limits of the machines that a kernel may be built for, one row per compile target.

A target is what ``.target`` names: ``sm_100a`` (architecture-specific) and ``sm_100f`` (family) are different rows of
one chip, because the assembler accepts different instructions for them. Plain targets (``sm_100``) have no Tensor
Memory instructions and so no row. The shared-memory limits are those that NVIDIA's assembler enforces when it links.
"""

from __future__ import annotations

from dataclasses import dataclass

from umma_probe.registry import Registry
from umma_probe.spec.sources import Evidence, Ref, assumed, documented

KIB = 1024

TMEM_LANES = 128
TMEM_COLUMNS = 512
"""Columns of 32 bits."""
WARP_THREADS = 32


@dataclass(frozen=True)
class Arch:
    """One compile target and the limits of the chip behind it."""

    name: str
    compute_capability: tuple[int, int]
    gpu: str
    has_tmem: bool
    """Whether the ``tcgen05`` family assembles for it."""
    architecture_specific: bool
    """An ``a`` target; else a family (``f``) target."""
    smem_per_cta_bytes: int
    """The most that one CTA can have, static and dynamic together, after opting in."""
    max_cluster_ctas: int
    """With the non-portable attribute; 8 is portable everywhere."""
    refs: tuple[Ref, ...]
    smem_per_cta_default_bytes: int = 48 * KIB
    """The most without opting in, and the most for static shared memory in one launch without attributes."""
    smem_reserved_bytes: int = 1 * KIB
    """What the system keeps of each CTA's shared memory."""
    max_threads_per_cta: int = 1024
    max_block: tuple[int, int, int] = (1024, 1024, 64)
    max_grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    registers_per_cta: int = 64 * KIB
    registers_per_thread: int = 255
    portable_cluster_ctas: int = 8
    threads_per_sm: int = 2048
    ctas_per_sm: int = 32

    @property
    def has_wgmma(self) -> bool:
        """Whether the ``wgmma`` family assembles for it: on compute capability 9.0 alone."""
        return self.compute_capability == (9, 0)

    @property
    def smem_per_sm_bytes(self) -> int:
        """What the CTAs of one multiprocessor share: one CTA's most, and what the system keeps of that CTA's."""
        return self.smem_per_cta_bytes + self.smem_reserved_bytes

    @property
    def tmem_columns(self) -> int:
        """512, or 0 without Tensor Memory."""
        return TMEM_COLUMNS if self.has_tmem else 0

    @property
    def tmem_lanes(self) -> int:
        """128, or 0 without Tensor Memory."""
        return TMEM_LANES if self.has_tmem else 0


ARCHS: Registry[Arch] = Registry("architecture")

_LIMITS = Ref("cuda-guide", "Compute Capabilities, technical specifications per compute capability")
_TMEM = documented("Tensor Memory", "128 lanes by 512 columns of 32 bits per CTA")
_ACCEPTS = Ref("assembler", "tcgen05 per target", Evidence.MEASURED, "which targets accept which tcgen05 instruction")
_SMEM = Ref("assembler", "shared data limit", Evidence.MEASURED, "one byte more is refused when linking")
_CLUSTER = assumed(
    "Cluster size", "16 is stated for sm_90 and sm_100; 8 is taken here: cudaOccupancyMaxPotentialClusterSize"
)


def arch(name: str) -> Arch:
    """The row of a compile target.

    :raises ConfigError: unknown, with the nearest names.
    """
    return ARCHS[name]


def _chip(
    cc: tuple[int, int], suffixes: str, gpu: str, smem_kib: int, cluster: int, *, has_tmem: bool,
    threads: int = 2048, ctas: int = 32,
) -> None:  # fmt: skip
    refs = (_LIMITS, _SMEM, _ACCEPTS, *((_TMEM,) if has_tmem else ()), *((_CLUSTER,) if cluster == 8 else ()))
    for suffix in suffixes:
        name = f"sm_{cc[0]}{cc[1]}{suffix}"
        ARCHS.add(name, Arch(name, cc, gpu, has_tmem, suffix == "a", smem_kib * KIB, cluster, refs,
                              threads_per_sm=threads, ctas_per_sm=ctas))  # fmt: skip


#     cc       targets GPU                  smem  cluster
_chip((9, 0), "a", "H100, H200", 227, 16, has_tmem=False)
_chip((10, 0), "af", "B200, GB200", 227, 16, has_tmem=True)
_chip((10, 3), "af", "B300, GB300", 227, 16, has_tmem=True)
_chip((10, 7), "af", "compute capability 10.7", 227, 8, has_tmem=True)
_chip((11, 0), "af", "Thor", 227, 8, has_tmem=True, threads=1536, ctas=24)
_chip((12, 0), "a", "RTX 50, RTX PRO", 99, 8, has_tmem=False, threads=1536, ctas=24)
