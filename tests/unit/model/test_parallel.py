"""A launch in several processes leaves what it leaves in one; where it could not, it runs in one and says why."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import numpy as np
import pytest
from kernels import compile_cu

from umma_probe.backends.model import ModelDevice
from umma_probe.errors import ConfigError, Deadlock, DeviceError, DeviceTimeout

Words = "np.ndarray[tuple[int], np.dtype[np.uint32]]"
GRID, BLOCK = 6, 64
OWN = "const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;"


def kernel(body: str, before: str = "") -> str:
    return f'{before}\nextern "C" __global__ void k(unsigned* words, const unsigned* in) {{ {OWN} {body} }}'


def launch(source: str, jobs: int, policy: str = "eager", block: int = BLOCK) -> tuple[ModelDevice, np.ndarray]:
    device = ModelDevice(policy=policy)
    device.jobs = jobs
    words = device.array(np.zeros(GRID * block, np.uint32))
    given = device.array(np.arange(GRID * block, dtype=np.uint32) * 7)
    device.load_ptx(compile_cu(source))["k"].launch(grid=GRID, block=block, args=[words, given])
    return device, words.numpy()


def same(source: str, policy: str = "eager") -> list[str]:
    """Why it was one process, with 2, 3 and 8; the words are those of one process."""
    alone, expected = launch(source, 1, policy)
    assert alone.alone == ""
    reasons = []
    for jobs in (2, 3, 8):
        device, words = launch(source, jobs, policy)
        assert (words == expected).all()
        reasons.append(device.alone)
    return reasons


@pytest.mark.parametrize("policy", ["eager", "lazy"])
def test_ctas_that_have_nothing_to_do_with_each_other(policy: str) -> None:
    exchange = ("__shared__ unsigned tile[64]; tile[threadIdx.x] = in[i]; __syncthreads();"
                "words[i] = tile[threadIdx.x ^ 5] + blockIdx.x;")  # fmt: skip
    assert same(kernel(exchange), policy) == ["", "", ""]


def test_reading_the_same_input_is_no_conflict() -> None:
    assert same(kernel("words[i] = in[threadIdx.x] + in[0];")) == ["", "", ""]


def test_the_same_value_in_the_same_place_is_no_conflict() -> None:
    assert same(kernel("words[threadIdx.x] = 7;")) == ["", "", ""]


def test_two_parts_write_one_place_differently() -> None:
    reasons = same(kernel("words[threadIdx.x] = blockIdx.x;"))
    assert all("two parts of the grid write byte 0 of array 1 differently" in reason for reason in reasons)


def test_a_part_reads_what_another_writes() -> None:
    # silicon may do either; the model does the same whatever the processes
    reasons = same(kernel("words[i] = i; words[i] += words[(i + 64) % (gridDim.x * 64)];"))
    assert all("one part of the grid reads what another writes" in reason for reason in reasons)


def test_a_part_that_waits_for_another() -> None:
    waits = ("volatile unsigned* flag = &words[0]; if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) *flag = 9;"
             "while (*flag != 9) {} if (i) words[i] = i;")  # fmt: skip
    reasons = same(kernel(waits))
    assert all("a part of the grid ends with 'no strand makes progress" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("atomicAdd(&words[i & 31], in[i]);", "shows the order"),
        ("words[i] = atomicAdd((unsigned*)&words[0], 0);", "shows the order"),
        ("words[i] = clock() & 0;", "%clock"),
        ('unsigned sm; asm volatile("mov.u32 %0, %%smid;" : "=r"(sm)); words[i] = sm;', "%smid"),
        ('extern __device__ int printf(const char*, ...); if (i == 0) printf("x");', "call"),
    ],
)
def test_what_shows_the_order_runs_in_one_process(body: str, shown: str) -> None:
    assert all(shown in reason for reason in same(kernel(body)))


def test_the_random_policy_draws_for_the_whole_grid() -> None:
    assert all("random" in reason for reason in same(kernel("words[i] = i;"), "random:3"))


def test_a_finding_is_that_of_one_process() -> None:
    source = kernel("__shared__ unsigned tile[64]; words[i] = *(volatile unsigned*)&tile[threadIdx.x];")
    outcomes = []
    for jobs in (1, 4):
        device = ModelDevice()
        device.jobs = jobs
        words = device.array(np.zeros(GRID * BLOCK, np.uint32))
        outcomes.append(
            device.load_ptx(compile_cu(source))["k"].launch(grid=GRID, block=BLOCK, args=[words, words]).findings
        )
    assert [note.rule for note in outcomes[0]] == ["uninitialised-read"]
    assert outcomes[0] == outcomes[1]
    assert "uninitialised-read" in device.alone


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("if (blockIdx.x == 4) words[1 << 20] = 0;", DeviceError),
        ('if (blockIdx.x == 1 && threadIdx.x < 32) asm volatile("bar.sync 1, 64;"); words[i] = i;', Deadlock),
    ],
)
def test_an_error_is_that_of_one_process(body: str, error: type[Exception]) -> None:
    texts = []
    for jobs in (1, 3):
        with pytest.raises(error) as caught:
            launch(kernel(body), jobs)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


def test_no_process_outlives_a_timeout() -> None:
    device = ModelDevice()
    device.jobs = 2
    words = device.array(np.zeros(GRID * BLOCK, np.uint32))
    rounds = "for (unsigned long long n = 0; n < (1ull << 40); ++n) v = (v ^ v >> 15) * 1664525u;"
    endless = kernel(f"unsigned v = i; {rounds} words[i] = v;")
    module = device.load_ptx(compile_cu(endless))
    with pytest.raises(DeviceTimeout, match="not finished after 1 s"):
        module["k"].launch(grid=GRID, block=BLOCK, args=[words, words], timeout=1)
    assert multiprocessing.active_children() == []


def test_a_grid_of_more_parts_than_clusters() -> None:
    device, words = launch(kernel("words[i] = in[i];"), 64)
    assert device.alone == ""
    assert (words == np.arange(GRID * BLOCK) * 7).all()


def test_jobs_are_at_least_one() -> None:
    with pytest.raises(ConfigError, match="jobs is 0"):
        ModelDevice().jobs = 0


def test_tensor_memory_of_every_cta(tmp_path: Path) -> None:
    source = kernel(
        """
        __shared__ unsigned slot;
        const unsigned at = (unsigned)__cvta_generic_to_shared(&slot);
        if (threadIdx.x < 32)
          asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" :: "r"(at) : "memory");
        __syncthreads();
        const unsigned t = slot + (threadIdx.x / 32 << 21);
        asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};\\n\\ttcgen05.wait::st.sync.aligned;"
                     :: "r"(t), "r"(in[i]) : "memory");
        __syncthreads();
        if (threadIdx.x < 32)
          asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" :: "r"(slot));
        words[i] = i;
        """
    )
    snapshots = [launch(source, jobs)[0].tmem_all() for jobs in (1, 4)]
    assert sorted(snapshots[0]) == sorted(snapshots[1]) == list(range(GRID))
    for cta, one in snapshots[0].items():
        assert (one.words == snapshots[1][cta].words).all()
        assert (one.written == snapshots[1][cta].written).all()
        assert (one.words[:32, 0] == (np.arange(32) + cta * BLOCK) * 7).all()
