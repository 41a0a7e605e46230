"""Why the model lacks an instruction, where that takes more than "it lacks it"."""

from __future__ import annotations

from dataclasses import dataclass

from umma_probe.spec.sources import Ref, documented

_WARP = "Warp-level Matrix Instructions"


@dataclass(frozen=True)
class Reason:
    """All instructions with this opcode and, if given, one of these words."""

    opcode: str
    words: frozenset[str]
    sentence: str
    ref: Ref


def _reason(opcode: str, words: str, sentence: str, section: str) -> Reason:
    return Reason(opcode, frozenset(words.split()), sentence, documented(section))


_FIGURE = "is a figure, and nothing here has measured it"
_SMALL = "elements of 4 bits and of 1 bit are missing"
_SIMD = ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset")
_TEXTURES = ("tex", "tld4", "txq", "suld", "sust", "sured", "suq", "istypep")

REASONS = (
    _reason("multimem", "", "an address stands for memory of several GPUs, and the model is one GPU", "multimem"),
    _reason("mma", "sp sp::ordered_metadata", f"which bits of whose metadata name which chunk of A {_FIGURE}",
            f"{_WARP}: mma.sp"),
    _reason("mma", "kind::mxf4 kind::mxf4nvf4 kind::mxf8f6f4 kind::f8f6f4",
            "the form belongs to sm_120a, whose sums nothing here has measured", f"{_WARP}: mma"),
    _reason("mma", "s4 u4 b1", _SMALL, f"{_WARP}: mma"),
    _reason("mma", "m8n8k4", "the fragments of f16, each in a quarter of the warp, are missing", f"{_WARP}: mma"),
    _reason("wmma", "s4 u4 b1", _SMALL, f"{_WARP}: wmma.mma"),
    _reason("cvt", "rs", f"which random bits round which element {_FIGURE}", "cvt"),
    _reason("ldmatrix", "b8x16", f"where 4- and 6-bit elements come to lie in their bytes {_FIGURE}",
            f"{_WARP}: ldmatrix"),
    *(_reason(opcode, "", "the frame of a thread has one size in the model, known before it runs",
              f"Stack Manipulation Instructions: {opcode}") for opcode in ("alloca", "stacksave", "stackrestore")),
    *(_reason(f"{name}{lanes}", "", "the SIMD forms are missing; the scalar ones are there", "SIMD Video Instructions")
      for name in _SIMD for lanes in (2, 4)),
    *(_reason(opcode, "", "textures and surfaces are missing", "Texture and Surface Instructions")
      for opcode in _TEXTURES),
)  # fmt: skip


def why_not(opcode: str, words: tuple[str, ...]) -> Reason | None:
    """The reason that an instruction is refused, if one is known."""
    for reason in REASONS:
        if reason.opcode == opcode and (not reason.words or reason.words.intersection(words)):
            return reason
    return None
