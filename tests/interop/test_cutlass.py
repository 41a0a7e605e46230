"""CUTLASS's own examples: their host programs run, with the model in the place of the GPU, and judge its results.

Needs the package ``nvidia-cutlass`` (it holds headers and examples), nvcc and g++. Slow: nvcc takes minutes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

cutlass_library = pytest.importorskip("cutlass_library")

SOURCE = Path(cutlass_library.__file__).parent / "source"
TUTORIAL = "examples/cute/tutorial/blackwell"
HERE = Path(__file__).parent
WIDTHS = {"8": 1, "16": 2, "32": 4, "64": 8}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (shutil.which("nvcc") and shutil.which("g++")), reason="needs nvcc and g++"),
    pytest.mark.skipif(not (SOURCE / TUTORIAL).is_dir(), reason="this nvidia-cutlass has no Blackwell examples"),
]

EXAMPLES = {
    # one CTA, operands stored by threads; TMA; multicast in a 4 x 4 cluster; pairs; pairs with a TMA epilogue
    "01": (f"{TUTORIAL}/01_mma_sm100.cu", "gemm_device", ["256", "512", "128"], "successful"),
    "02": (f"{TUTORIAL}/02_mma_tma_sm100.cu", "gemm_device", ["256", "512", "128"], "successful"),
    "03": (f"{TUTORIAL}/03_mma_tma_multicast_sm100.cu", "gemm_device", ["512", "1024", "64"], "successful"),
    "04": (f"{TUTORIAL}/04_mma_tma_2sm_sm100.cu", "gemm_device", ["512", "1024", "64"], "successful"),
    "05": (f"{TUTORIAL}/05_mma_tma_epi_sm100.cu", "gemm_device", ["512", "1024", "64"], "successful"),
    # a collective GEMM: NVFP4 operands, NVFP4 result with scale factors that the epilogue computes
    "72b": (
        "examples/72_blackwell_narrow_precision_gemm/72b_blackwell_nvfp4_nvfp4_gemm.cu", "device_kernel",
        ["--m=256", "--n=256", "--k=256", "--iterations=0"], "Passed",
    ),
    # split-K with its reduction through global memory, pairs; data are made and checked by kernels too; the
    # warps that finish a tile load the sum that they stored, with no tcgen05.wait::st between
    "74": (
        "examples/74_blackwell_gemm_streamk/blackwell_gemm_streamk.cu", "",
        ["--m=256", "--n=128", "--k=512", "--preferred_cluster_m=2", "--preferred_cluster_n=1", "--iterations=0",
         "--decomposition=SplitK", "--splits=2"], "Passed",
    ),
    # grouped: arrays of pointers in device memory, tensor maps changed by the kernel; one CTA, then pairs
    "75": (
        "examples/75_blackwell_grouped_gemm/75_blackwell_grouped_gemm.cu", "",
        ["--m=272", "--n=72", "--k=208", "--groups=2", "--alpha=2", "--beta=1", "--iterations=0",
         "--cluster_m=2", "--cluster_n=1", "--cluster_fallback_m=2", "--cluster_fallback_n=1"], "Passed",
    ),
    # convolution by im2col tensor maps
    "76": (
        "examples/76_blackwell_conv/76_blackwell_conv_fprop.cu", "",
        ["--n=1", "--d=1", "--h=4", "--w=8", "--c=64", "--k=128", "--t=1", "--r=3", "--s=3", "--pad_d=0",
         "--iterations=0"], "Passed",
    ),
    # scale factors of blocks, applied by threads between MMAs
    "81": (
        "examples/81_blackwell_gemm_blockwise/81_blackwell_gemm_blockwise.cu", "",
        ["--m=256", "--n=256", "--k=384", "--alpha=2", "--beta=1", "--iterations=0"], "Passed",
    ),
}  # fmt: skip
"""Source, what the names of the kernels to run contain, arguments, what the program says when the result is right."""


@pytest.fixture(scope="session")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that stands in for the CUDA runtime."""
    folder = tmp_path_factory.mktemp("recorder")
    _call(["gcc", "-fPIC", "-c", str(HERE / "recorder/nothing.c"), "-o", str(folder / "nothing.o")])
    include = re.search(r'INCLUDES="-I(\S+?)"', _call(["nvcc", "--dryrun", "-x", "cu", os.devnull]))
    assert include is not None
    _call(["g++", "-shared", "-fPIC", "-std=c++17", f"-I{include[1].strip()}", str(HERE / "recorder/recorder.cpp"),
           str(folder / "nothing.o"), "-o", str(folder / "librecorder.so")])  # fmt: skip
    # the examples fill their operands by device code that draws random numbers
    (folder / "curand_kernel.h").write_text((HERE / "recorder/curand_kernel.h").read_text())
    return folder


def _call(command: list[str], **options: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return str(done.stdout + done.stderr)


def _parameter_sizes(ptx: str, entry: str) -> list[int]:
    found = re.search(rf"\.entry {re.escape(entry)}\((.*?)\)\s*\n", ptx, re.DOTALL)
    assert found is not None
    parameters = re.findall(r"\.param (?:\.align \d+ )?\.[a-z](\d+) [^\s\[,]+(?:\[(\d+)\])?", found[1])
    return [int(count or 1) * WIDTHS[bits] for bits, count in parameters]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_host_program_accepts_the_results(tmp_path: Path, recorder: Path, name: str) -> None:
    file, wanted, arguments, success = EXAMPLES[name]
    source = SOURCE / file
    includes = [recorder, SOURCE / "include", SOURCE / "tools/util/include", SOURCE / "examples/common", source.parent]
    _call(["nvcc", "-std=c++17", "--expt-relaxed-constexpr", "-gencode", "arch=compute_100a,code=compute_100a",
           "-cudart", "none", "--keep", *(f"-I{folder}" for folder in includes), str(source), "-o", "host",
           f"-L{recorder}", "-lrecorder", "-Xlinker", "-rpath", "-Xlinker", str(recorder)], cwd=tmp_path)  # fmt: skip
    ptx = tmp_path / f"{source.stem}.ptx"
    text = ptx.read_text()
    entries = [entry for entry in re.findall(r"\.entry ([\w$]+)\(", text) if wanted in entry]
    kernels = tmp_path / "kernels"
    kernels.write_text("".join(f"{entry} {','.join(map(str, _parameter_sizes(text, entry)))}\n" for entry in entries))
    for policy in ("eager", "lazy", "random:1"):
        run = f"'{sys.executable}' '{HERE / 'recorded_case.py'}' '{tmp_path}' '{ptx.name}' {policy}"
        output = _call(["./host", *arguments], cwd=tmp_path, env={
            **os.environ, "RECORD_DIR": str(tmp_path), "RECORD_KERNELS": str(kernels), "RECORD_RUN": run,
        })  # fmt: skip
        assert success in output, output[-3000:]
