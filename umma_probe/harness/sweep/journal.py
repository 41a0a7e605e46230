"""The journal: one line for each finished case, so that killing anything at any moment loses nothing.

- A line is written by the worker that finished the case, in one append, and synced before the worker says so. A case
  is finished exactly when its line is in the file.
- A line begins and ends with a newline: what a killed writer left half-written damages no other line and is skipped.
- The file is locked while a sweep runs. The workers inherit the lock with the open file, so a new sweep cannot begin
  before the last worker of a killed one is gone, and no case runs twice.
- ``done`` marks a sweep that ran to its end. The next one starts afresh; after an interruption it goes on.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from umma_probe.errors import ConfigError, ExitCode

FORMAT = 1
_PATIENCE_S = 5.0
"""So long the workers of a killed sweep may take to notice."""


@dataclass(frozen=True)
class CaseRecord:
    """What came out of one case."""

    digest: str
    verdict: str
    exit_code: int
    """As ``run`` would have answered."""
    message: str = ""
    """Why there is no report."""
    seconds: float = 0.0
    report: dict[str, Any] | None = None


def internal_record(digest: str, message: str, seconds: float = 0.0) -> CaseRecord:
    """A case that ended through a bug of ours."""
    return CaseRecord(digest, "error", ExitCode.INTERNAL, message, seconds)


class JournalWriter:
    """Appends to an open journal; a worker has one around the inherited file."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def append(self, record: CaseRecord) -> None:
        """Write a finished case, durably."""
        self._line({"format": FORMAT, **asdict(record)})

    def _line(self, data: dict[str, Any]) -> None:
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        payload = f"\n{text}\n".encode()
        while payload:
            payload = payload[os.write(self.fd, payload) :]
        os.fsync(self.fd)


class Journal(JournalWriter):
    """The locked journal of one sweep.

    :raises ConfigError: it cannot be opened, or another sweep is using it.
    """

    def __init__(self, path: Path, patience_s: float = _PATIENCE_S) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            super().__init__(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644))
        except OSError as error:
            raise ConfigError(
                f"journal {path}: {error.strerror}", hint="--state DIR puts it where you may write"
            ) from error
        self._lock(patience_s)

    def _lock(self, patience_s: float) -> None:
        deadline = time.monotonic() + patience_s
        while True:
            try:
                return fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() >= deadline:
                    self.close()
                    raise ConfigError(
                        f"another sweep is running with the journal {self.path}",
                        hint="wait for it, or give this one another --state DIR",
                    ) from None
                time.sleep(0.05)

    def records(self) -> dict[str, CaseRecord]:
        """The finished cases by digest; if a case stands twice, the first counts."""
        found: dict[str, CaseRecord] = {}
        for data in self._lines():
            record = _record(data)
            if record is not None:
                found.setdefault(record.digest, record)
        return found

    def is_done(self, sweep: str) -> bool:
        """Whether a sweep of this identity ran to its end."""
        return any(data.get("done") == sweep for data in self._lines())

    def mark_done(self, sweep: str) -> None:
        """Note that the sweep ran to its end."""
        self._line({"format": FORMAT, "done": sweep})

    def clear(self) -> None:
        """Forget everything."""
        os.ftruncate(self.fd, 0)

    def close(self) -> None:
        """Give the lock back (once no worker has it any more)."""
        os.close(self.fd)

    def _lines(self) -> list[dict[str, Any]]:
        found = []
        for line in self.path.read_bytes().splitlines():
            try:
                data = json.loads(line)
            except ValueError:  # empty, or torn by a kill
                continue
            if isinstance(data, dict) and data.get("format") == FORMAT:
                found.append(data)
        return found


def _record(data: dict[str, Any]) -> CaseRecord | None:
    fields = {key: value for key, value in data.items() if key != "format"}
    try:
        record = CaseRecord(**fields)
    except TypeError:
        return None
    return record if isinstance(record.digest, str) and isinstance(record.verdict, str) else None


def default_state_dir() -> Path:
    """``$XDG_STATE_HOME/umma-probe/sweeps``."""
    base = os.environ.get("XDG_STATE_HOME", "")
    try:
        return (Path(base) if base else Path.home() / ".local" / "state") / "umma-probe" / "sweeps"
    except RuntimeError as error:
        raise ConfigError("there is no home directory for the journal", hint="--state DIR") from error
