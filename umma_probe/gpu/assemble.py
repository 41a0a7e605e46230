"""What NVIDIA's assembler says to a line of PTX: accepted, or refused and why. No GPU and no toolkit: NVRTC has one.

NVRTC takes no PTX, but the text of an ``asm`` statement reaches the assembler as it stands when a cubin is asked for.
It may use the registers of ``REGISTERS``; what they hold does not matter, since nothing is run. The assembler does not
know what an instruction descriptor in a register says: it judges spelling, qualifiers, operands and target.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from umma_probe.errors import CompileError, ConfigError
from umma_probe.gpu.nvrtc import compile_source, nvrtc_version

REGISTERS = ".reg .b32 d, taddr, meta, sfa, sfb, idesc, w<8>; .reg .b64 a, b, mask; .reg .pred p;"
"""Addresses, descriptors and predicate, named as in the PTX ISA's syntax lines."""


@dataclass(frozen=True)
class Assembled:
    """The assembler's answer."""

    accepted: bool
    message: str
    """Why not; empty if accepted."""
    assembler: str
    """``NVRTC 13.5``."""


def assemble(text: str, arch: str) -> Assembled:
    """Give one or more PTX statements to the assembler.

    :param text: with a semicolon after each statement.
    :raises ConfigError: ``arch`` is no architecture's name, or the text cannot stand in an ``asm`` statement.
    :raises DeviceUnavailable: there is no NVRTC, or it does not know the architecture.
    """
    if not text.rstrip().endswith(";") or re.search(r'["\\%\n]', text):
        raise ConfigError(f"PTX is {text!r}, must be statements on one line, each with its ';', without \", \\ and %")
    source = f'extern "C" __global__ void assembled() {{\n  asm volatile("{{ {REGISTERS} {text} }}");\n}}\n'
    message = ""
    try:
        compile_source(source, "assembled.cu", arch=arch, kind="cubin")
    except CompileError as error:
        message = _reason(error.message)
    return Assembled(not message, message, f"NVRTC {'.'.join(map(str, nvrtc_version()))}")


def _reason(message: str) -> str:
    """The assembler's own words, without the file's name and the statement around them."""
    first = message.splitlines()[0]
    return first.partition(": ")[2].partition(", in the PTX '")[0] or first
