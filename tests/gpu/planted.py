"""Runners of a sweep whose cases are kernels with planted faults; told to the workers by name."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

import umma_probe as up
from umma_probe.errors import UmmaProbeError
from umma_probe.harness.reporting import fail_with, target_record
from umma_probe.record.schema import Report

if TYPE_CHECKING:
    from umma_probe.backends.base import Device
    from umma_probe.harness.sweep.case import CaseSpec

SOURCE = r"""
extern "C" __global__ void good(unsigned* out) { out[threadIdx.x] = threadIdx.x; }
extern "C" __global__ void address(unsigned* out) { out[threadIdx.x + (1ull << 40)] = 1; }
extern "C" __global__ void misaligned(unsigned* out) { *(uint4*)((char*)out + 4) = make_uint4(1, 2, 3, 4); }
extern "C" __global__ void trap(unsigned* out) { __trap(); }
extern "C" __global__ void forever(volatile unsigned* out) { while (out[0] != 77) {} }
extern "C" __global__ void past_shared(unsigned* out) {
  extern __shared__ unsigned memory[];
  memory[threadIdx.x + 100000] = 1;
  out[threadIdx.x] = memory[threadIdx.x];
}
"""
KERNELS = ("good", "address", "misaligned", "trap", "forever", "past_shared")


@lru_cache(maxsize=1)
def _device(target: str) -> Device:
    return up.device(target)


def run(case: CaseSpec, target: str) -> Report:
    """One launch of the kernel that the case names."""
    device = _device(target)
    report = Report("run", str(case.params["kernel"]), dict(case.params), target_record(device))
    try:
        kernel = device.compile(SOURCE, "planted.cu")[str(case.params["kernel"])]
        out = device.array(np.full(32, 0xA5A5A5A5, np.uint32))
        kernel.launch(grid=1, block=32, dynamic_smem=1024, args=[out], timeout=case.timeout_s)
        assert (out.numpy() == np.arange(32)).all()
    except UmmaProbeError as error:
        fail_with(report, error)
    return report
