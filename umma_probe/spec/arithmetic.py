"""How wide the tensor core's adder is: one row per generation, kind and scale type.

All floating-point kinds share one scheme. The products of one instruction and the accumulator are cut off, toward zero,
to a common quantum ``2^q``; what is left is added exactly; the sum is converted to D. The rows say how ``q`` follows
from the raw exponents (an exponent as encoded, unbiased; subnormals have that of the smallest normal number), which
terms are added before they are cut off, and how much of the sum an F32 result keeps.

None of this is in the PTX ISA. The rows rest on published comparisons with silicon and on models made from them: a
B200 for ``tcgen05`` (other targets are taken to do the same), Hopper for ``wgmma``. ``i8`` has no row: it is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

from umma_probe.errors import ConfigError, unknown_name
from umma_probe.registry import Registry
from umma_probe.spec.machine import arch as machine
from umma_probe.spec.sources import Evidence, Ref, assumed


@dataclass(frozen=True)
class Groups:
    """What the 4-bit block-scaled kinds add exactly before the cut, counted in stored elements of K.

    With ``P`` the largest raw exponent of a scaled product, ``S`` that of a pair of scales (of nonzero products) and
    ``C`` that of the accumulator: ``q = max(P - fraction_bits, C - fraction_bits, S - scale_fraction_bits)``.
    """

    size: int
    """Products that are summed exactly before they are cut off."""
    scale_fraction_bits: int
    accumulator_group_size: int
    """The same, where the accumulator outranks the products and sets the window."""
    accumulator_fraction_bits: int
    """Bits kept below the accumulator's raw exponent then."""
    per_group: bool
    """Whether the accumulator is compared with each group, or with the largest product of all."""
    subnormal_floor: int | None
    """Where the result is a subnormal F32: groups with less than the largest scale pair count only from ``2^floor``."""


@dataclass(frozen=True)
class Window:
    """The adder of one kind: bits kept below the largest raw exponent, and below the leading bit of an F32 result."""

    name: str
    fraction_bits: int
    result_fraction_bits: int
    groups: Groups | None
    refs: tuple[Ref, ...]
    operand_types: tuple[str, ...] = ()
    """Where the generation has fewer than the kind; empty for all of the kind's."""


WINDOWS: Registry[Window] = Registry("tensor-core arithmetic")


def _window(
    name: str,
    fraction_bits: int,
    *refs: Ref,
    result_fraction_bits: int = 23,
    groups: Groups | None = None,
    operand_types: tuple[str, ...] = (),
) -> None:
    WINDOWS.add(name, Window(name, fraction_bits, result_fraction_bits, groups, refs, operand_types))


_B200 = Ref("sf-tensor", "shared fixed-precision window", Evidence.MEASURED, "compared with a B200")
_B200_F16_D = Ref("sf-tensor", "F16 D", Evidence.MEASURED, "same window, rounded to nearest even")
_B200_MX = Ref("sf-tensor", "UE8M0 MXF8F6F4", Evidence.MEASURED, "scales are exact factors of each product")
_B200_MXF4 = Ref("sf-tensor", "UE8M0 MXF4 and MXF4NVF4", Evidence.MEASURED, "compared with a B200")
_B200_NVFP4 = Ref("sf-tensor", "UE4M3 NVFP4", Evidence.MEASURED, "compared with a B200")
_SIM = Ref("mma-sim", "tcgen05.mma", Evidence.MEASURED, "one fused sum, 25 fraction bits")
_SIM_HOPPER = Ref("mma-sim", "wgmma", Evidence.MEASURED, "one fused sum, 25 fraction bits")
_SIM_HOPPER_FP8 = Ref(
    "mma-sim", "wgmma with FP8", Evidence.MEASURED, "13 fraction bits in the sum and in an F32 result"
)

SCALE_INPUT_D = assumed(
    "tcgen05.mma, scale-input-d",
    "D is taken to be scaled exactly, before the window is placed; an MMA on a subnormal or an odd D would settle it",
)
K96 = assumed(
    "tcgen05.mma, K = 96",
    "the groups are taken to go on as for K = 64; a sum whose groups 5 and 6 lie at the window's end would settle it",
)
"""Gaps in what is published, and what is done instead."""

_UE8M0_GROUPS = Groups(
    size=16,
    scale_fraction_bits=35,
    accumulator_group_size=16,
    accumulator_fraction_bits=35,
    per_group=True,
    subnormal_floor=-174,
)
_UE4M3_GROUPS = Groups(
    size=4,
    scale_fraction_bits=35,
    accumulator_group_size=16,
    accumulator_fraction_bits=35,
    per_group=False,
    subnormal_floor=None,
)

#        name                  bits  refs
_window("tcgen05/f16", 25, _B200, _B200_F16_D, _SIM)
_window("tcgen05/tf32", 25, _B200, _SIM)
_window("tcgen05/f8f6f4", 25, _B200, _B200_F16_D, _SIM)
_window("tcgen05/mxf8f6f4", 25, _B200_MX, _SIM)
_window("tcgen05/mxf4", 39, _B200_MXF4, K96, groups=_UE8M0_GROUPS)
_window("tcgen05/mxf4nvf4/ue8m0", 39, _B200_MXF4, K96, groups=_UE8M0_GROUPS)
_window("tcgen05/mxf4nvf4/ue4m3", 39, _B200_NVFP4, K96, groups=_UE4M3_GROUPS)
_window("wgmma/f16", 25, _SIM_HOPPER)
_window("wgmma/tf32", 25, _SIM_HOPPER)
_window("wgmma/f8f6f4", 13, _SIM_HOPPER_FP8, result_fraction_bits=13, operand_types=("e4m3", "e5m2"))


def window_of(arch: str, kind: str, scale_type: str | None = None) -> Window:
    """The row of a kind on an architecture such as ``sm_100a``.

    :raises ConfigError: no such architecture, it has neither instruction, or not this kind.
    """
    row = machine(arch)
    if not row.has_tmem and row.compute_capability != (9, 0):
        raise ConfigError(f"arch is {arch}, must be one with tcgen05.mma or wgmma", hint="sm_100a, sm_90a")
    generation = "tcgen05" if row.has_tmem else "wgmma"
    name = f"{generation}/{kind}"
    if name not in WINDOWS and scale_type is not None:
        name = f"{name}/{scale_type}"
    if name not in WINDOWS:
        known = sorted({entry.removeprefix(f"{generation}/") for entry in WINDOWS if entry.startswith(generation)})
        raise ConfigError(unknown_name(f"arithmetic of {arch}", name.removeprefix(f"{generation}/"), known))
    return WINDOWS[name]
