"""Gluon kernels of the interoperability tests: here the layouts and the pairs of CTAs are the kernel's own choice."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    fence_async_shared,
    mbarrier,
    tcgen05_mma,
    tma,
)


@gluon.jit
def matmul_pair(a, b, c, k, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, BLOCK_M: gl.constexpr,
                CTAS: gl.constexpr):  # fmt: skip
    """C = A B^T of a tile that one CTA, or a pair with its operands split, multiplies; A (M,K), B (N,K), C (M,N)."""
    row, column = gl.program_id(0) * BM, gl.program_id(1) * BN
    a_tile = gl.allocate_shared_memory(a.dtype, [BM, BK], a.layout)
    b_tile = gl.allocate_shared_memory(b.dtype, [BN, BK], b.layout)
    c_tile = gl.allocate_shared_memory(c.dtype, [BM, BN], c.layout)
    loaded = mbarrier.allocate_mbarrier(two_ctas=CTAS == 2)
    multiplied = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.init(multiplied, count=1)
    split: gl.constexpr = [[1, 0]] if CTAS == 2 else []
    layout: gl.constexpr = TensorMemoryLayout([BLOCK_M, BN], 1, cga_layout=split, two_ctas=CTAS == 2)
    accumulator = allocate_tensor_memory(gl.float32, [BM, BN], layout)
    phase = 0
    for start in range(0, k, BK):
        mbarrier.expect(loaded, a.nbytes_per_cta + b.nbytes_per_cta)
        tma.async_load(a, [row, start], loaded, a_tile)
        tma.async_load(b, [column, start], loaded, b_tile)
        mbarrier.wait(loaded, phase, deps=[a_tile, b_tile])
        tcgen05_mma(a_tile, b_tile.permute((1, 0)), accumulator, use_acc=start != 0, mbarriers=[multiplied])
        mbarrier.wait(multiplied, phase, deps=[a_tile, b_tile])
        phase ^= 1
    mbarrier.invalidate(loaded)
    mbarrier.invalidate(multiplied)
    c_tile.store(accumulator.load().to(c.dtype))
    fence_async_shared()
    tma.async_store(c, [row, column], c_tile)
    tma.store_wait(0)
