"""Triton kernels of the interoperability tests."""

import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, m, n, k, stride_bk, stride_bn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
           MASKED: tl.constexpr, STAGES: tl.constexpr, ACC: tl.constexpr):  # fmt: skip
    """C = A B by pointers: A (M,K) and C (M,N) row-major, B by its strides."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    accumulator = tl.zeros((BM, BN), ACC)
    a_tile = a + rows[:, None] * k + depth[None, :]
    b_tile = b + depth[:, None] * stride_bk + columns[None, :] * stride_bn
    for start in tl.range(0, k, BK, num_stages=STAGES):
        if MASKED:
            left = tl.load(a_tile, mask=(rows[:, None] < m) & (depth[None, :] < k - start), other=0.0)
            right = tl.load(b_tile, mask=(depth[:, None] < k - start) & (columns[None, :] < n), other=0.0)
        else:
            left, right = tl.load(a_tile), tl.load(b_tile)
        accumulator = tl.dot(left, right, accumulator, out_dtype=ACC)
        a_tile += BK
        b_tile += BK * stride_bk
    c_tile = c + rows[:, None] * n + columns[None, :]
    value = accumulator.to(c.dtype.element_ty)
    if MASKED:
        tl.store(c_tile, value, mask=(rows[:, None] < m) & (columns[None, :] < n))
    else:
        tl.store(c_tile, value)


@triton.jit
def matmul_host_descriptors(a, b, c, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr,
                            B_IS_KN: tl.constexpr, TYPE: tl.constexpr):  # fmt: skip
    """C = A B with TMA descriptors that the host made; B is (N,K) or (K,N)."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    accumulator = tl.zeros((BM, BN), tl.float32)
    for start in tl.range(0, k, BK, num_stages=STAGES):
        left = a.load([row, start])
        if B_IS_KN:
            right = b.load([start, column])
        else:
            right = b.load([column, start]).T
        accumulator = tl.dot(left, right, accumulator)
    c.store([row, column], accumulator.to(TYPE))


@triton.jit
def matmul_device_descriptors(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                              STAGES: tl.constexpr):  # fmt: skip
    """C = A B^T with TMA descriptors that the kernel makes."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    a_map = tl.make_tensor_descriptor(a, [m, k], [k, 1], [BM, BK])
    b_map = tl.make_tensor_descriptor(b, [n, k], [k, 1], [BN, BK])
    c_map = tl.make_tensor_descriptor(c, [m, n], [n, 1], [BM, BN])
    accumulator = tl.zeros((BM, BN), tl.float32)
    for start in tl.range(0, k, BK, num_stages=STAGES):
        left = a_map.load([row, start])
        right = b_map.load([column, start])
        accumulator = tl.dot(left, right.T, accumulator)
    c_map.store([row, column], accumulator.to(c.dtype.element_ty))


@triton.jit
def matmul_persistent(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr,
                      WARP_SPECIALIZE: tl.constexpr, FLATTEN: tl.constexpr, TYPE: tl.constexpr):  # fmt: skip
    """Each program takes several tiles; with warp specialisation, loads, MMAs and the epilogue get their own warps."""
    across = tl.cdiv(n, BN)
    tiles = tl.cdiv(m, BM) * across
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=FLATTEN,
                         warp_specialize=WARP_SPECIALIZE):  # fmt: skip
        row, column = tile // across * BM, tile % across * BN
        accumulator = tl.zeros((BM, BN), tl.float32)
        for start in tl.range(0, k, BK, num_stages=STAGES):
            left = a.load([row, start])
            right = b.load([column, start])
            accumulator = tl.dot(left, right.T, accumulator)
        c.store([row, column], accumulator.to(TYPE))


@triton.jit
def attention(q, k, v, o, log_sum, scale, length, HEAD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
              CAUSAL: tl.constexpr, WARP_SPECIALIZE: tl.constexpr, TYPE: tl.constexpr):  # fmt: skip
    """Softmax attention in powers of two; q, k, v, o are descriptors of (heads * length, HEAD)."""
    block, head = tl.program_id(0), tl.program_id(1)
    rows = block * BM + tl.arange(0, BM)
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    out = tl.zeros((BM, HEAD), tl.float32)
    queries = q.load([head * length + block * BM, 0])
    end = (block + 1) * BM if CAUSAL else length
    for start in tl.range(0, end, BN, warp_specialize=WARP_SPECIALIZE):
        keys = k.load([head * length + start, 0])
        score = tl.dot(queries, keys.T) * scale
        if CAUSAL:
            columns = start + tl.arange(0, BN)
            score = tl.where(columns[None, :] <= rows[:, None], score, -1.0e6)
        new_top = tl.maximum(top, tl.max(score, 1))
        weight = tl.math.exp2(score - new_top[:, None])
        shrink = tl.math.exp2(top - new_top)
        total = total * shrink + tl.sum(weight, 1)
        out = out * shrink[:, None]
        values = v.load([head * length + start, 0])
        out = tl.dot(weight.to(TYPE), values, out)
        top = new_top
    tl.store(log_sum + head * length + rows, top + tl.math.log2(total))
    o.store([head * length + block * BM, 0], (out / total[:, None]).to(TYPE))


@triton.jit
def matmul_scaled(a, a_scale, b, b_scale, c, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                  A_TYPE: tl.constexpr, B_TYPE: tl.constexpr, VECTOR: tl.constexpr, A_PACK: tl.constexpr,
                  B_PACK: tl.constexpr, STAGES: tl.constexpr):  # fmt: skip
    """C = (A * scales) (B * scales)^T; A (M,K), B (N,K); PACK elements a byte; a scale for VECTOR elements of K."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    a_depth, b_depth = tl.arange(0, BK // A_PACK), tl.arange(0, BK // B_PACK)
    scales = tl.arange(0, BK // VECTOR)
    accumulator = tl.zeros((BM, BN), tl.float32)
    for start in tl.range(0, k, BK, num_stages=STAGES):
        left = tl.load(a + rows[:, None] * (k // A_PACK) + start // A_PACK + a_depth[None, :])
        right = tl.load(b + columns[:, None] * (k // B_PACK) + start // B_PACK + b_depth[None, :])
        left_scale = tl.load(a_scale + rows[:, None] * (k // VECTOR) + start // VECTOR + scales[None, :])
        right_scale = tl.load(b_scale + columns[:, None] * (k // VECTOR) + start // VECTOR + scales[None, :])
        accumulator = tl.dot_scaled(left, left_scale, A_TYPE, right.T, right_scale, B_TYPE, accumulator)
    tl.store(c + rows[:, None] * n + columns[None, :], accumulator)


@triton.jit
def matmul_scaled_packed(a, a_scale, b, b_scale, c, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                         A_TYPE: tl.constexpr, B_TYPE: tl.constexpr, VECTOR: tl.constexpr, A_PACK: tl.constexpr,
                         B_PACK: tl.constexpr, STAGES: tl.constexpr):  # fmt: skip
    """As ``matmul_scaled``, operands by host descriptors, scales as blocks of 32 x 16 bytes that tcgen05.cp takes."""
    row, column = tl.program_id(0), tl.program_id(1)
    REP_K: tl.constexpr = BK // VECTOR // 4
    blocks = k // VECTOR // 4
    accumulator = tl.zeros((BM, BN), tl.float32)
    inside = tl.arange(0, 512)
    a_blocks = (row * (BM // 128) + tl.arange(0, BM // 128))[:, None, None] * blocks
    b_blocks = (column * (BN // 128) + tl.arange(0, BN // 128))[:, None, None] * blocks
    deep = tl.arange(0, REP_K)[None, :, None]
    for start in tl.range(0, k, BK, num_stages=STAGES):
        left = a.load([row * BM, start // A_PACK])
        right = b.load([column * BN, start // B_PACK])
        first = start // VECTOR // 4
        left_scale = tl.load(a_scale + (a_blocks + first + deep) * 512 + inside[None, None, :])
        right_scale = tl.load(b_scale + (b_blocks + first + deep) * 512 + inside[None, None, :])
        left_scale = left_scale.reshape(BM // 128, REP_K, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(BM, BK // VECTOR)
        right_scale = right_scale.reshape(BN // 128, REP_K, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(BN, BK // VECTOR)
        accumulator = tl.dot_scaled(left, left_scale, A_TYPE, right.T, right_scale, B_TYPE, accumulator)
    rows = row * BM + tl.arange(0, BM)
    columns = column * BN + tl.arange(0, BN)
    tl.store(c + rows[:, None] * n + columns[None, :], accumulator)
