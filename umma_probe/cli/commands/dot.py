"""``umma-probe dot``: the word that the tensor core gives for one dot product."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from umma_probe.cli.output import Output, format_options
from umma_probe.errors import ConfigError, ExitCode, Where, unknown_name
from umma_probe.model.arith import DotProduct
from umma_probe.spec.formats import FORMATS
from umma_probe.spec.kinds import KINDS

FILE_KEYS = {
    "kind": "kind",
    "a": "a",
    "b": "b",
    "c": "c",
    "a_format": "a_type",
    "b_format": "b_type",
    "d_format": "d_type",
    "saturate": "saturate",
    "scale_a": "scale_a",
    "scale_b": "scale_b",
    "scale_format": "scale_type",
    "scale_vec": "scale_vec",
    "arch": "arch",
}
"""Keys of a vector in a file, to the fields of the dot product."""
IGNORED_KEYS = ("name", "expected", "about")
WORD_LISTS = ("a", "b", "scale_a", "scale_b")


@click.command()
@click.option("--kind", help="f16, tf32, f8f6f4, i8, mxf8f6f4, mxf4, mxf4nvf4.")
@click.option("--a-type", help="Type of A's elements.")
@click.option("--b-type", help="Of B's; default: A's.")
@click.option("--d-type", help="Of C and D; default: f32, for i8 s32.")
@click.option("--a", metavar="HEX,...", help="A: one word an element; tf32 and bf16 as F32 words.")
@click.option("--b", metavar="HEX,...", help="B.")
@click.option("--c", metavar="HEX", help="The accumulator; default: 0.")
@click.option("--scale-type", help="ue8m0 or ue4m3.")
@click.option("--scale-vec", type=int, metavar="1|2|4", help="Scale factors for each row.")
@click.option("--scale-a", metavar="HEX,...", help="Scale factors of A.")
@click.option("--scale-b", metavar="HEX,...", help="Scale factors of B.")
@click.option("--saturate", is_flag=True, default=None, help="Clamp the sum (i8).")
@click.option("--arch", metavar="ARCH", help="sm_100a (default) ... or sm_90a, for wgmma.")
@click.option("--batch", metavar="FILE.json", help="Many: a list, or an object whose 'vectors' is the list.")
@format_options("text", "json", "csv")
def command(batch: str | None, output: Output, **options: Any) -> int:
    """The word of D that the tensor core gives for sum(A[k] * B[k]) + C, bit for bit.

    All words are hexadecimal. A and B have exactly the K elements of one instruction: f16 16, tf32 8, f8f6f4, i8 and
    mxf8f6f4 32, mxf4 and mxf4nvf4 64.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if batch is None:
        case = _from_options(given)
        word = _hex(case, case.word())
        output.emit({"d": word}, text=lambda: word, table=lambda: (["d"], [[word]]))
        return ExitCode.OK
    if given:
        extra = ", ".join(f"--{name.replace('_', '-')}" for name in given if name != "arch")
        if extra:
            raise ConfigError(f"--batch: {extra} given too, must stand in the file")
    cases = _from_file(batch, given.get("arch"))
    words = [_hex(case, case.word()) for case in cases]
    output.emit(words, text=lambda: "\n".join(words), table=lambda: (["d"], [[word] for word in words]))
    return ExitCode.OK


def _hex(case: DotProduct, word: int) -> str:
    return f"0x{word:0{FORMATS[case.d_type].bits // 4}x}"


def _from_options(given: dict[str, Any]) -> DotProduct:
    if missing := [name for name in ("kind", "a_type", "a", "b") if name not in given]:
        raise ConfigError(
            f"--{missing[0].replace('_', '-')} is missing, must be given",
            hint="umma-probe dot --help; --batch FILE.json takes many",
        )
    fields = dict(given)
    for name in WORD_LISTS:
        if name in fields:
            parts = fields[name].split(",")
            fields[name] = tuple(_parse_hex(f"--{name.replace('_', '-')}: element {i}", p) for i, p in enumerate(parts))
    fields["c"] = _parse_hex("--c", given.get("c", "0"))
    return _case(fields)


def _case(fields: dict[str, Any]) -> DotProduct:
    fields.setdefault("b_type", fields["a_type"])
    fields.setdefault("d_type", "s32" if KINDS[fields["kind"]].name == "i8" else "f32")
    return DotProduct(**fields)


def _from_file(path: str, arch: str | None) -> list[DotProduct]:
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"--batch: cannot read {path}: {error.strerror}") from error
    except json.JSONDecodeError as error:
        place = Where(file=path, line=error.lineno, column=error.colno)
        raise ConfigError(f"--batch: not JSON: {error.msg}", where=place) from error
    except RecursionError as error:
        raise ConfigError("--batch: nested too deeply", where=Where(file=path)) from error
    except UnicodeDecodeError as error:
        raise ConfigError("--batch: not UTF-8 text", where=Where(file=path)) from error
    vectors = document.get("vectors") if isinstance(document, dict) else document
    if not isinstance(vectors, list):
        raise ConfigError("--batch: must be a list, or an object whose 'vectors' is a list", where=Where(file=path))
    return [_from_vector(vector, arch, path, index) for index, vector in enumerate(vectors)]


def _from_vector(vector: Any, arch: str | None, path: str, index: int) -> DotProduct:
    name = vector.get("name") if isinstance(vector, dict) else None
    place = Where(file=path, actor=f"vectors[{index}]" + (f" ({name})" if name else ""))
    try:
        return _case(_fields(vector, arch))
    except ConfigError as error:
        raise ConfigError(error.message, where=place, hint=error.hint, ref=error.ref) from error


def _fields(vector: Any, arch: str | None) -> dict[str, Any]:
    """The fields of one vector, each of its type.

    :raises ConfigError: a key is unknown or missing, or a value has the wrong type.
    """
    if not isinstance(vector, dict):
        raise ConfigError(f"the vector is of type {type(vector).__name__}, must be an object")
    fields: dict[str, Any] = {}
    for key, value in vector.items():
        if key in IGNORED_KEYS or value is None:
            continue
        if key not in FILE_KEYS:
            raise ConfigError(unknown_name("key", key, [*FILE_KEYS, *IGNORED_KEYS]))
        fields[FILE_KEYS[key]] = _value(key, value)
    for key in ("kind", "a", "b", "a_format"):
        if FILE_KEYS[key] not in fields:
            raise ConfigError(f"{key} is missing, must be given")
    fields.setdefault("c", 0)
    if arch is not None:
        fields.setdefault("arch", arch)
    return fields


def _value(key: str, value: Any) -> Any:
    if key in WORD_LISTS:
        if not isinstance(value, list):
            raise ConfigError(f"{key} is {value!r}, must be a list of words")
        return tuple(_word(f"{key}[{index}]", part) for index, part in enumerate(value))
    if key == "c":
        return _word(key, value)
    expected = {"saturate": bool, "scale_vec": int}.get(key, str)
    if type(value) is not expected:
        raise ConfigError(f"{key} is {value!r}, must be of type {expected.__name__}")
    return value


def _word(what: str, value: Any) -> int:
    """A JSON number, or a hexadecimal string."""
    if isinstance(value, str):
        return _parse_hex(what, value)
    if type(value) is not int:
        raise ConfigError(f"{what} is {value!r}, must be a whole number or a hexadecimal string")
    return value


def _parse_hex(what: str, text: str) -> int:
    digits = text.strip().lower().removeprefix("0x")
    if not digits or any(digit not in "0123456789abcdef" for digit in digits):
        raise ConfigError(f"{what} is '{text}', must be a hexadecimal word such as 3f800000")
    return int(digits, 16)
