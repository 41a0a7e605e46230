"""wmma as CUDA's own <mma.h> writes it, against NumPy: load, multiply, store, with every layout."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from harness import run

import umma_probe as up
from umma_probe.errors import NotModelled, PtxSyntaxError, UndefinedBehavior

SOURCE = """
#include <mma.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
namespace w = nvcuda::wmma;
extern "C" __global__ void product(const IN* a, const IN* b, const SUM* c, SUM* d,
                                   unsigned lda, unsigned ldb, unsigned ldc) {
  w::fragment<w::matrix_a, M, N, K, TYPE, w::A_LAYOUT> fa;
  w::fragment<w::matrix_b, M, N, K, TYPE, w::B_LAYOUT> fb;
  w::fragment<w::accumulator, M, N, K, SUM> fc;
  w::load_matrix_sync(fa, a, lda);
  w::load_matrix_sync(fb, b, ldb);
  w::load_matrix_sync(fc, c, ldc, w::C_LAYOUT);
  w::mma_sync(fc, fa, fb, fc);
  for (int i = 0; i < fc.num_elements; ++i) fc.x[i] = fc.x[i] + fc.x[i];
  w::store_matrix_sync(d, fc, ldc, w::C_LAYOUT);
}
"""
NUMPY: dict[str, Any] = {
    "__half": np.float16, "__nv_bfloat16": ml_dtypes.bfloat16, "float": np.float32, "signed char": np.int8,
    "unsigned char": np.uint8, "int": np.int32, "double": np.float64,
}  # fmt: skip
WIDE = [(16, 16, 16), (8, 32, 16), (32, 8, 16)]
FORMS = [
    *[(shape, "__half", sum_) for shape in WIDE for sum_ in ("float", "__half")],
    *[(shape, "__nv_bfloat16", "float") for shape in WIDE],
    *[(shape, "signed char", "int") for shape in WIDE],
    ((16, 16, 16), "unsigned char", "int"),
    ((16, 16, 8), "float", "float"),
    ((8, 8, 4), "double", "double"),
]


def stored(matrix: np.ndarray, layout: str, extra: int) -> tuple[np.ndarray, int]:
    """The matrix in memory, with ``extra`` elements of padding behind each row (or column), and its stride."""
    lines = matrix if layout == "row" else matrix.T
    room = np.zeros((lines.shape[0], lines.shape[1] + extra), matrix.dtype)
    room[:, : lines.shape[1]] = lines
    return room, room.shape[1]


@pytest.mark.parametrize("layouts", ["row col row", "col row col"])
@pytest.mark.parametrize(("shape", "in_", "sum_"), FORMS, ids=str)
def test_load_multiply_store(shape: tuple[int, int, int], in_: str, sum_: str, layouts: str) -> None:
    m, n, k = shape
    a_layout, b_layout, c_layout = layouts.split()
    random = np.random.default_rng(m + k)
    low = 0 if in_ == "unsigned char" else -6
    a, b = (random.integers(low, 7, size).astype(NUMPY[in_]) for size in ((m, k), (k, n)))
    c = random.integers(-20, 21, (m, n)).astype(NUMPY[sum_])
    macros = {"M": m, "N": n, "K": k, "IN": in_, "SUM": sum_, "A_LAYOUT": f"{a_layout}_major",
              "B_LAYOUT": f"{b_layout}_major", "C_LAYOUT": f"mem_{c_layout}_major",
              "TYPE": "w::precision::tf32" if in_ == "float" else in_}  # fmt: skip
    text = "".join(f"#define {name} {value}\n" for name, value in macros.items())
    # the names M, N and K are macros only behind the headers
    source = SOURCE.replace("namespace w", text + "namespace w")
    device = up.device("model")
    (in_a, lda), (in_b, ldb), (in_c, ldc) = stored(a, a_layout, 8), stored(b, b_layout, 16), stored(c, c_layout, 4)
    out = device.array(np.zeros_like(in_c))
    arrays = [device.array(array.view(np.uint8)) for array in (in_a, in_b, in_c)]
    device.compile(source)["product"].launch(grid=1, block=32, args=[*arrays, out, *map(np.uint32, (lda, ldb, ldc))])
    wide = np.float64 if sum_ != "int" else np.int64
    expected, _ = stored((2 * (a.astype(wide) @ b.astype(wide) + c.astype(wide))).astype(NUMPY[sum_]), c_layout, 4)
    assert (out.numpy() == expected).all()


LOAD = "wmma.load.c.sync.aligned.row.m16n16k16.f32 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, [%p]"


@pytest.mark.parametrize(
    ("body", "error", "text"),
    [
        (f"{LOAD}, %lane;", UndefinedBehavior, "the stride differs between the lanes"),
        (LOAD.replace(", %f7", "") + ";", PtxSyntaxError, "C has 7 registers, must have 8"),
        (LOAD.replace("m16n16k16", "m16n16k8").replace(".f32", ".f16") + ";", NotModelled, "m16n16k8 with C of f16"),
        (LOAD.replace("load.c", "load.a") + ";", NotModelled, "with A of f32"),
    ],
)
def test_what_is_refused(body: str, error: type[Exception], text: str) -> None:
    declarations = ".reg .f32 %f<8>;\n.reg .b64 %p;\n.shared .align 16 .b8 room[4096];\ncvta.shared.u64 %p, room;"
    with pytest.raises(error, match=text):
        run(body, {"a": np.zeros(32, np.uint32)}, declarations=declarations)
