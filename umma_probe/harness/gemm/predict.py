"""What a recipe leaves in Tensor Memory, worked out on the host.

Shared memory is an image of bytes, Tensor Memory an array of words, and each MMA is done in order: fetch A and B by
descriptor (``layouts.smem_operand``, applied as the formula stands), read what the accumulator holds, multiply by the
documented arithmetic (``model.arith``), put the words where the layout says. This works for right and for wrong
descriptors alike. What no document defines has no prediction: ``Unpredictable``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from umma_probe.errors import ConfigError, UmmaProbeError
from umma_probe.harness.fills import sentinel_words
from umma_probe.harness.gemm.recipe import SMEM_BYTES, Recipe, Staged, Storing, reading_of
from umma_probe.harness.readback import LOW_HALF
from umma_probe.layouts.smem_operand import element_bit_address
from umma_probe.layouts.tmem_accumulator import accumulator_map
from umma_probe.layouts.tmem_operand import operand_a_map
from umma_probe.model.arith.mma import mma
from umma_probe.spec.formats import FORMATS
from umma_probe.spec.idesc import IdescFields, decode_idesc, idesc_problems
from umma_probe.spec.kinds import KINDS
from umma_probe.spec.machine import TMEM_COLUMNS, TMEM_LANES

if TYPE_CHECKING:
    from umma_probe.harness.gemm.passes import Codes, Pass
    from umma_probe.spec.descriptors import SmemDescriptor

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint32]
IntArray = npt.NDArray[np.int64]

_CHUNK = 16
_CHUNK_VALUES = 64


class Unpredictable(Exception):
    """The documents do not say what this recipe does, or it reads what is not known."""


@dataclass(frozen=True)
class SharedImage:
    """Dynamic shared memory: its address and its bytes."""

    base: int
    data: Bytes

    def gather(self, bit_addresses: IntArray, bits: int) -> Codes:
        """Elements of ``bits`` at absolute bit addresses.

        :raises Unpredictable: outside.
        """
        first = bit_addresses // 8 - self.base
        if first.min() < 0 or first.max() + 4 > len(self.data):
            raise Unpredictable("reads outside of dynamic shared memory")
        if bits >= 8:
            words = np.stack([self.data[first + i] for i in range(bits // 8)], axis=-1)
            codes: Codes = np.ascontiguousarray(words).view(f"<u{bits // 8}")[..., 0]
            return codes
        pair = self.data[first].astype(np.uint16) | self.data[first + 1].astype(np.uint16) << 8
        return (pair >> (bit_addresses % 8).astype(np.uint16) & ((1 << bits) - 1)).astype(np.uint8)


def filled_shared(base: int) -> SharedImage:
    """As ``fill_shared`` of ``probes/dump.cuh`` leaves it."""
    chunk = np.arange(SMEM_BYTES // _CHUNK)
    low, middle, high = (chunk // step % _CHUNK_VALUES for step in (1, _CHUNK_VALUES, _CHUNK_VALUES**2))
    halves = np.stack([low, low, middle, middle, high, high, low, low], axis=1)
    return SharedImage(base, (0x4000 + halves).astype("<u2").view(np.uint8).ravel())


def staged_codes(codes: Codes, staged: Staged) -> Codes:
    """The codes with the operand's holes, which are counted in each K tile."""
    if not staged.holes:
        return codes
    tile_k = staged.placed.tile_k
    tiles = codes.reshape(len(codes), -1, tile_k).transpose(1, 0, 2).copy()
    flat = tiles.reshape(len(tiles), -1)
    for low, high in staged.holes:
        flat[:, low:high] = 0
    return np.ascontiguousarray(tiles.transpose(1, 0, 2).reshape(codes.shape))


def expected_image(recipe: Recipe, codes: Pass, base: int, *, under: SharedImage | None = None) -> SharedImage:
    """Shared memory after staging, by the layouts of the documents."""
    image = under or filled_shared(base)
    image = SharedImage(base, image.data.copy())
    if not recipe.a_in_tmem:
        _stage(image, recipe, recipe.a, staged_codes(codes.a_codes, recipe.a))
    _stage(image, recipe, recipe.b, staged_codes(codes.b_codes, recipe.b))
    return image


def element_addresses(recipe: Recipe, staged: Staged, base: int) -> IntArray:
    """Absolute bit address (rows, K of all tiles) at which each element is staged."""
    own = reading_of(staged.placed, staged.smem)
    parts = [
        fetch_addresses(recipe.kind, staged, own.descriptor(base - staged.placed.phase, tile, 0), staged.placed.major,
                        staged.rows, recipe.tile_k)
        for tile in range(recipe.tiles)
    ]  # fmt: skip
    return np.concatenate(parts, axis=1) + 8 * staged.placed.phase


def fetch_addresses(
    kind: str, staged: Staged, desc: SmemDescriptor, major: str, rows: int, tile_k: int, type_: str | None = None
) -> IntArray:
    """Absolute bit address (rows, k) from which an MMA fetches each element under a descriptor."""
    type_ = type_ or staged.type_
    return _addresses(desc, major, FORMATS[type_].container_bits, KINDS[kind].packing(type_), rows, tile_k)


@lru_cache(maxsize=512)
def _addresses(desc: SmemDescriptor, major: str, bits: int, packing: Any, rows: int, tile_k: int) -> IntArray:
    try:
        found = element_bit_address(desc, major, bits, packing, np.arange(rows)[:, None], np.arange(tile_k)[None])
    except UmmaProbeError as error:
        raise Unpredictable(error.message) from error
    found.flags.writeable = False
    return found


def _stage(image: SharedImage, recipe: Recipe, staged: Staged, codes: Codes) -> None:
    addresses = element_addresses(recipe, staged, image.base) - 8 * image.base
    bits = staged.bits
    if bits >= 8:
        data = np.ascontiguousarray(codes).view(np.uint8).reshape(*codes.shape, bits // 8)
        image.data[addresses[..., None] // 8 + np.arange(bits // 8)] = data
        return
    chunks = np.unique(addresses // 8 // _CHUNK)
    image.data[chunks[:, None] * _CHUNK + np.arange(_CHUNK)] = 0
    shifted = codes.astype(np.uint16) << (addresses % 8).astype(np.uint16)
    np.bitwise_or.at(image.data, addresses // 8, (shifted & 0xFF).astype(np.uint8))
    np.bitwise_or.at(image.data, addresses // 8 + 1, (shifted >> 8).astype(np.uint8))


# ------------------------------------------------------------------------------------------------------- Tensor Memory


def filled_tmem(recipe: Recipe, before: Pass | None, base: int, arch: str) -> Words:
    """Tensor Memory (128, 512) before anything of the main GEMM is put there."""
    if recipe.fill == "zero":
        return np.zeros((TMEM_LANES, TMEM_COLUMNS), np.uint32)
    words = sentinel_words()
    if recipe.fill == "stale" and recipe.before is not None and before is not None:
        return _stale_tmem(recipe.before, before, base, arch).copy()
    return words


@lru_cache(maxsize=4)
def _stale_tmem(recipe: Recipe, codes: Pass, base: int, arch: str) -> Words:
    words = sentinel_words()
    run_mmas(recipe, words, expected_image(recipe, codes, base), arch)
    return words


def stage_tmem_a(recipe: Recipe, words: Words, codes: Codes) -> None:
    """Put A into Tensor Memory, as ``stage_in_tmem`` of ``probes/operands.cuh`` does."""
    bits = FORMATS[recipe.a.type_].container_bits
    container = max(bits, 8)
    held = operand_a_map(recipe.m, recipe.k, bits, container_bits=container, ws=recipe.ws, lane_base=recipe.d_lane)
    columns = slice(recipe.a_column, recipe.a_column + 8 * recipe.tiles)
    placed = np.zeros((TMEM_LANES, TMEM_COLUMNS), np.uint32)
    lanes = np.zeros(TMEM_LANES, np.bool_)
    for offset in held.copies:
        lane = held.lane + offset
        lanes[lane[:, 0]] = True
        if recipe.a_storing is Storing.ONE_A_COLUMN:
            kept = codes[:, : 8 * recipe.tiles]
            placed[lane[:, :1], recipe.a_column + np.arange(kept.shape[1])[None]] = kept
        else:
            shifted = codes.astype(np.uint32) << held.bit.astype(np.uint32)
            np.bitwise_or.at(placed, (lane, held.column + recipe.a_column), shifted)
    placed[~lanes] = sentinel_words()[~lanes]
    if recipe.a_storing is Storing.UNPACK_16B:
        _store_unpacked(words, recipe.a_column, placed[:, columns])
    else:
        words[:, columns] = placed[:, columns]


def _store_unpacked(words: Words, first: int, registers: Words) -> None:
    """``tcgen05.st.unpack::16b``: each half goes to the low half of a column (the high one: cleared, by assumption)."""
    halves = np.stack([registers & np.uint32(LOW_HALF), registers >> np.uint32(16)], axis=-1)
    words[:, first : first + 2 * registers.shape[1]] = halves.reshape(len(registers), -1)


def run_mmas(recipe: Recipe, words: Words, image: SharedImage, arch: str) -> None:
    """Every MMA of the recipe, in order, on ``words``.

    :raises Unpredictable: an illegal instruction descriptor, a fetch from outside, a D outside of Tensor Memory.
    """
    fields = legal_fields(recipe, arch)
    for sub in sorted(set(range(recipe.subs)) - set(recipe.skipped_subs)):
        for tile in range(recipe.issued):
            _run_mma(recipe, fields, words, image, tile, sub, arch)


def legal_fields(recipe: Recipe, arch: str) -> IdescFields:
    """The decoded instruction descriptor.

    :raises Unpredictable: it is illegal.
    """
    source = "tmem" if recipe.a_in_tmem else "smem"
    if problems := _idesc_problems(recipe.kind, recipe.idesc, recipe.ws, source, arch):
        raise Unpredictable(problems)
    return decode_idesc(recipe.kind, recipe.idesc)


@lru_cache(maxsize=1024)
def _idesc_problems(kind: str, idesc: int, ws: bool, a_source: str, arch: str) -> str:
    found = idesc_problems(kind, idesc, cta_group=1, ws=ws, sparse=False, a_source=a_source, arch=arch)
    return "; ".join(problem.message for problem in found)


def _run_mma(
    recipe: Recipe, fields: IdescFields, words: Words, image: SharedImage, tile: int, sub: int, arch: str
) -> None:
    assert fields.a_type is not None  # legal_fields
    assert fields.b_type is not None
    assert fields.d_type is not None
    column = recipe.d_column + sub * recipe.d_step
    lanes, columns = d_cells(fields.m, fields.n, recipe.ws, recipe.d_lane, column)
    if recipe.a_in_tmem:
        a = _fetch_tmem_a(recipe, fields, words, tile)
    else:
        a = _fetch(recipe, recipe.a, image, tile, 0, fields.a_major, fields.m, fields.a_type)
    b = _fetch(recipe, recipe.b, image, tile, sub, fields.b_major, fields.n, fields.b_type)
    accumulate = tile != 0 or recipe.accumulate
    result = mma(fields.kind, a, b, words[lanes, columns] if accumulate else None, a_type=fields.a_type,
                 b_type=fields.b_type, d_type=fields.d_type, saturate=fields.saturate, negate_a=fields.negate_a,
                 negate_b=fields.negate_b, arch=arch)  # fmt: skip
    if recipe.disabled_lanes:
        disabled = np.zeros(TMEM_LANES, np.bool_)
        for low, high in recipe.disabled_lanes:
            disabled[low:high] = True
        result = np.where(disabled[lanes], words[lanes, columns], result)
    words[lanes, columns] = result


@lru_cache(maxsize=128)
def d_cells(m: int, n: int, ws: bool, lane: int, column: int) -> tuple[IntArray, IntArray]:
    """Lane and column (M, N) of each element of D.

    :raises Unpredictable: no layout, or outside of Tensor Memory.
    """
    try:
        held = accumulator_map(m, n, ws=ws, lane_base=lane)
    except ConfigError as error:
        raise Unpredictable(error.message) from error
    if column + held.columns_used > TMEM_COLUMNS:
        raise Unpredictable("D reaches outside of Tensor Memory")
    return held.lane, held.column + column


def _fetch(
    recipe: Recipe, staged: Staged, image: SharedImage, tile: int, sub: int, major: str, rows: int, type_: str
) -> Codes:
    desc = staged.read.descriptor(image.base, tile, sub, unit_forgotten=recipe.start_unit_forgotten)
    addresses = fetch_addresses(recipe.kind, staged, desc, major, rows, recipe.tile_k, type_)
    return image.gather(addresses, FORMATS[type_].container_bits)


def _fetch_tmem_a(recipe: Recipe, fields: IdescFields, words: Words, tile: int) -> Codes:
    assert fields.a_type is not None
    bits = FORMATS[fields.a_type].container_bits
    held = operand_a_map(fields.m, recipe.tile_k, bits, container_bits=max(bits, 8), ws=recipe.ws,
                         lane_base=recipe.d_lane)  # fmt: skip
    found = words[held.lane, held.column + recipe.a_column + 8 * tile] >> held.bit.astype(np.uint32)
    return (found & np.uint32((1 << bits) - 1)).astype(f"u{max(bits, 8) // 8}")


def predict(recipe: Recipe, codes: Pass, before: Pass | None, image: SharedImage, arch: str) -> Words:
    """Tensor Memory (128, 512) after the recipe has run on this shared memory.

    :raises Unpredictable: see above.
    """
    words = filled_tmem(recipe, before, image.base, arch)
    if recipe.a_in_tmem:
        stage_tmem_a(recipe, words, staged_codes(codes.a_codes, recipe.a))
    run_mmas(recipe, words, image, arch)
    return words
