"""Tensor maps built and changed by the kernel: values of ``tensormap.replace``, and the fences that a copy needs."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from umma_probe.errors import DeviceError, PtxSyntaxError, UmmaProbeError, UndefinedBehavior
from umma_probe.gpu.nvrtc import compile_source
from umma_probe.model.launch import Launch, LaunchConfig
from umma_probe.model.machine import Machine
from umma_probe.model.tma.tensor_map import encode_tiled, replace_field

SOURCE = """
typedef unsigned char u8;
typedef unsigned long long u64;
extern __shared__ __align__(1024) u8 memory[];

static __device__ unsigned shared(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

static __device__ void load(const void* map, u8* out, int x, int y) {
  __shared__ __align__(8) u64 bar;
  if (threadIdx.x == 0) {
    unsigned mbar = shared(&bar);
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(mbar) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" ::"r"(mbar) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(shared(memory)), "l"(map), "r"(x), "r"(y), "r"(mbar) : "memory");
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again; }"
                 ::"r"(mbar) : "memory");
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(mbar) : "memory");
  }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < 256; i += blockDim.x) out[i] = memory[i];
}

#define REPLACE32(FIELD, VALUE) \\
  asm volatile("tensormap.replace.tile." FIELD ".shared::cta.b1024.b32 [%0], " VALUE ";" ::"r"(at) : "memory")
#define AXIS32(FIELD, AXIS, VALUE) \\
  asm volatile("tensormap.replace.tile." FIELD ".shared::cta.b1024.b32 [%0], " AXIS ", %1;" \\
               ::"r"(at), "r"(VALUE) : "memory")

extern "C" __global__ void build(u8* slot, const u8* tensor, u8* out, int acquire) {
  __shared__ __align__(128) u8 map[128];
  unsigned at = shared(map);
  if (threadIdx.x < 32) ((unsigned*)map)[threadIdx.x] = 0;
  __syncwarp();
  if (threadIdx.x == 0) {
    asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(at), "l"(tensor));
    REPLACE32("rank", "1");
    AXIS32("box_dim", "0", 16);
    AXIS32("box_dim", "1", 8);
    AXIS32("global_dim", "0", 64);
    AXIS32("global_dim", "1", 32);
    asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 0, %1;" ::"r"(at), "l"(128ull));
    AXIS32("element_stride", "0", 1);
    AXIS32("element_stride", "1", 1);
    REPLACE32("elemtype", "1");
    REPLACE32("interleave_layout", "0");
    REPLACE32("swizzle_mode", "1");
    REPLACE32("fill_mode", "0");
  }
  __syncwarp();
  if (threadIdx.x < 32)
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
                 "[%0], [%1], 128;" ::"l"(slot), "r"(at) : "memory");
  if (acquire) asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(slot) : "memory");
  __syncthreads();
  load(slot, out, 16, 4);
}

extern "C" __global__ void change(u8* map, const u8* tensor, u8* out, int acquire) {
  load(map, out, 0, 0);
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("tensormap.replace.tile.global_address.global.b1024.b64 [%0], %1;" ::"l"(map), "l"(tensor) : "memory");
    asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
  }
  __syncthreads();
  if (acquire) asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
  load(map, out + 256, 0, 0);
}

extern "C" __global__ void plain_copy(u8* map, const u8* other, u8* out, int acquire) {
  load(map, out, 0, 0);
  __syncthreads();
  if (threadIdx.x < 32) ((unsigned*)map)[threadIdx.x] = ((const unsigned*)other)[threadIdx.x];
  asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
  __syncthreads();
  if (acquire) asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
  load(map, out + 256, 0, 0);
}

extern "C" __global__ void use(const u8* map, u8* out) { load(map, out, 0, 0); }
"""


@cache
def _module() -> tuple[Machine, Any]:
    machine = Machine()
    return machine, machine.load(compile_source(SOURCE, "maps.cu", arch="sm_100a", kind="ptx").ptx, "maps.ptx")


def _upload(values: Any) -> int:
    machine = _module()[0]
    data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    allocation = machine.memory.allocate(len(data))
    machine.memory.write(allocation.address, data)
    return allocation.address


def _run(entry: str, *arguments: int, policy: str = "lazy") -> Launch:
    machine, module = _module()
    sizes = [4 if index == 3 else 8 for index in range(len(arguments))]
    data = [value.to_bytes(size, "little") for value, size in zip(arguments, sizes, strict=True)]
    return machine.launch(module, entry, LaunchConfig((1, 1, 1), (64, 1, 1), dynamic_smem=1024), data, policy)


def _read(address: int, count: int) -> Any:
    return _module()[0].memory.read(address, count)


TENSOR = np.arange(64 * 32, dtype=np.uint16).reshape(32, 64)
FIELDS: dict[str, Any] = {"dtype": "u16", "global_dim": [64, 32], "global_strides": [128], "box_dim": [16, 8]}


@pytest.mark.parametrize("policy", ["eager", "lazy", "random:2"])
def test_a_map_built_by_the_kernel(policy: str) -> None:
    out = _upload(np.zeros(256, np.uint8))
    launch = _run("build", _upload(np.zeros(128, np.uint8)), _upload(TENSOR), out, 1, policy=policy)
    assert not launch.findings
    # 32-byte swizzle, rows of 32 bytes: in every other line of 128 bytes (4 rows) neighbouring chunks change places
    chunks = _read(out, 256).view(np.uint16).reshape(8, 2, 8).copy()
    chunks[4:] = chunks[4:, ::-1]
    np.testing.assert_array_equal(chunks.reshape(8, 16), TENSOR[4:12, 16:32])


@pytest.mark.parametrize("entry", ["build", "change", "plain_copy"])
def test_use_without_acquire_is_reported(entry: str) -> None:
    first, second = _upload(TENSOR), _upload(TENSOR + 5000)
    maps = [_upload(np.frombuffer(encode_tiled(base, **FIELDS).data, np.uint8)) for base in (first, second)]
    source = {"build": first, "change": second, "plain_copy": maps[1]}[entry]
    out = _upload(np.zeros(512, np.uint8))
    findings = _run(entry, maps[0], source, out, 0).findings
    assert [rule for rule, _ in findings] == ["stale-tensor-map"]


@pytest.mark.parametrize("entry", ["change", "plain_copy"])
def test_with_acquire_the_new_map_is_used(entry: str) -> None:
    first, second = _upload(TENSOR), _upload(TENSOR + 5000)
    maps = [_upload(np.frombuffer(encode_tiled(base, **FIELDS).data, np.uint8)) for base in (first, second)]
    out = _upload(np.zeros(512, np.uint8))
    launch = _run(entry, maps[0], second if entry == "change" else maps[1], out, 1)
    assert not launch.findings
    both = _read(out, 512).view(np.uint16).reshape(2, 8, 16)
    np.testing.assert_array_equal(both[0], TENSOR[:8, :16])
    np.testing.assert_array_equal(both[1], TENSOR[:8, :16] + 5000)


def _use(address: int) -> None:
    _run("use", address, _upload(np.zeros(256, np.uint8)))


def test_a_map_in_global_memory_is_legal() -> None:
    _use(_upload(np.frombuffer(encode_tiled(_upload(TENSOR), **FIELDS).data, np.uint8)))


@pytest.mark.parametrize(
    ("place", "error", "words"),
    [
        ("misaligned", DeviceError, "aligned to 64 bytes"),
        ("nowhere", DeviceError, "lie in no allocation"),
        ("noise", DeviceError, "no tensor map"),
        ("shared", DeviceError, "shared or local memory"),
        ("broken", UndefinedBehavior, "box_dim[1] is 0"),
    ],
)
def test_places_and_bytes_that_are_no_map(place: str, error: type[UmmaProbeError], words: str) -> None:
    good = np.frombuffer(encode_tiled(_upload(TENSOR), **FIELDS).data, np.uint8)
    broken = np.frombuffer(replace_field(good.tobytes(), "box_dim1", 0), np.uint8)
    address = {
        "misaligned": lambda: _upload(np.concatenate([np.zeros(16, np.uint8), good])) + 16,
        "nowhere": lambda: 64,
        "noise": lambda: _upload(np.full(128, 7, np.uint8)),
        "shared": lambda: 0x7F00_0000_0400,
        "broken": lambda: _upload(broken),
    }[place]()
    with pytest.raises(error) as caught:
        _use(address)
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%a], 5, 1;", "axis is 5, must be 0 to 4"),
        ("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%a], 4, 16;", "axis is 4, must be 0 to 3"),
        ("tensormap.replace.tile.global_stride.shared::cta.b1024.b32 [%a], 0, 16;", "must be .b64"),
        ("tensormap.replace.tile.rank.shared::cta.b1024.b32 [%a], 0, 1;", "3 operands"),
        ("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%a], [%a], 64;",
         "size is 64, must be 128"),
    ],
)  # fmt: skip
def test_forms_that_do_not_exist(line: str, words: str) -> None:
    text = (
        f".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k()\n{{\n.reg .b32 %a;\n{line}\nret;\n}}\n"
    )
    with pytest.raises(UmmaProbeError) as caught:
        Machine().load(text, "k.ptx").program("k")
    assert words in str(caught.value)
    assert not isinstance(caught.value, PtxSyntaxError) or "operands" in words


@pytest.mark.parametrize(("field", "value"), [("elemtype", 16), ("swizzle_mode", 5), ("fill_mode", 2), ("rank", 9)])
def test_values_that_mean_nothing(field: str, value: int) -> None:
    text = (
        ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k()\n{\n.shared .align 128 .b8 m[128];\n"
        f".reg .b32 %a;\nmov.u32 %a, m;\ntensormap.replace.tile.{field}.shared::cta.b1024.b32 [%a], {value};\n"
        "ret;\n}\n"
    )
    machine = Machine()
    with pytest.raises(UndefinedBehavior, match=r"tensormap\.replace"):
        machine.launch(machine.load(text, "k.ptx"), "k", LaunchConfig((1, 1, 1), (1, 1, 1)), [])
