from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from umma_probe.errors import CompileError, ConfigError, DeviceUnavailable, ExitCode
from umma_probe.gpu import nvrtc
from umma_probe.gpu.nvrtc import compile_source

FENCE = 'extern "C" __global__ void k(int* p) { asm volatile("tcgen05.fence::before_thread_sync;"); p[0] = %s; }'


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UMMA_PROBE_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("arch", ["sm_100a", "sm_103a", "sm_110a"])
def test_tcgen05_compiles_to_ptx_and_to_a_cubin(arch: str) -> None:
    ptx = compile_source(FENCE % 1, "/somewhere/k.cu", arch=arch, kind="ptx").ptx
    assert f".target {arch}" in ptx
    assert "tcgen05.fence::before_thread_sync;" in ptx
    assert '.file\t1 "/somewhere/k.cu"' in ptx
    assert compile_source(FENCE % 1, "k.cu", arch=arch, kind="cubin").cubin.startswith(b"\x7fELF")


def test_the_second_time_comes_from_the_cache_unchanged() -> None:
    source = 'extern "C" __global__ void k(int* p) { int unused; p[0] = 1; }'
    first = compile_source(source, "k.cu", arch="sm_100a", kind="ptx")
    second = compile_source(source, "k.cu", arch="sm_100a", kind="ptx")
    assert (first.cached, second.cached) == (False, True)
    assert second.data == first.data
    assert second.log == first.log
    assert "never referenced" in first.log
    for change in ({"arch": "sm_103a"}, {"kind": "cubin"}, {"options": ["-DX"]}, {"name": "l.cu"}):
        arguments = {"name": "k.cu", "arch": "sm_100a", "kind": "ptx"} | change
        assert not compile_source(source, **arguments).cached


def test_an_edited_header_is_seen(tmp_path: Path) -> None:
    (tmp_path / "outer.cuh").write_text('#include "value.cuh"\n')
    source = '#include "outer.cuh"\n' + FENCE % "VALUE"

    def stored() -> str:
        return compile_source(source, "k.cu", arch="sm_100a", kind="ptx", include_dirs=[tmp_path]).ptx

    for value in (41, 42):
        (tmp_path / "value.cuh").write_text(f"#define VALUE {value}\n")
        assert f", {value};" in stored()


def test_headers_that_nvrtc_carries() -> None:
    binding = nvrtc.load_nvrtc()
    if nvrtc.bundled_headers(binding, nvrtc.nvrtc_version()) == []:
        pytest.skip("this NVRTC carries no headers")
    source = '#include <cuda_fp16.h>\nextern "C" __global__ void k(half* p) { p[0] = __hadd(p[1], p[2]); }'
    assert "add.f16" in compile_source(source, "k.cu", arch="sm_100a", kind="ptx").ptx


def test_a_front_end_error_names_line_column_and_text() -> None:
    source = 'extern "C" __global__ void k(int* p) {\n  p[0] = 1;\n\tp[1] = nope;\n}\n'
    with pytest.raises(CompileError, match='identifier "nope" is undefined') as caught:
        compile_source(source, "probe.cu", arch="sm_100a", kind="ptx")
    where = caught.value.where
    assert where is not None
    assert (where.file, where.line, where.column) == ("probe.cu", 3, 9)
    assert where.source_line == "\tp[1] = nope;"
    assert caught.value.exit_code == ExitCode.USAGE


def test_all_errors_are_told() -> None:
    with pytest.raises(CompileError, match="the first of 2") as caught:
        compile_source("__device__ int a = one;\n__device__ int b = two;\n", "k.cu", arch="sm_100a", kind="ptx")
    assert 'k.cu(2): error: identifier "two" is undefined' in caught.value.message


def test_an_assembler_error_leads_back_to_the_source() -> None:
    source = 'extern "C" __global__ void k() {\n\n  asm volatile("tcgen05.nonsense;");\n}\n'
    with pytest.raises(CompileError, match=r"in the PTX 'tcgen05\.nonsense;'") as caught:
        compile_source(source, "k.cu", arch="sm_100a", kind="cubin")
    where = caught.value.where
    assert where is not None
    assert (where.file, where.line) == ("k.cu", 3)
    assert "tcgen05.nonsense" in where.source_line


@pytest.mark.parametrize(("arch", "hint"), [("sm_100", "use sm_100a"), ("sm_90a", "tcgen05 needs sm_100a")])
def test_a_target_without_tcgen05(arch: str, hint: str) -> None:
    with pytest.raises(CompileError, match=r"not supported on \.target") as caught:
        compile_source(FENCE % 1, "k.cu", arch=arch, kind="cubin")
    assert hint in caught.value.hint


def test_an_architecture_that_nvrtc_does_not_know() -> None:
    with pytest.raises(DeviceUnavailable, match=r"cannot compile for sm_99a; it knows .*sm_90, sm_100"):
        compile_source(FENCE % 1, "k.cu", arch="sm_99a", kind="ptx")


@pytest.mark.parametrize("arch", ["sm100a", "compute_100a", "sm_100x", ""])
def test_a_name_that_is_no_architecture(arch: str) -> None:
    with pytest.raises(ConfigError, match="must be sm_ and a number"):
        compile_source(FENCE % 1, "k.cu", arch=arch, kind="ptx")


def test_options() -> None:
    source = '#if __cplusplus != 202002L\n#error standard\n#endif\nextern "C" __global__ void k() {}'
    compile_source(source, "k.cu", arch="sm_100a", kind="ptx", options=["-std=c++20"])
    with pytest.raises(ConfigError, match="unrecognized option --nonsense"):
        compile_source(source, "k.cu", arch="sm_100a", kind="ptx", options=["--nonsense"])
    with pytest.raises(ConfigError, match="architecture is given by arch"):
        compile_source(source, "k.cu", arch="sm_100a", kind="ptx", options=["-arch=sm_90a"])


@pytest.mark.parametrize(("source", "words"), [
    ("#include <mine.h>\n", "include_dirs"),
    ("#include <vector>\n", "__CUDACC_RTC__"),
    ("#include <cuda_runtime.h>\nint main() { void* p; cudaMalloc(&p, 4); }\n", "__CUDACC_RTC__"),
])  # fmt: skip
def test_host_code_and_its_headers_are_explained(source: str, words: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_source(source, "k.cu", arch="sm_100a", kind="ptx")
    assert words in caught.value.hint
    assert "nvcc -ptx" in caught.value.hint


def test_missing_bindings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", None)
    with pytest.raises(DeviceUnavailable, match="bindings cannot be imported") as caught:
        compile_source(FENCE % 1, "k.cu", arch="sm_100a", kind="ptx")
    assert "cuda-python" in caught.value.hint
    assert caught.value.exit_code == ExitCode.ENVIRONMENT


def test_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    binding = importlib.import_module("cuda.bindings.nvrtc")

    def fail() -> None:
        raise RuntimeError("Failure finding libnvrtc.so: No such file\nmore")

    monkeypatch.setattr(binding, "nvrtcVersion", fail)
    with pytest.raises(DeviceUnavailable, match="libnvrtc cannot be loaded") as caught:
        compile_source(FENCE % 1, "k.cu", arch="sm_100a", kind="ptx")
    assert "nvidia-cuda-nvrtc" in caught.value.hint
