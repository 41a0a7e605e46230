"""Files written for nvcc compile as they are: headers that NVRTC lacks have stand-ins, the user's own come first."""

from __future__ import annotations

from pathlib import Path

from umma_probe.gpu.nvrtc import compile_source
from umma_probe.gpu.stand_ins import STAND_INS

KERNEL = """
template <class T> __global__ void k(T* y, uint32_t n, std::uint64_t m, const __grid_constant__ CUtensorMap map) {
  static_assert(std::is_same_v<T, float> && sizeof map == 128 && alignof(CUtensorMap) == 64);
  cudaGridDependencySynchronize();
  const int i = threadIdx.x;
  assert(i < 64);
  auto [p, q] = std::make_tuple(i, 2.f);
  std::array<int, 3> a{1, 2, 3};
  if (i < n) y[i] = __bfloat162float(__float2bfloat16(std::move(q))) + a[i % 3] + p + std::max(i, 2);
  if (i == 3) printf("%d %f\\n", i, std::sqrt(q));
}
template __global__ void k<float>(float*, uint32_t, uint64_t, const __grid_constant__ CUtensorMap);
"""


def _ptx(source: str, include_dirs: tuple[Path, ...] = ()) -> str:
    return compile_source(source, "k.cu", arch="sm_100a", kind="ptx", include_dirs=include_dirs).ptx


def test_a_file_written_for_nvcc() -> None:
    """All of them at once: each opens the same namespace."""
    headers = ["cuda_bf16.h", *STAND_INS]
    ptx = _ptx("".join(f"#include <{name}>\n" for name in headers) + KERNEL)
    assert ".entry _Z1kIfE" in ptx
    assert "griddepcontrol.wait;" in ptx


def test_the_users_own_header_comes_first(tmp_path: Path) -> None:
    (tmp_path / "cuda_runtime.h").write_text("#define OWN 7\n")
    source = '#include <cuda_runtime.h>\nextern "C" __global__ void k(int* p) { *p = OWN; }\n'
    assert "7;" in _ptx(source, (tmp_path,))
