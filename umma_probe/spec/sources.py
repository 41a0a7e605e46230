"""The documents that facts rest on, and how strongly.

Each document is registered once. A fact cites it by anchor (section title or table caption: numbers move
between versions), and carries a level of evidence. Errors and reports print these references.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from umma_probe.registry import Registry


class Evidence(Enum):
    """How a fact is known, strongest claim first for what is written down, not for what silicon does."""

    DOCUMENTED = "documented"
    """The PTX ISA says so."""
    HEADER = "header"
    """CUTLASS/CuTe headers encode it."""
    KERNEL = "kernel"
    """A kernel known to work on silicon depends on it."""
    MEASURED = "measured"
    """A run recorded in ``reports/`` or a published measurement shows it."""
    ASSUMED = "assumed"
    """Nobody public knows; the note says what would settle it."""


@dataclass(frozen=True)
class Source:
    """A document: registered once, cited by key."""

    key: str
    title: str
    version: str
    url: str
    date: str
    """When it was read, ISO date."""


SOURCES: Registry[Source] = Registry("source")


def _source(key: str, title: str, version: str, url: str, date: str) -> None:
    SOURCES.add(key, Source(key, title, version, url, date))


_source("ptx", "PTX ISA", "9.1", "https://docs.nvidia.com/cuda/parallel-thread-execution/", "2026-11-30")
_source(
    "cutlass", "NVIDIA CUTLASS / CuTe headers", "4.7.0 (7107b05)", "https://github.com/NVIDIA/cutlass", "2026-11-30"
)
_source("deepgemm", "DeepGEMM", "54e2261", "https://github.com/deepseek-ai/DeepGEMM", "2026-11-30")
_source("learn-cuda", "gau-nernst/learn-cuda", "1454f8b", "https://github.com/gau-nernst/learn-cuda", "2026-11-30")
_source("thunderkittens", "ThunderKittens", "0b55588", "https://github.com/HazyResearch/ThunderKittens", "2026-11-30")
_source(
    "sf-tensor",
    "sf-tensor/tcgen05: instruction paths compared with a B200",
    "-",
    "https://github.com/sf-tensor/tcgen05",
    "2026-11-30",
)
_source(
    "mma-sim",
    "MMA-Sim: bit-accurate matrix-multiplication models",
    "c785138",
    "https://arxiv.org/abs/2511.10909",
    "2026-11-30",
)
_source(
    "matlab-tc",
    "MATLAB tensor-core models (north-numerical-computing)",
    "b12b5a7",
    "https://arxiv.org/abs/2512.07004",
    "2026-11-30",
)
_source(
    "triton", "Triton: generated kernels and test-suite", "3.x", "https://github.com/triton-lang/triton", "2026-11-30"
)
_source(
    "tvm",
    "Apache TVM issue 20068: lower and upper 16-lane halves",
    "-",
    "https://github.com/apache/tvm/issues/20068",
    "2026-11-30",
)
_source(
    "assembler",
    "Behaviour of NVIDIA's assembler (nvJitLink/NVRTC 13.5)",
    "13.5",
    "https://docs.nvidia.com/cuda/nvrtc/",
    "2026-11-30",
)
_source(
    "cuda-guide",
    "CUDA C++ Programming Guide",
    "13.0",
    "https://docs.nvidia.com/cuda/cuda-c-programming-guide/",
    "2026-11-30",
)
_source(
    "cuda-driver",
    "CUDA driver API",
    "13.0",
    "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TENSOR__MEMORY.html",
    "2026-11-30",
)
_source(
    "silicon-h200",
    "Runs on an NVIDIA H200, recorded in reports/silicon-h200",
    "driver 580.159.04",
    "reports/silicon-h200",
    "2026-11-30",
)


@dataclass(frozen=True)
class Ref:
    """A place in a document, with the level of evidence it gives."""

    source: str
    anchor: str
    evidence: Evidence = Evidence.DOCUMENTED
    note: str = ""

    def __post_init__(self) -> None:
        SOURCES[self.source]

    def __str__(self) -> str:
        text = f"{SOURCES[self.source].title}, {self.anchor} [{self.evidence.value}]"
        return f"{text}: {self.note}" if self.note else text


def documented(anchor: str, note: str = "") -> Ref:
    """A place in the PTX ISA."""
    return Ref("ptx", anchor, Evidence.DOCUMENTED, note)


def header(anchor: str, note: str = "") -> Ref:
    """A place in the CUTLASS/CuTe headers."""
    return Ref("cutlass", anchor, Evidence.HEADER, note)


def assumed(anchor: str, note: str) -> Ref:
    """A gap in the PTX ISA that we filled; the note says how, and what would settle it."""
    return Ref("ptx", anchor, Evidence.ASSUMED, note)
