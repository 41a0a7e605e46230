"""What the tensor core fetches from shared memory for an operand: element (row, k) to bit address, and back.

Rows are M of A or N of B, whichever way the operand lies. Along K an element's place follows from its packing: dense,
or (4- and 6-bit types beside 8-bit ones) 16 elements at the start of each 16-byte chunk. MN-major operands of such
types are padded the same way, 16 rows to a chunk (not documented; kernels known to work have them: ``NARROW_MN`` of
``spec/kinds``). Bits of a byte are numbered from the least significant one. The swizzle acts on the absolute address,
so a descriptor may start inside an atom. Where the pattern does not begin on its boundary, the base offset says which
of its rows lies at row 0: it is subtracted from the row number. That is what the PTX ISA's formula for its value
implies, and what an H200 does with the same field of ``wgmma`` descriptors; no silicon run with ``tcgen05`` is known.

``operand_byte_addresses`` is the fast form: for each row, the addresses of its payload bytes in K order. Gathering them
gives the operand's rows as contiguous bytes whatever the majorness, swizzle and packing were; ``unpack_elements`` then
splits these into codes. Pad bytes are never fetched. Where rows share bytes (MN-major elements narrower than a byte),
both run along the rows for each k instead.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import ConfigError, UndefinedBehavior
from umma_probe.layouts import smem_k_major, smem_mn_major
from umma_probe.layouts.swizzle import PERIOD_BYTES, swizzle_address
from umma_probe.spec.kinds import MAJORS, Packing
from umma_probe.spec.problems import Problem
from umma_probe.spec.smem_descriptor import SmemDescriptor, Swizzle
from umma_probe.spec.sources import Ref, documented, header

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

_ELEMENT_BITS = (4, 6, 8, 16, 32)
_CHUNK_BITS = 128
_GROUP = 16
"""Elements of one padded chunk."""

_CANONICAL = documented("Canonical layouts", "majorness, element widths and swizzle modes")
_ABSOLUTE = documented("Absolute address mode for K dimension being 48B")
_ABSOLUTE_BYTES = 48
_PACKED = documented("Packing formats of matrix elements in shared memory")
K_MAJOR_BASE32B: tuple[Ref, Ref] = (
    documented("Canonical layouts", "K-major with all swizzle modes"),
    header("mma_traits_sm100.hpp, make_umma_desc", "static assert: no 128B-base32B for K-major"),
)
"""The two sources that disagree about K-major operands in mode ``128B-base32B``."""


def element_bit_address(
    desc: SmemDescriptor, major: str, element_bits: int, packing: Packing, rows: ArrayLike, ks: ArrayLike
) -> NDArray[np.int64]:
    """Absolute bit address of element (row, k): 8 * shared byte address + bit of the byte.

    The formula is applied as it stands; ``operand_problems`` tells whether the documents define the combination.

    :param major: ``k`` or ``mn``.
    :param element_bits: 4, 6, 8, 16 or 32.
    :param rows, ks: element indices, broadcast against each other.
    :raises ConfigError: unknown major or width, or a dense MN-major element narrower than a byte.
    """
    _require_known(major, element_bits, packing)
    row_index, k_index = np.broadcast_arrays(np.asarray(rows, dtype=np.int64), np.asarray(ks, dtype=np.int64))
    if rows_share_bytes(major, element_bits):
        linear = smem_mn_major.linear_bytes(desc, 1, row_index // _GROUP * _GROUP, k_index)
        first = swizzle_address(linear, desc.swizzle, desc.base_offset) * 8
        return np.asarray(first + row_index % _GROUP * element_bits, dtype=np.int64)
    if major == "mn":
        linear = smem_mn_major.linear_bytes(desc, element_bits // 8, row_index, k_index)
        return swizzle_address(linear, desc.swizzle, desc.base_offset) * 8
    row_bits = bit_of_row(element_bits, packing, k_index)
    linear = smem_k_major.linear_bytes(desc, row_index, row_bits // 8)
    return swizzle_address(linear, desc.swizzle, desc.base_offset) * 8 + row_bits % 8


def rows_share_bytes(major: str, element_bits: int) -> bool:
    """Whether neighbouring rows, not neighbours along K, lie in one byte."""
    return major == "mn" and element_bits < 8


def bit_of_row(element_bits: int, packing: Packing, ks: ArrayLike) -> NDArray[np.int64]:
    """First bit of element k in a K-major row, counted from the row's start; same shape."""
    k_index = np.asarray(ks, dtype=np.int64)
    if packing is Packing.DENSE:
        return k_index * element_bits
    return k_index // _GROUP * _CHUNK_BITS + k_index % _GROUP * element_bits


def operand_problems(desc: SmemDescriptor, major: str, element_bits: int, packing: Packing, k: int) -> list[Problem]:
    """What the documents do not define about an operand of ``k`` elements a row under this descriptor."""
    return list(_problems(desc, major, element_bits, packing, k))


def operand_byte_addresses(
    desc: SmemDescriptor, major: str, element_bits: int, packing: Packing, rows: int, k: int
) -> NDArray[np.int64]:
    """Shared byte addresses of an operand's payload, shape (rows, k * element_bits / 8), in K order.

    Where ``rows_share_bytes``: shape (k, rows * element_bits / 8), in the order of the rows, and all below with rows
    and K exchanged.

    Byte ``j`` of row ``r`` holds bits ``8j`` to ``8j + 7`` of the row's elements laid end to end, element 0 lowest.
    For ``tcgen05.cp`` the source is a K-major operand of 8-bit elements. Cached: address differences depend on the
    descriptor's start only modulo 1024.

    :param k: elements stored along K (half of the instruction's K for sparse A), a whole number of bytes.
    :raises UndefinedBehavior: the documents do not define the combination.
    :raises ConfigError: as ``element_bit_address``.
    """
    if desc.lbo_mode:
        return _relative_addresses(desc, major, element_bits, packing, rows, k).copy()
    phase = desc.start_bytes % PERIOD_BYTES
    relative = _relative_addresses(replace(desc, start_bytes=phase), major, element_bits, packing, rows, k)
    return relative + (desc.start_bytes - phase)


def unpack_elements(row_bytes: NDArray[np.uint8], element_bits: int) -> NDArray[Any]:
    """Codes (rows, k) from the payload bytes (rows, k * element_bits / 8) that ``operand_byte_addresses`` points at.

    Where ``rows_share_bytes``: codes (k, rows).

    The result is u8, u16 or u32, whichever holds an element.
    """
    data = np.ascontiguousarray(row_bytes)
    if element_bits in (8, 16, 32):
        return data.view(f"<u{element_bits // 8}")
    if element_bits == 4:
        return np.stack((data & 0xF, data >> 4), axis=-1).reshape(data.shape[0], -1)
    bits = np.unpackbits(data, axis=1, bitorder="little").reshape(data.shape[0], -1, element_bits)
    codes: NDArray[Any] = np.packbits(bits, axis=2, bitorder="little")[..., 0]
    return codes


def smem_extent(
    desc: SmemDescriptor, major: str, element_bits: int, packing: Packing, rows: int, k: int
) -> tuple[int, int]:
    """Lowest and highest byte address that the fetch touches, both inclusive; errors as ``operand_byte_addresses``."""
    addresses = operand_byte_addresses(desc, major, element_bits, packing, rows, k)
    return int(addresses.min()), int(addresses.max())


def elements_touching(
    desc: SmemDescriptor, major: str, element_bits: int, packing: Packing, rows: int, k: int, addresses: ArrayLike
) -> NDArray[np.bool_]:
    """The inverse: which elements, shape (rows, k), have a bit in any of the byte ``addresses``.

    An element's bytes are neighbours, since the swizzle moves whole 16-byte chunks. Errors as ``element_bit_address``.
    """
    row_index, k_index = np.arange(rows)[:, None], np.arange(k)[None, :]
    bits = element_bit_address(desc, major, element_bits, packing, row_index, k_index)
    first, last = bits // 8, (bits + element_bits - 1) // 8
    wanted = np.asarray(addresses, dtype=np.int64)
    touching = np.isin(first, wanted)
    for step in range(1, int((last - first).max(initial=0)) + 1):
        touching |= np.isin(np.minimum(first + step, last), wanted)
    return touching


def elements_at_byte(
    desc: SmemDescriptor, major: str, element_bits: int, packing: Packing, rows: int, k: int, address: int
) -> list[tuple[int, int]]:
    """The elements (row, k) that are fetched from one byte; several where strides alias, none for padding."""
    touching = elements_touching(desc, major, element_bits, packing, rows, k, [address])
    return [(int(row), int(column)) for row, column in np.argwhere(touching)]


@lru_cache(maxsize=512)
def _relative_addresses(
    desc: SmemDescriptor, major: str, element_bits: int, packing: Packing, rows: int, k: int
) -> NDArray[np.int64]:
    _require_known(major, element_bits, packing)
    if k * element_bits % 8:
        raise ConfigError(f"k is {k} elements of {element_bits} bits, must be a whole number of bytes")
    if problems := operand_problems(desc, major, element_bits, packing, k):
        raise UndefinedBehavior(problems[0].message, ref=str(problems[0].ref))
    if rows_share_bytes(major, element_bits):
        linear = _narrow_mn_bytes(desc, element_bits, rows, k)
    else:
        linear = _row_bytes(desc, major, element_bits, packing, rows, k)
    addresses = swizzle_address(linear, desc.swizzle, desc.base_offset)
    addresses.flags.writeable = False
    return addresses


def _row_bytes(
    desc: SmemDescriptor, major: str, element_bits: int, packing: Packing, rows: int, k: int
) -> NDArray[np.int64]:
    """Payload bytes of each row before the swizzle."""
    row_index = np.arange(rows, dtype=np.int64)[:, None]
    payload = np.arange(k * element_bits // 8, dtype=np.int64)[None, :]
    if major == "mn":
        element_bytes = element_bits // 8
        first = smem_mn_major.linear_bytes(desc, element_bytes, row_index, payload // element_bytes)
        return first + payload % element_bytes
    row_byte = payload if packing is Packing.DENSE else _padded(payload, element_bits)
    return smem_k_major.linear_bytes(desc, row_index, row_byte)


def _narrow_mn_bytes(desc: SmemDescriptor, element_bits: int, rows: int, k: int) -> NDArray[np.int64]:
    """Payload bytes of each k before the swizzle: a chunk is what 16 elements of 8 bits would be."""
    if rows % _GROUP:
        raise ConfigError(f"rows are {rows} MN-major elements of {element_bits} bits, must be a multiple of {_GROUP}")
    place = _padded(np.arange(rows * element_bits // 8, dtype=np.int64)[None, :], element_bits)
    return smem_mn_major.linear_bytes(desc, 1, place, np.arange(k, dtype=np.int64)[:, None])


def _padded(payload: NDArray[np.int64], element_bits: int) -> NDArray[np.int64]:
    """The place of payload bytes where each chunk begins with 16 elements."""
    group_bytes = _GROUP * element_bits // 8
    return payload // group_bytes * (_CHUNK_BITS // 8) + payload % group_bytes


def _require_known(major: str, element_bits: int, packing: Packing) -> None:
    if major not in MAJORS:
        raise ConfigError(f"major is {major!r}, must be {' or '.join(MAJORS)}")
    if element_bits not in _ELEMENT_BITS:
        raise ConfigError(f"element is {element_bits} bits, must be {', '.join(map(str, _ELEMENT_BITS))}")
    if rows_share_bytes(major, element_bits) and packing is Packing.DENSE:
        raise ConfigError(f"major is mn for dense {element_bits}-bit elements, must be k", ref=str(_CANONICAL))


def _problems(desc: SmemDescriptor, major: str, element_bits: int, packing: Packing, k: int) -> Iterator[Problem]:
    mode = desc.swizzle
    if packing is Packing.PADDED_16B and element_bits >= 8:
        yield Problem("elem", f"padded packing is for 4- and 6-bit elements, element is {element_bits} bits", _PACKED)
    if major == "mn":
        if element_bits < 8 and packing is Packing.DENSE:
            yield Problem("major", f"major is mn for dense {element_bits}-bit elements, must be k", _CANONICAL)
        elif (element_bits == 32) != (mode is Swizzle.B128_BASE32B):
            rule = "128B-base32B" if element_bits == 32 else "none, 32B, 64B or 128B"
            message = f"swizzle is {mode.text} for MN-major {element_bits}-bit elements, must be {rule}"
            yield Problem("swizzle", message, _CANONICAL)
        if desc.lbo_mode:
            yield Problem("lbo_mode", "lbo_mode is 1 for an MN-major operand, must be 0", _ABSOLUTE)
        return
    width = int(bit_of_row(element_bits, packing, k - 1) + element_bits + 7) // 8 if k > 0 else 0
    if mode is not Swizzle.NONE and width > mode.row_bytes:
        message = f"a row is {width} bytes of K, must be at most {mode.row_bytes} with swizzle {mode.text}"
        yield Problem("k", message, _CANONICAL)
    elif width == _ABSOLUTE_BYTES and mode is Swizzle.B128 and not desc.lbo_mode:
        first = desc.start_bytes % mode.row_bytes
        if first + width > mode.row_bytes:
            message = f"lbo_mode is 0, must be 1: {width} bytes of K from byte {first} of a row of {mode.row_bytes}"
            yield Problem("lbo_mode", message, _ABSOLUTE)
    if desc.lbo_mode and width != _ABSOLUTE_BYTES:
        yield Problem("lbo_mode", f"lbo_mode is 1 for {width} bytes of K, must be 0; it is for 48", _ABSOLUTE)
