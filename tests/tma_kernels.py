"""Kernels that do one TMA copy each, for the model and for a GPU, and the hosts that run them.

``load_Nd`` copies one box into shared memory that was filled with a sentinel and dumps that memory; ``store_Nd`` and
``reduce_OP`` fill shared memory from a buffer and copy one box out of it. The wait for a load ends after a while even
if the bytes never come, and says so, so a wrong byte count is an answer and not a hang.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.gpu.nvrtc import compile_source
from umma_probe.model.launch import LaunchConfig
from umma_probe.model.machine import Machine
from umma_probe.model.tma.tensor_map import encode_im2col, encode_tiled

if TYPE_CHECKING:
    from umma_probe.model.launch import Launch

SENTINEL = 0xA5
MBARRIER_BYTES = 64
THREADS = 256

_HEAD = """
struct __align__(64) TensorMap { unsigned char bytes[128]; };
struct Box { int at[5]; unsigned short offset[4]; };
typedef unsigned char u8;

static __device__ unsigned window(unsigned bytes) {
  extern __shared__ u8 memory[];
  return ((unsigned)__cvta_generic_to_shared(memory) + 1023u) & ~1023u;
}
static __device__ void put(unsigned address, unsigned value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}
static __device__ unsigned get(unsigned address) {
  unsigned value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}
static __device__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
static __device__ bool wait(unsigned mbar) {
  unsigned done = 0;
  for (int tries = 0; tries < 2000 && !done; ++tries)
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(mbar) : "memory");
  return done;
}
"""

_LOAD = """
extern "C" __global__ void load_{name}(const __grid_constant__ TensorMap map, unsigned* out, unsigned* status, Box box,
                                       unsigned offset, unsigned expected, unsigned bytes) {{
  unsigned base = window(bytes), mbar = base + bytes;
  for (unsigned i = threadIdx.x; i < bytes / 4; i += blockDim.x) put(base + 4 * i, {sentinel}u * 0x01010101u);
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(mbar) : "memory");
  fence_async();
  __syncthreads();
  if (threadIdx.x == 0) {{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mbar), "r"(expected) : "memory");
    asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {coords}], [%2]{offsets};"
                 ::"r"(base + offset), "l"(&map), "r"(mbar){arguments} : "memory");
    status[0] = wait(mbar);
  }}
  __syncthreads();
  for (unsigned i = threadIdx.x; i < bytes / 4; i += blockDim.x) out[i] = get(base + 4 * i);
}}
"""

_STORE = """
extern "C" __global__ void {verb}_{name}(const __grid_constant__ TensorMap map, const unsigned* in, Box box,
                                         unsigned offset, unsigned bytes) {{
  unsigned base = window(bytes);
  for (unsigned i = threadIdx.x; i < bytes / 4; i += blockDim.x) put(base + 4 * i, in[i]);
  fence_async();
  __syncthreads();
  if (threadIdx.x == 0) {{
    asm volatile("{opcode}.{rank}d.global.shared::cta.{mode}.bulk_group [%1, {coords}], [%0];"
                 ::"r"(base + offset), "l"(&map){arguments} : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }}
}}
"""
REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


def _vector(first: int, count: int) -> str:
    return "{" + ", ".join(f"%{first + i}" for i in range(count)) + "}"


def _load(name: str, rank: int, mode: str, coords: int, offsets: int = 0) -> str:
    arguments = "".join(f', "r"(box.at[{i}])' for i in range(coords))
    arguments += "".join(f', "h"(box.offset[{i}])' for i in range(offsets))
    tail = f", {_vector(3 + coords, offsets)}" if offsets else ""
    return _LOAD.format(name=name, rank=rank, mode=mode, coords=_vector(3, coords), offsets=tail, arguments=arguments,
                        sentinel=SENTINEL)  # fmt: skip


def _store(verb: str, opcode: str, name: str, rank: int, mode: str, coords: int) -> str:
    arguments = "".join(f', "r"(box.at[{i}])' for i in range(coords))
    return _STORE.format(verb=verb, opcode=opcode, name=name, rank=rank, mode=mode, coords=_vector(2, coords),
                         arguments=arguments)  # fmt: skip


def source(blackwell: bool) -> str:
    """All kernels of sm_90, and with ``blackwell`` those that need sm_100a."""
    parts = [_HEAD]
    for rank in range(1, 6):
        parts.append(_load(f"{rank}d", rank, "tile", rank))
        parts.append(_store("store", "cp.async.bulk.tensor", f"{rank}d", rank, "tile", rank))
    for rank in range(3, 6):
        parts.append(_load(f"im2col_{rank}d", rank, "im2col", rank, rank - 2))
        parts.append(_store("store", "cp.async.bulk.tensor", f"im2col_{rank}d", rank, "im2col_no_offs", rank))
    for operator in REDUCTIONS:
        parts.append(_reduction(operator))
    if blackwell:
        parts.append(_load("gather4", 2, "tile::gather4", 5))
        parts.append(_store("store", "cp.async.bulk.tensor", "scatter4", 2, "tile::scatter4", 5))
    return "\n".join(parts)


def _reduction(operator: str) -> str:
    text = _store("reduce", "cp.reduce.async.bulk.tensor", operator, 2, f"{operator}.tile", 2)
    # the operator stands before the mode
    return text.replace(f"shared::cta.{operator}.tile.bulk_group", f"shared::cta.{operator}.bulk_group")


@dataclass
class Copy:
    """One copy: the tensor, its map, and where the instruction starts."""

    kernel: str
    tensor: Any
    """The bytes of the tensor's buffer, any dtype; sliced by the map as it says."""
    map: dict[str, Any]
    """Arguments of ``encode_tiled``, or of ``encode_im2col`` when it has corners."""
    at: tuple[int, ...]
    offsets: tuple[int, ...] = ()
    smem_offset: int = 0
    smem_bytes: int = 8192
    tx_bytes: int = 0
    """What the mbarrier expects of a load."""
    shared: Any = None
    """What shared memory holds before a store."""

    @property
    def is_load(self) -> bool:
        return self.kernel.startswith("load")

    def box(self) -> bytes:
        at = np.array([*self.at, 0, 0, 0, 0, 0][:5], np.int32)
        offsets = np.array([*self.offsets, 0, 0, 0, 0][:4], np.uint16)
        return at.tobytes() + offsets.tobytes()


@dataclass
class Outcome:
    """What memory holds afterwards."""

    shared: Any
    """Dump of shared memory after a load (uint8), else None."""
    tensor: Any
    """The tensor's bytes after a store, else None."""
    complete: bool
    launch: Launch | None = field(default=None, repr=False)


@cache
def model_ptx() -> str:
    return compile_source(source(blackwell=True), "tma.cu", arch="sm_100a", kind="ptx").ptx


@cache
def _machine() -> tuple[Machine, Any]:
    machine = Machine()
    return machine, machine.load(model_ptx(), "tma.ptx")


def run_on_model(copy: Copy, policy: str = "eager") -> Outcome:
    """One copy on the model."""
    machine, module = _machine()

    def upload(values: Any) -> Any:
        data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        allocation = machine.memory.allocate(len(data))
        machine.memory.write(allocation.address, data)
        return allocation

    encode = encode_im2col if "channels_per_pixel" in copy.map else encode_tiled
    tensor = upload(copy.tensor)
    data = encode(tensor.address, **copy.map).data
    config = LaunchConfig((1, 1, 1), (THREADS, 1, 1), dynamic_smem=copy.smem_bytes + 1024 + MBARRIER_BYTES)

    def word(value: int, size: int = 4) -> bytes:
        return value.to_bytes(size, "little")

    if copy.is_load:
        out, status = upload(np.zeros(copy.smem_bytes, np.uint8)), upload(np.zeros(4, np.uint8))
        arguments = [data, word(out.address, 8), word(status.address, 8), copy.box(), word(copy.smem_offset),
                     word(copy.tx_bytes), word(copy.smem_bytes)]  # fmt: skip
        launch = machine.launch(module, copy.kernel, config, arguments, policy)
        complete = bool(machine.memory.read(status.address, 4)[0])
        return Outcome(machine.memory.read(out.address, copy.smem_bytes), None, complete, launch)
    source_ = upload(copy.shared)
    arguments = [data, word(source_.address, 8), copy.box(), word(copy.smem_offset), word(copy.smem_bytes)]
    launch = machine.launch(module, copy.kernel, config, arguments, policy)
    return Outcome(None, machine.memory.read(tensor.address, tensor.size_bytes), True, launch)
