"""A launch that stands still: a cluster whose memories tests fill and whose tensor core they drive by hand.

No PTX runs. The writers below place operands by the closed formulas of the PTX ISA and CuTe, element to place, as
short NumPy expressions; they share no code with the program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from umma_probe.model.asynchrony.async_engine import Policy
from umma_probe.model.code.program_builder import ProgramBuilder
from umma_probe.model.launch import Launch, LaunchConfig
from umma_probe.model.machine import Machine
from umma_probe.model.mma.mma_call import MmaCall, MmaForm, checked_idesc
from umma_probe.spec.idesc import encode_idesc
from umma_probe.spec.smem_descriptor import encode_smem_desc

if TYPE_CHECKING:
    from umma_probe.model.code.program import Program

Array = Any
TEXT = ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n"
FLOATS = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
}
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "e2m3": 6, "e3m2": 6, "e2m1": 4, "s8": 8, "u8": 8}
SWIZZLE_ROWS = {"none": (16, 0), "32B": (32, 1), "64B": (64, 3), "128B": (128, 7)}


# ---------------------------------------------------------------------- the launch
def program() -> Program:
    loaded = Machine().load(TEXT, "bench.ptx")
    return ProgramBuilder(loaded.tree, loaded.file, loaded.text, loaded.variables).build("k")


def bench(arch: str = "sm_100a", ctas: int = 1, smem: int = 96 * 1024, columns: int = 512) -> Launch:
    """A cluster of ``ctas`` CTAs with 128 threads and ``columns`` columns of Tensor Memory each, from column 0 on."""
    machine = Machine(arch)
    config = LaunchConfig((ctas, 1, 1), (128, 1, 1), (ctas, 1, 1), smem)
    launch = Launch(program(), config, machine.arch, Policy("eager"), machine.memory)
    launch._start_cluster(0, 0)
    launch.tmem.allocate(tuple(range(ctas)), columns)
    return launch


def mma_call(launch: Launch, form: MmaForm, idesc: dict[str, Any], *, a: int, b: int, d: int = 0,
             accumulate: bool = False, **more: Any) -> MmaCall:  # fmt: skip
    word = encode_idesc(form.kind, sparse=form.sparse, **idesc)
    fields = checked_idesc(form, word, launch.arch.name)
    return MmaCall(form, launch, 0, 0, tuple(range(form.cta_group)), d, a, b, fields, accumulate, **more)


# ---------------------------------------------------------------------- values
def words_of(values: Array, type_: str) -> Array:
    """Element words of values that the format holds exactly."""
    if type_ in ("s8", "u8"):
        return values.astype(np.int64).astype(np.uint8)
    data = values.astype(FLOATS[type_])
    assert (data.astype(np.float64) == values).all()
    return data.view(f"u{data.dtype.itemsize}")


def small(rng: np.random.Generator, shape: tuple[int, int], type_: str) -> Array:
    """Values that every format holds and whose sums are exact."""
    if type_ == "u8":
        return rng.integers(0, 256, shape).astype(np.float64)
    if type_ == "s8":
        return rng.integers(-128, 128, shape).astype(np.float64)
    return rng.choice(np.array([0, 0.5, -0.5, 1, -1, 1.5, 2, -2, 3, -3]), shape)


# ---------------------------------------------------------------------- shared memory
def put_bytes(launch: Launch, slot: int, addresses: Array, data: Array) -> None:
    """Bytes into the shared memory of a CTA, as the async proxy writes them."""
    offsets = np.asarray(addresses) + slot * launch.shared.window
    launch.shared.bytes.data[offsets] = data
    launch.shared.bytes.written[offsets] = True


def row_bytes(words: Array, bits: int, padded: bool = False) -> Array:
    """Element words (n, k) packed into rows, low bits first; ``padded``: 16 elements a 16-byte chunk."""
    n, k = words.shape
    bit = ((words[..., None] >> np.arange(bits)) & 1).astype(np.uint8)
    if padded:
        chunks = np.zeros((n, k // 16, 128), np.uint8)
        chunks[:, :, : 16 * bits] = bit.reshape(n, k // 16, 16 * bits)
        bit = chunks
    return np.packbits(bit.reshape(n, -1), axis=1, bitorder="little")


def stage(launch: Launch, slot: int, start: int, words: Array, type_: str, *, major: str = "k", swizzle: str = "none",
          padded: bool = False) -> int:  # fmt: skip
    """Place an operand (rows, k) in the shared memory of a CTA and return its descriptor."""
    row, mask = SWIZZLE_ROWS[swizzle]
    n, k = words.shape
    bits = BITS[type_]
    if major == "k":
        data = row_bytes(words.astype(np.uint32), bits, padded)
        r, byte = np.indices(data.shape)
        lbo, sbo = (128 * (n // 8), 128) if swizzle == "none" else (16, 8 * row)
        inside = byte // 16 * lbo + byte % 16 if swizzle == "none" else byte
        linear = start + r % 8 * row + r // 8 * sbo + inside
    else:
        size = bits // 8
        per = row // size
        data = np.ascontiguousarray(words).view(np.uint8).reshape(n, k * size)
        mn, byte = np.indices(data.shape)
        element, part = byte // size, byte % size
        step_mn, step_k = 8 * row * (k // 8), 8 * row
        linear = start + mn % per * size + part + mn // per * step_mn + element % 8 * row + element // 8 * step_k
        lbo, sbo = (step_k, step_mn) if swizzle == "none" else (step_mn, step_k)
    put_bytes(launch, slot, linear ^ ((linear >> 7 & mask) << 4), data)
    return encode_smem_desc(start_bytes=start, lbo_bytes=lbo, sbo_bytes=sbo, swizzle=swizzle)


# ---------------------------------------------------------------------- Tensor Memory
def lanes_of(layout: str, rows: int, segment: int = 0, base: int = 0) -> Array:
    """The lanes of the rows of one CTA and column segment in data path layout ``A`` to ``G``."""
    r = np.arange(rows)
    if layout in ("C", "F"):
        return 32 * (r // 16) + r % 16 + base
    return r + rows * segment


SEGMENTS = {"A": 1, "B": 2, "C": 1, "D": 1, "E": 2, "F": 1, "G": 4}


def put_cells(launch: Launch, slot: int, lanes: Array, columns: Array, words: Array) -> None:
    launch.tmem.write(slot, lanes, columns, words, 0)


def put_d(launch: Launch, layout: str, words: Array, column: int = 0, base: int = 0) -> None:
    """Accumulator words (M, N) into the CTAs of ``layout``."""
    ctas, segments = len(launch.tmem.words), SEGMENTS[layout]
    rows, width = len(words) // ctas, words.shape[1] // segments
    for cta in range(ctas):
        for s in range(segments):
            part = words[cta * rows : (cta + 1) * rows, s * width : (s + 1) * width]
            columns = column + np.arange(width)[None, :]
            put_cells(launch, cta, lanes_of(layout, rows, s, base)[:, None], columns, part)


def get_d(launch: Launch, layout: str, m: int, n: int, column: int = 0, base: int = 0) -> tuple[Array, Array]:
    """(words, written) of an accumulator (M, N)."""
    ctas, segments = len(launch.tmem.words), SEGMENTS[layout]
    rows, width = m // ctas, n // segments
    words, written = np.zeros((m, n), np.uint32), np.zeros((m, n), np.bool_)
    for cta in range(ctas):
        for s in range(segments):
            block = np.ix_(np.arange(cta * rows, (cta + 1) * rows), np.arange(s * width, (s + 1) * width))
            cells = (cta, lanes_of(layout, rows, s, base)[:, None], column + np.arange(width)[None, :])
            words[block], written[block] = launch.tmem.words[cells], launch.tmem.written[cells]
    return words, written


def put_a(launch: Launch, layout: str, words: Array, type_: str, kind: str, column: int, base: int = 0) -> None:
    """A (M, k) packed into the lanes of every bank."""
    bits = BITS[type_]
    if kind in ("f8f6f4", "mxf8f6f4") and bits < 8:
        words, bits = words << (2 if bits == 4 else 0), 8
    packed = row_bytes(words.astype(np.uint32), bits).view(np.uint32)
    ctas = len(launch.tmem.words)
    rows = len(words) // ctas
    for cta in range(ctas):
        for s in range(SEGMENTS[layout]):
            lanes = lanes_of(layout, rows, s, base)
            columns = column + np.arange(packed.shape[1])[None, :]
            put_cells(launch, cta, lanes[:, None], columns, packed[cta * rows : (cta + 1) * rows])
