"""Writes the outcome of a re-check into a finding's file: ``status`` and ``last_verified``, and not one character more.

The file's text, its comments and its order are its author's. The new file is read back and compared before it takes the
old one's place.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from umma_probe.errors import ConfigError, InternalError
from umma_probe.findings.loader import load_finding
from umma_probe.findings.schema import Verification

if TYPE_CHECKING:
    from umma_probe.findings.schema import Finding, Status


def write_verification(finding: Finding, status: Status, verification: Verification) -> None:
    """Rewrite the two fields.

    :raises ConfigError: the file cannot be written.
    """
    path = finding.path
    text = _with_fields(path.read_text(encoding="utf-8"), status, verification)
    expected = replace(finding, status=status, last_verified=verification)
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".verify-") as folder:
            new = Path(folder) / path.name
            new.write_text(text, encoding="utf-8")
            if replace(load_finding(new), path=path) != expected:
                raise InternalError(f"{path}: writing the verification would change more than that")
            new.chmod(path.stat().st_mode)
            new.replace(path)
    except OSError as error:
        raise ConfigError(
            f"cannot write {path}: {error.strerror}", hint="--write is for a checkout, not for an installed wheel"
        ) from error


def _with_fields(text: str, status: Status, verification: Verification) -> str:
    block = (
        f"last_verified: {{date: {verification.date}, target: {_quoted(verification.target)}, "
        f"holds: {str(verification.holds).lower()}, version: {_quoted(verification.version)}}}"
    )
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    nodes = {key.value: (key, value) for key, value in getattr(root, "value", ())}
    edits = [(nodes["status"][1].start_mark.index, nodes["status"][1].end_mark.index, status.value)]
    if "last_verified" in nodes:
        key, value = nodes["last_verified"]
        edits.append((key.start_mark.index, value.end_mark.index, block))
    else:
        end = len(text.rstrip("\n"))
        edits.append((end, end, f"\n{block}"))
    for start, stop, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[stop:]
    return text


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
