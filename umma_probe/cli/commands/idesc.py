"""``umma-probe idesc``: encode and decode the instruction descriptors of ``tcgen05.mma``.

Field names in the JSON are those of the options, so that a decoded word can be fed back. A word is legal if some form
of the instruction takes it; ``--cta-group``, ``--ws`` and ``--arch`` narrow down which forms count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any

import click
from rich.text import Text

from umma_probe.cli.descriptor_view import (
    FIELD_HEADER,
    RawWord,
    changed_by_force,
    field_rows,
    field_table,
    note_list,
    problem_list,
    reading_note,
)
from umma_probe.cli.output import Output, format_options
from umma_probe.cli.rendering import heading, render
from umma_probe.errors import ConfigError, ExitCode
from umma_probe.spec.idesc import (
    MAX_SHIFTS,
    IdescFields,
    decode_idesc,
    encode_idesc,
    idesc_layout,
    idesc_problems,
    m_unit,
)
from umma_probe.spec.kinds import KINDS, MAJORS
from umma_probe.spec.machine import ARCHS
from umma_probe.spec.problems import Problem
from umma_probe.spec.shapes import MmaCase, source_conflicts

# option -> name in encode_idesc and IdescFields, where they differ
_RENAMED = {"a": "a_type", "b": "b_type", "d": "d_type", "scale": "scale_type"}
_NEEDED = ("a", "m", "n")


@dataclass(frozen=True)
class Form:
    """One form of the instruction on one target."""

    cta_group: int
    ws: bool
    arch: str

    def __str__(self) -> str:
        return f"cta_group::{self.cta_group}{' .ws' if self.ws else ''}"


@dataclass(frozen=True)
class Verdict:
    """What the rules say of a word."""

    problems: tuple[Problem, ...]
    """Of the nearest form; empty if the word is legal in some form."""
    legal_in: tuple[Form, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def forms(self) -> list[str]:
        """Each legal form once."""
        return list(dict.fromkeys(map(str, self.legal_in)))

    @property
    def archs(self) -> list[str]:
        """Each target on which some form is legal."""
        return list(dict.fromkeys(form.arch for form in self.legal_in))


@click.command()
@click.argument("word", type=RawWord(32), required=False)
@click.option("--kind", required=True, help="f16, tf32, f8f6f4, i8, mxf8f6f4, mxf4 or mxf4nvf4.")
@click.option("--a", help="Type of A.")
@click.option("--b", help="Type of B.  [default: as A]")
@click.option("--d", help="Type of D; block-scaled kinds do not encode it.  [default: the widest of the kind]")
@click.option("--m", type=int, help="M of the instruction.")
@click.option("--n", type=int, help="N of the instruction.")
@click.option("--a-major", type=click.Choice(MAJORS, case_sensitive=False), help="[default: k]")
@click.option("--b-major", type=click.Choice(MAJORS, case_sensitive=False), help="[default: k]")
@click.option("--negate-a", is_flag=True, help="Negate A.")
@click.option("--negate-b", is_flag=True, help="Negate B.")
@click.option("--saturate", is_flag=True, help="Clamp the integer result.")
@click.option("--sparse", is_flag=True, help="Sparse A (.sp).")
@click.option("--sparsity-selector", type=int, help="Which half of the metadata.  [default: 0]")
@click.option("--max-shift", type=click.Choice([str(shift) for shift in MAX_SHIFTS]), help="Columns, for .ws.")
@click.option("--scale", help="Type of the scale factors: ue8m0 or ue4m3.")
@click.option("--sfa-id", type=int, help="Scale-factor id of A.  [default: 0]")
@click.option("--sfb-id", type=int, help="Scale-factor id of B.  [default: 0]")
@click.option("--k", type=int, help="Elements along K; only 96 is encoded.  [default: the kind's]")
@click.option("--cta-group", type=click.IntRange(1, 2), help="Judge for this group only.  [default: either]")
@click.option("--ws/--no-ws", default=None, help="Judge for .ws, or without it.  [default: either]")
@click.option("--arch", help="Judge for this target only.  [default: any]")
@click.option("--force", is_flag=True, help="Cut values that do not fit down to their field.")
@format_options("text", "json", "csv")
def command(
    word: int | None,
    kind: str,
    cta_group: int | None,
    ws: bool | None,
    arch: str | None,
    force: bool,
    output: Output,
    **options: Any,
) -> int:
    """Encode the instruction descriptor of tcgen05.mma, or decode WORD.

    Exit code 1 if the word is illegal in every form of the instruction.
    """
    given = {name: value for name, value in options.items() if value not in (None, False)}
    if word is None:
        word = _encode(kind, given, force)
    elif given:
        raise ConfigError(f"--{next(iter(given)).replace('_', '-')} is given beside a word, must be one or the other")
    fields = decode_idesc(kind, word)
    verdict = judge(kind, word, cta_group=cta_group, ws=ws, arch=arch, k=given.get("k"))
    cut = tuple(_cut_problems(kind, given, fields)) if force else ()
    problems = (*cut, *verdict.problems)
    rows = field_rows(idesc_layout(kind), word, _meanings(fields))
    notes = (*reading_note(word), *verdict.notes)
    document = {
        "value": f"{word:#010x}",
        "kind": kind,
        "fields": _json_fields(fields),
        "problems": [problem.to_json() for problem in problems],
        "legal_in": {"forms": verdict.forms, "archs": verdict.archs},
        "notes": list(notes),
    }
    output.emit(
        document,
        text=lambda: render(
            heading(f"{word:#010x}", f"instruction descriptor, kind::{kind}"),
            field_table(rows),
            problem_list(problems),
            _legal_line(verdict),
            note_list(notes),
        ),
        table=lambda: (FIELD_HEADER, rows),
    )
    return ExitCode.DIFFERS if problems else ExitCode.OK


def _encode(kind: str, given: dict[str, Any], force: bool) -> int:
    row = KINDS[kind]
    missing = [f"--{name}" for name in _NEEDED if name not in given]
    if missing:
        raise ConfigError(f"{', '.join(missing)} missing: needed to encode", hint="or give a word to decode")
    values = {"b": given["a"], **given}
    if "max_shift" in values:
        values["max_shift"] = int(values["max_shift"])
    if "scale" not in values and len(row.scale_types) > 1:
        raise ConfigError(f"--scale is missing, must be {' or '.join(row.scale_types)} for kind::{kind}")
    return encode_idesc(kind, **{_RENAMED.get(name, name): value for name, value in values.items()}, force=force)


def _cut_problems(kind: str, given: dict[str, Any], fields: IdescFields) -> list[Problem]:
    """What ``--force`` could not put into the word."""
    stored = _json_fields(fields)
    requested = {name: int(value) if name == "max_shift" else value for name, value in given.items() if name != "k"}
    ref = KINDS[kind].refs[0]
    return [
        Problem(name, f"{name} is {requested[name]}, does not fit its field: the word says {stored.get(name, 0)}", ref)
        for name in changed_by_force(requested, stored)
    ]


def judge(kind: str, word: int, *, cta_group: int | None, ws: bool | None, arch: str | None, k: int | None) -> Verdict:
    """Try every form of the instruction that the caller leaves open."""
    row = KINDS[kind]
    groups = (1, 2) if cta_group is None else (cta_group,)
    ws_forms = ((False, True) if row.ws else (False,)) if ws is None else (ws,)
    archs = [target.name for target in ARCHS.values() if target.has_tmem] if arch is None else [arch]
    forms = [Form(*form) for form in product(groups, ws_forms, archs)]
    found = {
        form: idesc_problems(kind, word, cta_group=form.cta_group, ws=form.ws, arch=form.arch, k=k) for form in forms
    }
    legal = tuple(form for form in forms if not found[form])
    nearest = min(forms, key=lambda form: len(found[form]))
    return Verdict(tuple(found[nearest]), legal, tuple(_notes(kind, word, legal or (nearest,), k)))


def _notes(kind: str, word: int, forms: tuple[Form, ...], k: int | None) -> list[str]:
    fields = decode_idesc(kind, word)
    conflicts = [
        str(conflict)
        for form, a_source in product(forms, ("smem", "tmem"))
        for conflict in source_conflicts(
            MmaCase(
                kind,
                fields.m,
                fields.n,
                form.cta_group,
                form.ws,
                fields.sparse,
                fields.a_type or "",
                fields.b_type or "",
                a_source,
                fields.k if k is None else k,
            )
        )
    ]
    if "tf32" in (fields.a_type, fields.b_type) and "mn" in (fields.a_major, fields.b_major):
        conflicts.append("MN-major tf32 operands need swizzle 128B-base32B in their shared-memory descriptor.")
    return list(dict.fromkeys(conflicts))


def _json_fields(fields: IdescFields) -> dict[str, Any]:
    """Under the names of the options; without those that the kind's layout lacks."""
    scaled = KINDS[fields.kind].block_scaled
    absent = {"saturate", "max_shift"} if scaled else {"scale_type", "sfa_id", "sfb_id"}
    option = {name: option for option, name in _RENAMED.items()}
    names = [name for name in IdescFields.__dataclass_fields__ if name not in ("kind", "raw", "problems")]
    return {option.get(name, name): getattr(fields, name) for name in names if name not in absent}


def _meanings(fields: IdescFields) -> dict[str, str]:
    """What each field's code says, in words."""
    unit = m_unit(KINDS[fields.kind].family)
    negate = {True: "negated", False: "as it is"}
    return {
        "sparsity_selector": "metadata half" if fields.sparse else "not used",
        "sparse": "sparse A (.sp)" if fields.sparse else "dense",
        "saturate": "clamp to s32" if fields.saturate else "off",
        "a_type": f"A is {fields.a_type or 'undefined'}",
        "b_type": f"B is {fields.b_type or 'undefined'}",
        "d_type": f"D is {fields.d_type or 'undefined'}",
        "negate_a": negate[fields.negate_a],
        "negate_b": negate[fields.negate_b],
        "a_major": f"A is {fields.a_major.upper()}-major",
        "b_major": f"B is {fields.b_major.upper()}-major",
        "m": f"M = {fields.m} ({fields.raw['m']} x {unit})",
        "n": f"N = {fields.n} ({fields.raw['n']} x 8)",
        "max_shift": f"{fields.max_shift} columns (.ws)" if fields.max_shift else "no shift",
        "scale_type": f"scale factors are {fields.scale_type}",
        "sfa_id": f"byte {fields.sfa_id} of A's scale-factor words",
        "sfb_id": f"byte {fields.sfb_id} of B's scale-factor words",
        "k_size": f"K = {fields.k}",
    }


def _legal_line(verdict: Verdict) -> Text:
    if not verdict.legal_in:
        return Text("Legal in no form that was asked for.", style="red")
    everywhere = [target.name for target in ARCHS.values() if target.has_tmem]
    archs = "every target with Tensor Memory" if verdict.archs == everywhere else ", ".join(verdict.archs)
    return Text(f"Legal in {', '.join(verdict.forms)} on {archs}.")
