"""Reading and writing reports. An unknown version, a part that is missing or of the wrong type: refused."""

from __future__ import annotations

import json
import types
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from umma_probe.errors import RecordError
from umma_probe.record.schema import SCHEMA_VERSION, Report

T = TypeVar("T")


def dumps(report: Report) -> str:
    """One JSON object, indented."""
    return json.dumps(report.to_json(), indent=1, ensure_ascii=False)


def loads(text: str, name: str = "<report>") -> Report:
    """The report in a JSON text; unknown keys are ignored, since later versions may add some.

    :raises RecordError: no JSON, an unknown version, or something is missing or of the wrong type.
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise RecordError(f"{name}: no JSON ({error.msg}, line {error.lineno})") from error
    except RecursionError as error:
        raise RecordError(f"{name}: no report: it is nested too deeply") from error
    if not isinstance(data, dict):
        raise RecordError(f"{name}: the report is of type {type(data).__name__}, must be an object")
    if "schema_version" not in data:
        raise RecordError(f"{name}: no report: it has no schema_version",
                          hint="--json of umma-probe run, fmha or exec writes one")  # fmt: skip
    version = data["schema_version"]
    if version != SCHEMA_VERSION:
        raise RecordError(
            f"{name}: schema_version is {version!r}, must be {SCHEMA_VERSION}",
            hint="it was written by another version of umma-probe",
        )
    return _build(Report, data, name)


def load(path: Path) -> Report:
    """The report in a file.

    :raises RecordError: it cannot be read, or see :func:`loads`.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: cannot be read ({error})") from error
    return loads(text, str(path))


def _build(cls: type[T], data: dict[str, Any], place: str) -> T:
    """An instance of a dataclass from plain data."""
    hints = get_type_hints(cls)
    values: dict[str, Any] = {}
    for entry in fields(cls):  # type: ignore[arg-type]  # cls is a dataclass
        if entry.name in data:
            values[entry.name] = _convert(hints[entry.name], data[entry.name], f"{place}: {entry.name}")
        elif entry.default is MISSING and entry.default_factory is MISSING:
            raise RecordError(f"{place}: {entry.name} is missing")
    return cls(**values)


def _convert(hint: Any, value: Any, place: str) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        options = [option for option in get_args(hint) if option is not type(None)]
        return None if value is None else _convert(options[0], value, place)
    if is_dataclass(hint) and isinstance(hint, type):
        return _build(hint, _expect(dict, value, place), place)
    if get_origin(hint) is list:
        (inner,) = get_args(hint)
        return [_convert(inner, item, f"{place}[{index}]") for index, item in enumerate(_expect(list, value, place))]
    if get_origin(hint) is dict:
        inner = get_args(hint)[1]
        return {key: _convert(inner, item, f"{place}.{key}") for key, item in _expect(dict, value, place).items()}
    if hint is float and isinstance(value, int):
        return float(value)
    return value if hint is Any else _expect(hint, value, place)


def _expect(kind: Any, value: Any, place: str) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        names = {dict: "an object", list: "a list", str: "a text", int: "an integer", float: "a number"}
        raise RecordError(f"{place} is {value!r}, must be {names.get(kind, kind)}")
    return value
