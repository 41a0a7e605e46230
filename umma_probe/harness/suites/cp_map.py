"""``cp-map``: from which bit of shared memory ``tcgen05.cp`` brings each bit of Tensor Memory.

The source is staged by bit patterns that no layout touches (``harness.address_coding``). Expected is the composition of
two documents: the copy's map from source rows and bytes to cells (``layouts.tmem_cp``), and the descriptor's from rows
and bytes to addresses (``layouts.smem_operand``). Bits of a decompressed byte that no value fills come from nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import ConfigError
from umma_probe.harness.address_coding import NOWHERE, BitCoding
from umma_probe.harness.fills import sentinel_words
from umma_probe.harness.occupancy import place
from umma_probe.harness.placement import place_operand
from umma_probe.harness.readback import Readback
from umma_probe.harness.suite import Experiment, Input, Judgement, LaunchPlan, Output, Outputs, passed
from umma_probe.harness.wording import counted
from umma_probe.layouts.scale_factors import BlockOrder, scale_factor_map, scale_image_map
from umma_probe.layouts.smem_operand import element_bit_address
from umma_probe.layouts.tmem_cp import CpMap, cp_map
from umma_probe.layouts.tmem_ldst import parse
from umma_probe.record.schema import Check
from umma_probe.spec.descriptors import SmemDescriptor, Swizzle, decode_smem_desc, encode_smem_desc
from umma_probe.spec.kinds import Packing
from umma_probe.spec.machine import TMEM_LANES
from umma_probe.spec.problems import Problem
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from umma_probe.harness.address_coding import Addresses
    from umma_probe.harness.suite import Array

_CP = documented("tcgen05.cp: .shape and .multicast")
_CANONICAL = documented("Canonical layouts", "with a swizzle, a row is at most as wide as the swizzle")
_READBACK = Readback(parse("32x32b.x32"))
_COLUMNS = 8
_BITS = 32
_UNIT = 1024
_MARGIN = 2048
"""Bytes of the pattern beyond the last one that should be read."""
_SCALE_ROWS, _SCALES, _SCALE_SBO = 128, 4, 128


@dataclass(frozen=True)
class CpCase:
    """One copy."""

    map: CpMap
    desc: SmemDescriptor
    """Its start counts from the first byte of the pattern."""
    column: int
    lane: int

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> CpCase:
        """Fill in the strides.

        :raises ConfigError: a lane for a form that writes them all.
        """
        copied = cp_map(params["form"], None if params["decompress"] == "none" else params["decompress"])
        if params["lane"] and copied.spec.shape.name != "4x256b":
            raise ConfigError(f"lane is {params['lane']}, must be 0 for {params['form']}", ref=str(_CP))
        swizzle = Swizzle.from_text(params["swizzle"])
        compact = place_operand("f8f6f4", "e4m3", copied.spec.shape.rows, 1, "k", swizzle)
        word = encode_smem_desc(
            start_bytes=params["start"],
            lbo_bytes=compact.lbo if params["lbo"] is None else params["lbo"],
            sbo_bytes=compact.sbo if params["sbo"] is None else params["sbo"],
            swizzle=swizzle,
        )
        return cls(copied, decode_smem_desc(word), params["column"], params["lane"])

    @cached_property
    def expected(self) -> Addresses:
        """Address of each bit, shape (128, 8, 32) from the destination's column; -1 for bits that nothing brings."""
        bits = np.full((TMEM_LANES, _COLUMNS, _BITS), NOWHERE, np.int64)
        packed = self.map.spec.decompression
        width, low = (packed.value_bits, packed.low_bit) if packed else (8, 0)
        for number in range(_BITS // 8 * width):  # of the bits of one cell in the source
            row_bit = 8 * self.map.byte + number
            address = element_bit_address(self.desc, "k", 8, Packing.DENSE, self.map.row, row_bit // 8) + row_bit % 8
            bits[self.map.lane + self.lane, self.map.column, number // width * 8 + low + number % width] = address
        return bits

    @cached_property
    def coding(self) -> BitCoding:
        """Of the source."""
        return BitCoding(-(-(int(self.expected.max()) // 8 + _MARGIN) // _UNIT) * _UNIT)

    @property
    def is_scale_copy(self) -> bool:
        """Whether an image of scale factors would be copied so."""
        plain = self.map.spec.decompression is None and self.desc.swizzle is Swizzle.NONE
        return plain and self.map.spec.shape.name == "32x128b.warpx4" and self.desc.sbo_bytes == _SCALE_SBO


def prepare(params: Mapping[str, Any], arch: str, seed: int = 0) -> Experiment:
    """One launch with all passes; nothing is random."""
    case = CpCase.of(params)
    desc = case.desc
    word = encode_smem_desc(start_bytes=0, lbo_bytes=desc.lbo_bytes, sbo_bytes=desc.sbo_bytes, swizzle=desc.swizzle)
    suffix = "" if params["decompress"] == "none" else f".b8x16.{params['decompress']}"
    return Experiment(
        params={**params, "lbo": desc.lbo_bytes, "sbo": desc.sbo_bytes},
        problems=list(_problems(case)),
        defines={"FORM": params["form"] + suffix},
        launches=[
            LaunchPlan(
                entry="cp_map",
                args=[
                    Input(case.coding.patterns()),
                    np.uint32(case.coding.passes),
                    np.uint32(case.coding.size),
                    np.uint64(word),
                    np.uint32(desc.start_bytes),
                    np.uint32(case.lane << 16 | case.column),
                    Output("cells", (case.coding.passes, TMEM_LANES, _COLUMNS)),
                    Output("dump", _READBACK.dump_shape),
                ],
                dynamic_smem=case.coding.size,
            )
        ],
        judge=lambda outputs: judge(case, outputs),
    )


def _problems(case: CpCase) -> Iterator[Problem]:
    shape = case.map.spec.shape
    width = case.desc.swizzle.row_bytes
    if case.desc.swizzle is not Swizzle.NONE and shape.row_bytes > width:
        yield Problem("swizzle", f"a row is {shape.row_bytes} bytes, must be at most {width}", _CANONICAL)


# ---------------------------------------------------------------------------------------------------------- judgement


def judge(case: CpCase, outputs: Sequence[Outputs]) -> Judgement:
    """The recovered address of every bit against the documents."""
    (output,) = outputs
    cells = output["cells"]
    found = case.coding.addresses(cells[..., None] >> np.arange(_BITS, dtype=np.uint32) & 1)
    return Judgement(list(_checks(case, cells, found, _READBACK.words(output["dump"]))))


def _checks(case: CpCase, cells: Array, found: Addresses, words: Array) -> Iterator[Check]:
    sentinel = sentinel_words()
    here = slice(case.column, case.column + _COLUMNS)
    written = (case.expected != NOWHERE).any(axis=2)
    untouched = (cells == sentinel[:, here]).all(axis=0)
    lost = written & untouched
    yield passed("written", not lost.any(), f"{written.sum()} cells", counted(lost.sum(), "cell") + " not",
                 f"{place(_widened(lost, case.column))} still hold the sentinel")  # fmt: skip
    stray = words != sentinel
    stray[:, here] &= ~written
    yield passed("outside", not stray.any(), "no other cell", counted(stray.sum(), "cell") + " written", place(stray))
    wrong = (found != case.expected) & (written & ~untouched)[:, :, None]
    yield passed("bits", not wrong.any(), "as documented", counted(wrong.sum(), "bit") + " from elsewhere",
                 _first(found, case, wrong))  # fmt: skip
    if case.is_scale_copy:
        yield _scale_check(case, found)


def _widened(cells: Array, column: int) -> Array:
    """Columns from the destination's, as columns of Tensor Memory."""
    return np.pad(cells, ((0, 0), (column, 0)))


def _first(found: Addresses, case: CpCase, wrong: Array) -> str:
    if not wrong.any():
        return ""
    lane, column, bit = (int(index) for index in np.argwhere(wrong)[0])
    return (f"lane {lane}, column {case.column + column}, bit {bit} came from {_bit(int(found[lane, column, bit]))}, "
            f"must come from {_bit(int(case.expected[lane, column, bit]))}")  # fmt: skip


def _bit(address: int) -> str:
    return "nowhere" if address == NOWHERE else f"byte {address // 8} bit {address % 8}"


def _scale_check(case: CpCase, found: Addresses) -> Check:
    """Where a block-scaled MMA looks for the scales of 128 rows, against the image that was copied."""
    image = scale_image_map(_SCALE_ROWS, _SCALES, order=BlockOrder.ROWS_FIRST)
    looked = scale_factor_map(_SCALE_ROWS, _SCALES)
    elsewhere = np.zeros(image.shape, np.bool_)
    for offset in looked.copies:
        for bit in range(8):
            came = found[looked.lane + offset, looked.column, 8 * looked.byte + bit]
            elsewhere |= came != 8 * (case.desc.start_bytes + image) + bit
    return passed("scale-factors", not elsewhere.any(), f"{_SCALE_ROWS} rows x {_SCALES}, {len(looked.copies)} copies",
                  counted(elsewhere.sum(), "scale") + " elsewhere")  # fmt: skip
