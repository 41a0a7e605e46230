"""Stand-ins for headers that host compilers have and NVRTC has not, so that a kernel's own file compiles as it is.

A ``.cu`` written for nvcc includes ``<cstdint>`` or ``<cuda_runtime.h>`` although its device code needs little of them.
What a kernel uses of the C++ library, CUDA's own ``cuda::std`` offers to device code; the stand-in opens it to ``std``.
What NVRTC has built in needs an empty file; of ``cuda.h`` kernels take ``CUtensorMap``, of the runtime the two calls of
dependent launches. A stand-in is given to NVRTC only where the search path has no such header.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_CXX = (
    "algorithm", "array", "bit", "cassert", "cfloat", "climits", "cmath", "concepts", "cstddef", "cstdint", "cstdlib",
    "cstring", "functional", "initializer_list", "iterator", "limits", "numeric", "optional", "span", "tuple",
    "type_traits", "utility",
)  # fmt: skip
_C = {f"{name}.h": f"c{name}" for name in ("assert", "float", "limits", "math", "stddef", "stdint", "stdlib", "string")}
_BUILT_IN = ("device_launch_parameters.h", "stdio.h", "cstdio")
_RUNTIME = ("cuda_runtime.h", "cuda_runtime_api.h")
_OPEN_STD = "namespace cuda { namespace std {} }\nnamespace std { using namespace ::cuda::std; }\n"
_TENSOR_MAP = """\
struct alignas(64) CUtensorMap_st { unsigned long long opaque[16]; };
typedef struct CUtensorMap_st CUtensorMap;
"""
_DEPENDENT_LAUNCH = """\
static __device__ __forceinline__ void cudaGridDependencySynchronize() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
static __device__ __forceinline__ void cudaTriggerProgrammaticLaunchCompletion() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
"""


def _cuda_std(name: str) -> str:
    return f"#pragma once\n#include <cuda/std/{name}>\n"


STAND_INS: dict[str, str] = {
    **{name: _cuda_std(name) + _OPEN_STD for name in _CXX},
    **{name: _cuda_std(cxx) for name, cxx in _C.items()},
    **dict.fromkeys(_BUILT_IN, "#pragma once\n"),
    **dict.fromkeys(_RUNTIME, "#pragma once\n#include <cuda_device_runtime_api.h>\n"),
    "cuda_device_runtime_api.h": f"#pragma once\n{_DEPENDENT_LAUNCH}",
    "cuda.h": f"#pragma once\n{_TENSOR_MAP}",
    "cudaTypedefs.h": "#pragma once\n#include <cuda.h>\n",
}
"""Header name to text."""


def stand_ins(missing: Iterable[str]) -> dict[str, str]:
    """Those for the headers that a source includes and the search path lacks, with what they include themselves."""
    found = {name: STAND_INS[name] for name in missing if name in STAND_INS}
    for name in ("cuda.h", "cuda_device_runtime_api.h"):
        if any(f"<{name}>" in text for text in found.values()):
            found.setdefault(name, STAND_INS[name])
    return found
