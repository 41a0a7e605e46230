"""The cases of the GPU self-test: small kernels with known answers, and mistakes that must be explained.

The kernels are strings here, so that the test needs nothing but the installed package. None uses Tensor Memory:
they test this package, on any GPU of capability 9.0 or later.
"""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import ConfigError, DeviceError, DeviceTimeout, DeviceUnavailable, UmmaProbeError
from umma_probe.gpu.nvrtc import compile_source
from umma_probe.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from umma_probe.gpu.device import GpuDevice


@dataclass(frozen=True)
class Case:
    """One experiment. ``run`` returns what it saw, and raises ``Mismatch`` when that is not what it must be."""

    name: str
    about: str
    run: Callable[[GpuDevice], str]


class Mismatch(Exception):
    """The GPU answered, with something else."""


CASES: Registry[Case] = Registry("self-test case")


def _case(name: str, about: str) -> Callable[[Callable[[GpuDevice], str]], Callable[[GpuDevice], str]]:
    def register(run: Callable[[GpuDevice], str]) -> Callable[[GpuDevice], str]:
        CASES.add(name, Case(name, about, run))
        return run

    return register


def _same(what: str, expected: np.ndarray[Any, Any], actual: np.ndarray[Any, Any]) -> None:
    wrong = np.flatnonzero(expected != actual)
    if wrong.size:
        at = int(wrong[0])
        raise Mismatch(
            f"{what}: {wrong.size} of {expected.size} differ, first at {at}: "
            f"expected {expected.flat[at]}, actual {actual.flat[at]}"
        )


def _refused(kind: type[UmmaProbeError], action: Callable[[], object], *words: str) -> UmmaProbeError:
    """The error of ``kind`` that the action must raise, with all the words in it."""
    try:
        action()
    except kind as error:
        missing = [word for word in words if word not in str(error)]
        if missing:
            raise Mismatch(f"the message lacks {missing}: {error.message}") from error
        return error
    raise Mismatch(f"no {kind.__name__} was raised")


# ---------------------------------------------------------------------------------------------- kernels that must work

_AXPY = """
extern "C" __global__ void axpy(float* y, const float* x, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
"""


@_case("vector", "buffers to and from the GPU, pointer and scalar arguments, a grid with a ragged end")
def _vector(device: GpuDevice) -> str:
    n = 1_000_003
    x = np.arange(n, dtype=np.float32) % 1024
    y = np.arange(n, dtype=np.float32) % 512
    out = device.array(y)
    kernel = device.compile(_AXPY, "axpy.cu")["axpy"]
    arguments: list[Any] = [out, device.array(x), np.float32(3), np.int32(n)]
    result = kernel.launch(grid=-(-n // 256), block=256, args=arguments)
    _same("y", 3 * x + y, out.numpy())
    return f"{n} elements in {result.gpu_seconds * 1e6:.0f} us"


@_case("ptx", "PTX of this NVRTC, assembled by the driver")
def _ptx(device: GpuDevice) -> str:
    ptx = compile_source(_AXPY, "axpy.cu", arch=device.arch, kind="ptx").ptx
    version = ptx.split(".version", 1)[1].split(None, 1)[0]
    try:
        kernel = device.load_ptx(ptx)["axpy"]
    except DeviceUnavailable as error:
        if "UNSUPPORTED_PTX_VERSION" in error.message:
            return f"PTX {version} is later than the driver's, and was refused as such: {error.message}"
        raise
    out = device.array(np.ones(32, np.float32))
    kernel.launch(grid=1, block=32, args=[out, out, np.float32(2), np.int32(32)])
    _same("y", np.full(32, 3, np.float32), out.numpy())
    return f"PTX {version}"


_REVERSE = """
extern "C" __global__ void reverse(unsigned* data, int n) {
  extern __shared__ unsigned tile[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) tile[i] = data[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] = tile[n - 1 - i];
}
"""


@_case("dynamic-smem", "dynamic shared memory up to the device's limit, far over 48 KiB")
def _dynamic_smem(device: GpuDevice) -> str:
    size = device.limits.max_smem_bytes
    values = np.arange(size // 4, dtype=np.uint32) * 2654435761
    buffer = device.array(values)
    kernel = device.compile(_REVERSE, "reverse.cu")["reverse"]
    kernel.launch(grid=1, block=512, dynamic_smem=size, args=[buffer, np.int32(values.size)])
    _same("data", values[::-1], buffer.numpy())
    return f"{size} bytes"


_RING = """
extern "C" __global__ void ring(unsigned* out) {
  __shared__ unsigned slot;
  unsigned rank, size, mine = (unsigned)__cvta_generic_to_shared(&slot), peer;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer) : "r"(mine), "r"((rank + 1) % size));
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(peer), "r"(1000 * size + rank) : "memory");
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  out[blockIdx.x] = slot;
}
"""


@_case("cluster", "clusters of 2, 8 and 16 CTAs; each writes into the shared memory of its neighbour")
def _cluster(device: GpuDevice) -> str:
    kernel = device.compile(_RING, "ring.cu")["ring"]
    for size in (2, 8, 16):
        out = device.array(np.zeros(16, np.uint32))
        kernel.launch(grid=16, block=32, cluster=size, args=[out])
        rank = np.arange(16, dtype=np.uint32) % size
        _same(f"cluster of {size}", 1000 * size + (rank - 1) % size, out.numpy())
    return "2, 8 and 16 CTAs"


@_case("cluster-dims", "a kernel with __cluster_dims__ gets its cluster without being asked, and refuses another")
def _cluster_dims(device: GpuDevice) -> str:
    source = _RING.replace("__global__ void", "__global__ void __cluster_dims__(4, 1, 1)")
    kernel = device.compile(source, "ring.cu")["ring"]
    out = device.array(np.zeros(8, np.uint32))
    kernel.launch(grid=8, block=32, args=[out])
    _same("cluster of 4", 4000 + (np.arange(8, dtype=np.uint32) - 1) % 4, out.numpy())
    error = _refused(ConfigError, lambda: kernel.launch(grid=8, block=32, cluster=2, args=[out]), "__cluster_dims__")
    return error.message


_STRUCT = """
struct Params { double* out; int count; unsigned char tag; float scale; const double* in; char tail[5]; };
extern "C" __global__ void packed(__grid_constant__ const Params p, short last) {
  if (threadIdx.x < p.count) p.out[threadIdx.x] = p.in[threadIdx.x] * p.scale + p.tag + p.tail[4] + last;
}
"""


@_case("struct", "a struct by value with pointers inside, as bytes, and a 2-byte scalar after it")
def _struct(device: GpuDevice) -> str:
    source = np.arange(24, dtype=np.float64)
    before, out = device.array(source), device.array(np.full(32, -1.0))
    # the x are the compiler's padding: the second pointer lies at 24, the whole has 40 bytes
    params = struct.pack("<QiB3xf4xQ5s3x", out.address, 24, 7, 0.5, before.address, b"\0\0\0\0\x05")
    kernel = device.compile(_STRUCT, "packed.cu")["packed"]
    kernel.launch(grid=1, block=32, args=[params, np.int16(-100)])
    _same("out", np.concatenate([source * 0.5 + 12 - 100, np.full(8, -1.0)]), out.numpy())
    return f"parameters (offset, size): {list(kernel.facts.parameters)}"


_TMA = """
struct alignas(64) Map { unsigned char bytes[128]; };
extern "C" __global__ void tma(const __grid_constant__ Map map, unsigned* out) {
  __shared__ alignas(1024) unsigned tile[8 * 32];
  __shared__ alignas(8) unsigned long long barrier;
  unsigned destination = (unsigned)__cvta_generic_to_shared(tile);
  unsigned mbarrier = (unsigned)__cvta_generic_to_shared(&barrier);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(mbarrier) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" :: "r"(mbarrier) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];"
                 :: "r"(destination), "l"(&map), "r"(32), "r"(4), "r"(mbarrier) : "memory");
  }
  __syncthreads();
  asm volatile("{ .reg .pred done; WAIT: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;"
               " @!done bra WAIT; }" :: "r"(mbarrier) : "memory");
  for (int i = threadIdx.x; i < 8 * 32; i += 32) out[i] = tile[i];
}
"""


@_case("tensor-map", "TMA through an encoded tensor map: 128-byte swizzle, rows out of bounds filled with zero")
def _tensor_map(device: GpuDevice) -> str:
    matrix = np.arange(10 * 96, dtype=np.uint32).reshape(10, 96)
    buffer = device.array(matrix)
    tensor_map = device.tensor_map(
        buffer, dtype="u32", global_dim=[96, 10], global_strides=[384], box_dim=[32, 8], swizzle="128B"
    )
    out = device.array(np.zeros((8, 32), np.uint32))
    device.compile(_TMA, "tma.cu")["tma"].launch(grid=1, block=32, args=[tensor_map, out])
    box = np.zeros((8, 8, 4), np.uint32)  # rows, 16-byte chunks, words
    box[:6] = matrix[4:10, 32:64].reshape(6, 8, 4)
    rows, chunks = np.indices((8, 8))
    _same("tile", box[rows, chunks ^ rows].reshape(8, 32), out.numpy())
    return "chunk index xor row, as documented"


# -------------------------------------------------------------------------------------- mistakes that must be explained


@_case("arguments", "a wrong count, size or type of argument is refused before the launch")
def _arguments(device: GpuDevice) -> str:
    kernel = device.compile(_AXPY, "axpy.cu")["axpy"]
    out = device.empty(32, np.float32)

    def launch(*args: Any) -> Callable[[], object]:
        return lambda: kernel.launch(grid=1, block=32, args=args)

    _refused(ConfigError, launch(out), "takes 4 arguments", "1 given")
    _refused(ConfigError, launch(out, out, np.float64(1), np.int32(1)), "argument 2", "8 bytes", "must be 4")
    _refused(ConfigError, launch(out, out, 1.0, np.int32(1)), "argument 2", "float")
    return _refused(ConfigError, lambda: kernel.module["axpi"], "did you mean axpy").message


@_case("limits", "a launch over the device's limits is refused with the number that is wrong")
def _limits(device: GpuDevice) -> str:
    kernel = device.compile(_RING, "ring.cu")["ring"]
    out = device.empty(1, np.uint32)
    too_much = device.limits.max_smem_bytes + 1
    _refused(ConfigError, lambda: kernel.launch(grid=1, block=2048, args=[out]), "2048 threads", "1024")
    _refused(ConfigError, lambda: kernel.launch(grid=3, block=32, cluster=2, args=[out]), "multiple of cluster.x")
    _refused(ConfigError, lambda: kernel.launch(grid=32, block=32, cluster=32, args=[out]), "32 CTAs")
    error = _refused(ConfigError, lambda: kernel.launch(grid=1, block=32, dynamic_smem=too_much, args=[out]), "bytes")
    return error.message


@_case("wrong-architecture", "a cubin for another architecture is refused, with the GPU's own")
def _wrong_architecture(device: GpuDevice) -> str:
    other = "sm_100a" if device.info.arch == "sm_90" else "sm_90a"
    cubin = compile_source(_AXPY, "axpy.cu", arch=other, kind="cubin").cubin
    return _refused(
        DeviceUnavailable, lambda: device.load_cubin(cubin), "another architecture", device.info.arch
    ).message


def _fault(name: str, about: str, body: str, *words: str, smem: int = 0) -> None:
    """A kernel that must fault, with ``words`` in the explanation; afterwards the context must be known as lost."""
    source = f'extern "C" __global__ void bad(unsigned* p) {{ extern __shared__ unsigned s[]; {body} }}'

    @_case(name, about)
    def run(device: GpuDevice) -> str:
        kernel = device.compile(source, f"{name}.cu")["bad"]
        out = device.array(np.zeros(32, np.uint32))
        error = _refused(
            DeviceError, lambda: kernel.launch(grid=1, block=32, dynamic_smem=smem, args=[out]), "'bad'", *words
        )
        _refused(DeviceError, out.numpy, "context was lost")
        return error.message


_fault("fault-address", "a store far outside any buffer", "p[1ull << 40] = 1;", "ILLEGAL_ADDRESS")
_fault(
    "fault-misaligned",
    "a 16-byte store at an address that is a multiple of 4",
    'asm volatile("st.global.v4.b32 [%0], {0, 0, 0, 0};" :: "l"(p + 1) : "memory");',
    "MISALIGNED_ADDRESS",
)
_fault("fault-trap", "trap", 'asm volatile("trap;");', "LAUNCH_FAILED")
_fault(
    "fault-shared",
    "a store past the CTA's shared memory",
    'asm volatile("st.shared.b32 [%0], 1;" :: "r"(0x7ffff0) : "memory");',
    "ILLEGAL_ADDRESS",
    smem=1024,
)

_HANG = """
extern "C" __global__ void hang(volatile unsigned* flag, unsigned long long limit_ns) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); } while (!*flag && now - start < limit_ns);
}
"""


@_case("printf", "what a kernel prints comes back with the launch, and stdout stays clean")
def _printf(device: GpuDevice) -> str:
    source = (
        'extern "C" __global__ void say(int n) { if (threadIdx.x == 3) printf("lane %d of %d\\n", threadIdx.x, n); }'
    )
    printed = device.compile(source, "printf.cu")["say"].launch(grid=1, block=32, args=[np.int32(32)]).printed
    if printed != "lane 3 of 32\n":
        raise Mismatch(f"printed {printed!r}, must be 'lane 3 of 32'")
    return printed.strip()


@_case("hang", "a kernel that waits for what never comes is given up after the timeout (it ends by itself after 10 s)")
def _hang(device: GpuDevice) -> str:
    kernel = device.compile(_HANG, "hang.cu")["hang"]
    flag = device.array(np.zeros(1, np.uint32))
    start = time.monotonic()
    arguments: list[Any] = [flag, np.uint64(10_000_000_000)]
    _refused(DeviceTimeout, lambda: kernel.launch(grid=1, block=1, args=arguments, timeout=0.5), "not finished")
    seconds = time.monotonic() - start
    if seconds > 2:
        raise Mismatch(f"the timeout of 0.5 s took {seconds:.1f} s")
    _refused(DeviceError, flag.numpy, "context was lost")
    return f"given up after {seconds:.2f} s"
