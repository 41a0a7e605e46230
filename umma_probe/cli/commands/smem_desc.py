"""``umma-probe smem-desc``: encode and decode shared-memory matrix descriptors; show what the MMA fetches.

Field names in the JSON are those of the options, in bytes. ``--map`` adds the absolute bit address of every element.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from rich.console import Group

from umma_probe.cli.descriptor_view import (
    FIELD_HEADER,
    HexInteger,
    RawWord,
    changed_by_force,
    field_rows,
    field_table,
    note_list,
    problem_list,
    reading_note,
)
from umma_probe.cli.output import Output, format_options
from umma_probe.cli.params import Integers
from umma_probe.cli.rendering import counted, grid, heading, render, span
from umma_probe.errors import ConfigError, ExitCode, unknown_name
from umma_probe.layouts.smem_operand import (
    K_MAJOR_BASE32B,
    element_bit_address,
    elements_at_byte,
    operand_problems,
)
from umma_probe.spec.formats import FORMATS
from umma_probe.spec.kinds import KINDS, MAJORS, Packing
from umma_probe.spec.problems import Problem
from umma_probe.spec.smem_descriptor import (
    SMEM_DESC,
    SMEM_DESC_REFS,
    SmemDescriptor,
    Swizzle,
    decode_smem_desc,
    encode_smem_desc,
    smem_desc_problems,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from rich.console import RenderableType

_OPERAND_TYPES = tuple(dict.fromkeys(name for kind in KINDS.values() for name in kind.operand_types))
_MMA_ROW_BITS = 256
_CHUNK_BITS = 128
_TEXT_LINES = 32
_TEXT_COLUMNS = 8
_MAP_HEADER = ("row", "k", "bit")
_NEED_MAP = ("elem", "rows")


@dataclass(frozen=True)
class Operand:
    """What ``--map`` asks about: ``rows`` rows of ``k`` elements."""

    desc: SmemDescriptor
    major: str
    elem: str
    element_bits: int
    packing: Packing
    rows: int
    k: int

    @property
    def bits(self) -> NDArray[np.int64]:
        """Absolute bit address of each element, shape (rows, k)."""
        rows, ks = np.arange(self.rows)[:, None], np.arange(self.k)[None, :]
        return element_bit_address(self.desc, self.major, self.element_bits, self.packing, rows, ks)

    def problems(self) -> list[Problem]:
        """What the documents do not define about it."""
        return operand_problems(self.desc, self.major, self.element_bits, self.packing, self.k)

    def at_byte(self, address: int) -> list[tuple[int, int]]:
        """The elements in one byte."""
        return elements_at_byte(self.desc, self.major, self.element_bits, self.packing, self.rows, self.k, address)


@click.command()
@click.argument("word", type=RawWord(64), required=False)
@click.option("--start", type=HexInteger(), help="Start address, bytes.")
@click.option("--lbo", type=HexInteger(), help="Leading byte offset.  [default: 0]")
@click.option("--sbo", type=HexInteger(), help="Stride byte offset.  [default: 0]")
@click.option("--swizzle", help="none, 32B, 64B, 128B or 128B-base32B.  [default: none]")
@click.option("--base-offset", type=int, help="Where the swizzle pattern begins, 128-byte units.  [default: 0]")
@click.option("--lbo-mode", type=int, help="1: LBO is an absolute address.  [default: 0]")
@click.option("--arch", help="Judge for this target.  [default: any]")
@click.option("--force", is_flag=True, help="Cut values that do not fit down to their field.")
@click.option("--map", "map_", is_flag=True, help="Show where each element of an operand is fetched from.")
@click.option("--major", type=click.Choice(MAJORS, case_sensitive=False), default="k", show_default=True)
@click.option("--elem", help="Element type: bf16, e4m3, tf32, e2m1, ...")
@click.option("--packing", type=click.Choice(["dense", "padded"]), help="4-bit types: dense (mxf4) or padded (f8f6f4).")
@click.option("--rows", type=click.IntRange(1, 256), help="Rows: M of A or N of B, in this CTA.")
@click.option("--k", type=click.IntRange(1, 4096), help="Elements along K.  [default: one MMA]")
@click.option("--at", type=Integers("ROW,K"), help="Only this element.")
@click.option("--byte", "byte", type=HexInteger(), help="The elements that lie in this byte.")
@format_options("text", "json", "csv")
def command(word: int | None, arch: str | None, force: bool, map_: bool, output: Output, **options: Any) -> int:
    """Encode the shared-memory descriptor of an operand, or decode WORD.

    Exit code 1 if the word, or the operand that --map describes, breaks a rule.
    """
    field_options = ("start", "lbo", "sbo", "swizzle", "base_offset", "lbo_mode")
    given = {name: options[name] for name in field_options if options[name] is not None}
    if word is None:
        word = _encode(given, force)
    elif given:
        raise ConfigError(f"--{next(iter(given)).replace('_', '-')} is given beside a word, must be one or the other")
    problems = [*smem_desc_problems(word, arch=arch), *(_cut_problems(given, word) if force else ())]
    operand = _operand(word, options) if map_ or options["at"] or options["byte"] is not None else None
    if operand is not None:
        problems += operand.problems()
    _emit(word, problems, operand, options["at"], options["byte"], output)
    return ExitCode.DIFFERS if problems else ExitCode.OK


def _encode(given: dict[str, Any], force: bool) -> int:
    if "start" not in given:
        raise ConfigError("--start is missing: needed to encode", hint="or give a word to decode")
    return encode_smem_desc(
        start_bytes=given["start"],
        lbo_bytes=given.get("lbo", 0),
        sbo_bytes=given.get("sbo", 0),
        swizzle=given.get("swizzle", "none"),
        base_offset=given.get("base_offset", 0),
        lbo_mode=given.get("lbo_mode", 0),
        force=force,
    )


def _cut_problems(given: dict[str, Any], word: int) -> Iterator[Problem]:
    """What ``--force`` could not put into the word."""
    stored = _json_fields(word)
    for name in changed_by_force(given, stored):
        message = f"{name} is {given[name]}, does not fit its field: the word says {stored[name]}"
        yield Problem(name, message, SMEM_DESC_REFS[0])


def _operand(word: int, options: dict[str, Any]) -> Operand:
    missing = [f"--{name}" for name in _NEED_MAP if options[name] is None]
    if missing:
        raise ConfigError(f"{', '.join(missing)} missing: needed with --map")
    elem = options["elem"]
    if elem not in _OPERAND_TYPES:
        raise ConfigError(unknown_name("element type", elem, _OPERAND_TYPES))
    width = FORMATS[elem].container_bits
    packing = _packing(elem, width, options["packing"])
    k = options["k"] or _MMA_ROW_BITS // (8 if packing is Packing.PADDED_16B else width)
    operand = Operand(decode_smem_desc(word), options["major"], elem, width, packing, options["rows"], k)
    at = options["at"]
    if at is not None and not (0 <= at[0] < operand.rows and 0 <= at[1] < k):
        raise ConfigError(f"--at is {at[0]},{at[1]}, must be below {operand.rows},{k}")
    return operand


def _packing(elem: str, width: int, packing: str | None) -> Packing:
    if packing is None:
        return Packing.PADDED_16B if width == 6 else Packing.DENSE
    if (packing == "padded" and width >= 8) or (packing == "dense" and width == 6):
        raise ConfigError(f"--packing is {packing} for {elem}, must be {'dense' if width >= 8 else 'padded'}")
    return Packing.PADDED_16B if packing == "padded" else Packing.DENSE


def _json_fields(word: int) -> dict[str, Any]:
    """Under the names of the options, bytes; ``swizzle`` is None where the code means nothing."""
    raw = SMEM_DESC.decode(word)
    swizzle = Swizzle.from_code(raw["swizzle"])
    return {
        "start": raw["start_address"] * 16,
        "lbo": raw["lbo"] * 16,
        "sbo": raw["sbo"] * 16,
        "swizzle": swizzle.text if swizzle else None,
        "base_offset": raw["base_offset"],
        "lbo_mode": raw["lbo_mode"],
        "version": raw["version"],
    }


def _meanings(word: int) -> dict[str, str]:
    fields = _json_fields(word)
    return {
        "start_address": f"{fields['start']:#x}",
        "lbo": f"leading byte offset {fields['lbo']}",
        "sbo": f"stride byte offset {fields['sbo']}",
        "version": "constant 0b001",
        "base_offset": "the pattern starts on its boundary"
        if not fields["base_offset"]
        else "pattern start, 128 B units",
        "lbo_mode": "absolute address" if fields["lbo_mode"] else "LBO is relative",
        "swizzle": fields["swizzle"] or "undefined",
    }


def _emit(
    word: int,
    problems: list[Problem],
    operand: Operand | None,
    at: tuple[int, int] | None,
    byte: int | None,
    output: Output,
) -> None:
    rows = field_rows(SMEM_DESC, word, _meanings(word))
    notes = [*reading_note(word), *_notes(operand)]
    document: dict[str, Any] = {
        "value": f"{word:#018x}",
        "fields": _json_fields(word),
        "problems": [problem.to_json() for problem in problems],
        "notes": notes,
    }
    parts: list[RenderableType] = [heading(f"{word:#018x}", "shared-memory descriptor"), field_table(rows)]
    table: tuple[Any, Any] = (FIELD_HEADER, rows)
    if operand is not None:
        view = _map_view(operand, at, byte)
        document |= view.keys
        table = (view.header, view.rows)
        parts.append(view.text)
    parts += [problem_list(problems), note_list(notes)]
    output.emit(document, text=lambda: render(*parts), table=lambda: table)


def _notes(operand: Operand | None) -> list[str]:
    if operand is None or operand.major != "k" or operand.desc.swizzle is not Swizzle.B128_BASE32B:
        return []
    followed, dissent = K_MAJOR_BASE32B
    return [f"Sources disagree about K-major operands with swizzle 128B-base32B. For: {followed}. Against: {dissent}."]


@dataclass(frozen=True)
class MapView:
    """What was asked about the operand, in each format."""

    header: tuple[str, ...]
    rows: list[tuple[int, ...]]
    keys: dict[str, Any]
    """For the JSON object."""
    text: RenderableType


def _map_view(operand: Operand, at: tuple[int, int] | None, byte: int | None) -> MapView:
    """One byte, one element, or all."""
    if byte is not None:
        elements: list[tuple[int, ...]] = list(operand.at_byte(byte))
        title = heading(f"Byte {byte:#x}", f"holds {counted(len(elements), 'element')}")
        text = Group(title, grid(("row", "k"), elements)) if elements else title
        return MapView(("row", "k"), elements, {"byte": byte, "elements": [list(pair) for pair in elements]}, text)
    bits = operand.bits
    if at is not None:
        bit = int(bits[at])
        title = heading(f"({at[0]}, {at[1]})", f"byte {bit // 8:#x}, bit {bit % 8}")
        return MapView(_MAP_HEADER, [(*at, bit)], {"row": at[0], "k": at[1], "bit": bit}, title)
    cells: list[tuple[int, ...]] = [(*index, int(bit)) for index, bit in np.ndenumerate(bits)]
    return MapView(_MAP_HEADER, cells, {"bit": bits.tolist()}, _map_table(operand, bits))


def _map_table(operand: Operand, bits: NDArray[np.int64]) -> RenderableType:
    """Byte address of each run of neighbouring elements (16 bytes), one line a row (MN-major: one a k)."""
    along_k = operand.major == "k"
    lines = bits if along_k else bits.T
    per_chunk = 16 if operand.packing is Packing.PADDED_16B else _CHUNK_BITS // operand.element_bits
    inner, outer = ("k", "row") if along_k else ("row", "k")
    starts = range(0, lines.shape[1], per_chunk)
    shown = starts[:_TEXT_COLUMNS]
    header = (outer, *(f"{inner} {span(first, min(first + per_chunk, lines.shape[1]) - 1)}" for first in shown))
    rows = [(i, *(f"{line[first] // 8:#x}" for first in shown)) for i, line in enumerate(lines[:_TEXT_LINES])]
    low, high = int(bits.min()) // 8, (int(bits.max()) + operand.element_bits - 1) // 8
    more = "; the whole map: --format csv" if len(lines) > len(rows) or len(starts) > len(shown) else ""
    title = f"{operand.rows} x {operand.k} {operand.elem}, {operand.major.upper()}-major"
    return Group(heading(title, f"bytes {low:#x} to {high:#x}{more}"), grid(header, rows))
