"""Sparse A as the tensor core sees it: metadata from Tensor Memory, place to element, and the expansion to full K.

A 4-bit code describes one group of A: which of its values are stored. A lane holds codes of its own row (8-bit and
4-bit kinds: 16 codes in two columns), or, for f16 and tf32, 16 lanes share one column: the nibbles of lane l are codes
of the rows at lanes l % 8 and l % 8 + 8 of its group of 16, the lower half of the groups in lanes 0-7, the upper half
in lanes 8-15; the sparsity selector picks the column. Lanes are those of the accumulator, so where it lies in banks,
each bank needs its own codes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import NotModelled, UndefinedBehavior, Where
from umma_probe.spec.sources import Evidence, Ref, assumed, documented, header

if TYPE_CHECKING:
    from umma_probe.model.mma.datapath import LaneFeed
    from umma_probe.model.mma.mma_call import MmaCall
    from umma_probe.model.numbers.values import Array

REFS = (
    documented("Sparse matrices", "meaningful values of the metadata; the others are undefined behaviour"),
    documented("Sparsity selector"),
    documented("Alignment restriction", "A, D and the metadata use the same half of the lanes"),
    header("mma_traits_sm100_frag.hpp, tmem_e_frg", "lanes, columns and nibbles for 128 rows a CTA"),
    header("mma_traits_sm100.hpp", "bit 0 of the metadata column is the selector, the address is the even column"),
    assumed("Sparse matrices, metadata values", "the first index is in bits 0-1 of a code"),
    Ref("cutlass", "sm90_sparse_gemm_compressor.hpp", Evidence.KERNEL, "groups without values have the code 0b0000"),
)
NIBBLES = np.arange(0, 32, 4, dtype=np.uint32)
INTERLEAVED = ("f16", "tf32")
PAIRS = (0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b0110, 0b1110)
ONE_OF_TWO = (0b0100, 0b1110)


def fetch_codes(call: MmaCall, slot: int, feed: LaneFeed) -> list[Array]:
    """The codes (rows, groups) of each bank.

    :raises UndefinedBehavior: the address is on another half of the lanes than D, or at an odd column.
    :raises NotModelled: a sparsity selector of 2 or 3.
    """
    interleaved = call.form.kind in INTERLEAVED
    column = _column(call, interleaved)
    columns = slice(column, column + (1 if interleaved else 2))
    what = "tcgen05.mma: sparsity metadata"
    call.launch.tmem.check(call.launch, call.pc, call.thread, slot, (0, 128), (columns.start, columns.stop), what)
    banks = []
    for lanes in feed.banks:
        words = call.launch.tmem.read(call.launch, call.thread, slot, lanes, columns, what)
        codes = (words[:, :, None] >> NIBBLES & 0xF).astype(np.uint8)
        banks.append(_deinterleave(codes[:, 0]) if interleaved else codes.reshape(len(codes), -1))
    return banks


def _deinterleave(nibbles: Array) -> Array:
    """(rows, 8) nibbles of each lane to (rows, 8) codes of each row.

    Of 16 lanes, lane 8 u + i has nibble 4 v + j; that is code 4 u + j of row 8 v + i.
    """
    by_lane = nibbles.reshape(-1, 2, 8, 2, 4)
    return np.ascontiguousarray(by_lane.transpose(0, 3, 2, 1, 4)).reshape(len(nibbles), 8)


def _column(call: MmaCall, interleaved: bool) -> int:
    lane, column = call.metadata >> 16, call.metadata & 0xFFFF
    selector = call.idesc.sparsity_selector
    problem = None
    if lane != call.d_taddr >> 16:
        problem = f"the lane is {lane}, must be that of D, {call.d_taddr >> 16}"
    elif column % 2 and not interleaved:
        problem = f"the column is {column}, must be even under kind::{call.form.kind}"
    elif column % 2 and selector != 1:
        problem = f"the column is {column} and the sparsity selector {selector}; an odd column means selector 1"
    if problem:
        raise UndefinedBehavior(f"tcgen05.mma.sp: metadata at {call.metadata:#010x}: {problem}",
                                where=_who(call), ref=str(REFS[2] if "lane" in problem else REFS[4]))  # fmt: skip
    if selector > 1:
        raise NotModelled(f"tcgen05.mma.sp: sparsity selector is {selector}, must be 0 or 1 here", where=_who(call),
                          hint="no document says in words which sub-columns selectors 2 and 3 pick",
                          ref=str(REFS[1]))  # fmt: skip
    return (column & ~1) + selector


def expand(call: MmaCall, stored: Array, codes: Array) -> tuple[Array, Array]:
    """A (rows, K) with its stored values in their places, and where there is a value.

    :param stored: (rows, K/2), ``codes``: (rows, groups).
    :raises UndefinedBehavior: a code that the PTX ISA does not define, of a group that has values. Where all values are
        zero their places do not matter: CUTLASS gives such groups an undefined code, and its kernels work.
    """
    kind = call.form.kind
    legal = ONE_OF_TWO if kind == "tf32" else PAIRS
    undefined = ~np.isin(codes, legal)
    bad = undefined & stored.reshape(*codes.shape, -1).any(axis=2)
    codes = np.where(undefined & ~bad, np.uint8(legal[0]), codes)
    if bad.any():
        row, group = np.argwhere(bad)[0]
        raise UndefinedBehavior(
            f"tcgen05.mma.sp: metadata of row {row}, group {group} is 0b{int(codes[row, group]):04b}, must be one of "
            + ", ".join(f"0b{code:04b}" for code in legal), where=_who(call), ref=str(REFS[0]))  # fmt: skip
    unit, group_units = {"tf32": (1, 2), "mxf4": (2, 4), "mxf4nvf4": (2, 4)}.get(kind, (1, 4))
    kept = _kept(kind == "tf32")[codes]
    places = np.arange(codes.shape[1])[None, :, None] * group_units + kept
    places = (places[..., None] * unit + np.arange(unit)).reshape(len(stored), -1)
    a = np.zeros((len(stored), call.idesc.k), stored.dtype)
    valid = np.zeros(a.shape, np.bool_)
    np.put_along_axis(a, places, stored, axis=1)
    np.put_along_axis(valid, places, True, axis=1)
    return a, valid


@lru_cache(maxsize=2)
def _kept(one_of_two: bool) -> Array:
    """Code to the kept units of a group, in the order in which they are stored."""
    codes = np.arange(16)
    pairs: Array = np.stack((codes & 3, codes >> 2), axis=-1)
    return np.asarray(codes == ONE_OF_TWO[1], np.int64)[:, None] if one_of_two else pairs


def _who(call: MmaCall) -> Where:
    return Where(actor=call.launch.thread_name(call.thread))
