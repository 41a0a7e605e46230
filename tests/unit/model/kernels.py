"""Kernels for tests of the machine: CUDA through NVRTC, or PTX as written; one buffer of 32-bit words in and out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from umma_probe.gpu.nvrtc import compile_source
from umma_probe.model.launch import Launch, LaunchConfig
from umma_probe.model.machine import Machine

Array = Any


@dataclass
class Run:
    """The buffer after the run, and the finished launch."""

    words: Array
    launch: Launch


@cache
def compile_cu(source: str) -> str:
    data = compile_source(source, "test.cu", arch="sm_100a", kind="ptx").data
    return data if isinstance(data, str) else data.decode()


def run_ptx(
    text: str,
    words: Array,
    *scalars: int,
    entry: str = "k",
    grid: Any = 1,
    block: Any = 32,
    cluster: int = 1,
    policy: str = "eager",
    machine: Machine | None = None,
) -> Run:
    """Launch ``entry(pointer to words, 32-bit scalars...)``."""
    machine = machine or Machine()
    words = np.ascontiguousarray(words)
    buffer = machine.memory.allocate(words.nbytes, "words")
    machine.memory.write(buffer.address, words.view(np.uint8).ravel())
    arguments = [buffer.address.to_bytes(8, "little"), *(int(s).to_bytes(4, "little") for s in scalars)]
    config = LaunchConfig(_three(grid), _three(block), (cluster, 1, 1))
    launch = machine.launch(machine.load(text, "test.ptx"), entry, config, arguments, policy)
    return Run(machine.memory.read(buffer.address, words.nbytes).view(words.dtype).reshape(words.shape), launch)


def run_cu(source: str, words: Array, *scalars: int, **options: Any) -> Run:
    """Compile ``source`` and launch its kernel ``k``."""
    return run_ptx(compile_cu(source), words, *scalars, **options)


def ptx(body: str, declarations: str = "", functions: str = "") -> str:
    """A module with entry ``k(words)``: ``%words`` is the pointer, ``%tid`` the thread, ``%mine`` where its word is."""
    return f""".version 9.0
.target sm_100a
.address_size 64
{functions}
.visible .entry k(.param .u64 words)
{{
.reg .b64 %words, %mine, %at;
.reg .b32 %tid, %r<10>;
.reg .pred %p<10>;
{declarations}
ld.param.u64 %words, [words];
mov.u32 %tid, %tid.x;
mad.wide.u32 %mine, %tid, 4, %words;
{body}
ret;
}}
"""


def _three(size: Any) -> tuple[int, int, int]:
    return (size, 1, 1) if isinstance(size, int) else size
