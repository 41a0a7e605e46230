"""Commands that run one kernel on a GPU: whatever it does, an exit code, a verdict, and a stdout that parses."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from umma_probe.gpu.info import probe_environment

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.gpu

SOURCE = r"""
struct __align__(64) TensorMap { unsigned char bytes[128]; };
extern "C" __global__ void good(unsigned* out) { out[threadIdx.x] = threadIdx.x; }
extern "C" __global__ void say(unsigned* out) {
  out[threadIdx.x] = threadIdx.x;
  if (threadIdx.x == 5) printf("{lane %d}\n", threadIdx.x);
}
extern "C" __global__ void address(unsigned* out) { out[threadIdx.x + (1ull << 40)] = 1; }
extern "C" __global__ void trap(unsigned* out) { __trap(); }
extern "C" __global__ void forever(volatile unsigned* out) { while (out[0] != 77) {} }
extern "C" __global__ void columns(const __grid_constant__ TensorMap map, unsigned short* out) {
  __shared__ alignas(128) unsigned short tile[24 * 16];
  __shared__ alignas(8) unsigned long long gate;
  unsigned to = (unsigned)__cvta_generic_to_shared(tile), at = (unsigned)__cvta_generic_to_shared(&gate);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.proxy.async.shared::cta;" :: "r"(at) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 768;" :: "r"(at) : "memory");
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};"
                 :: "r"(to), "l"(&map), "r"(at), "r"(0), "r"(-1), "r"(-1), "r"(0), "h"((short)1), "h"((short)0)
                 : "memory");
  }
  __syncthreads();
  unsigned done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(at) : "memory");
  for (int i = threadIdx.x; i < 24 * 16; i += blockDim.x) out[i] = tile[i];
}
"""
EXIT = {"good": (0, "pass"), "say": (0, "pass"), "address": (6, "fault"), "trap": (6, "fault"), "forever": (5, "hang")}


@pytest.fixture(scope="module", autouse=True)
def _gpu() -> None:
    environment = probe_environment()
    if environment.no_gpu is not None:
        pytest.skip(environment.no_gpu.reason)


def command(*words: str) -> tuple[int, dict[str, Any], str, float]:
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "umma_probe.cli.main", *words, "--json"], capture_output=True,
                          text=True, timeout=120, check=False)  # fmt: skip
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr, time.monotonic() - start


def case(folder: Path, entry: str, **more: Any) -> Path:
    (folder / "kernels.cu").write_text(SOURCE)
    out = {"name": "out", "dtype": "u32", "shape": [32], "init": "zero"}
    document = {"name": entry, "source": "kernels.cu", "entry": entry, "grid": [1], "block": [32], "buffers": [out],
                "args": [{"buffer": "out"}], "expect": []} | more  # fmt: skip
    path = folder / f"{entry}.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.parametrize("entry", EXIT)
def test_exec(tmp_path: Path, entry: str) -> None:
    code, report, said, seconds = command("exec", str(case(tmp_path, entry)), "--target", "cuda", "--timeout", "2")
    assert (code, report["verdict"]) == EXIT[entry]
    assert report["target"]["kind"] == "cuda"
    assert ("{lane 5}" in said) == (entry == "say")
    assert seconds < 60
    if entry == "forever":
        assert "not finished after 2 s" in report["checks"][-1]["message"]


def test_im2col_on_the_gpu_as_on_the_model(tmp_path: Path) -> None:
    buffers = [{"name": "image", "dtype": "u16", "shape": [3, 8, 9, 32], "init": "arange"},
               {"name": "out", "dtype": "u16", "shape": [24, 16], "init": "sentinel"}]  # fmt: skip
    image = {"name": "tm", "buffer": "image", "dtype": "u16", "rank": 4, "global_dim": [32, 9, 8, 3],
             "global_strides": [64, 576, 4608], "pixel_box_lower_corner": [-1, -1], "pixel_box_upper_corner": [-1, -1],
             "channels_per_pixel": 16, "pixels_per_column": 24, "element_strides": [1, 1, 1, 1]}  # fmt: skip
    path = case(tmp_path, "columns", buffers=buffers, tensor_maps=[image], arch="sm_90a",
                args=[{"tensor_map": "tm"}, {"buffer": "out"}])  # fmt: skip
    outputs = []
    for target in ("cuda", "model"):
        folder = tmp_path / target
        code, _, said, _ = command("exec", str(path), "--target", target, "--save-outputs", str(folder))
        assert code == 0, said
        outputs.append((folder / "out.bin").read_bytes())
    assert outputs[0] == outputs[1]
    assert len(set(outputs[0])) > 16


def test_a_probe_in_its_own_process() -> None:
    code, report, _, _ = command("run", "wgmma-layout", "--target", "cuda")
    assert (code, report["verdict"], report["target"]["kind"]) == (0, "pass", "cuda")


def test_what_only_the_model_shows(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "umma_probe.cli.main", "exec", str(case(tmp_path, "good")), "--target", "cuda"]
    done = subprocess.run([*words, "--trace", str(tmp_path / "t")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--trace" in done.stderr
