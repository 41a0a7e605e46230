"""Compiled kernels on disk, so that a sweep compiles each source once.

An entry's name is a SHA-256 over everything that NVRTC's answer depends on; the caller supplies the parts. Entries are
written beside their place and renamed, so that a reader never sees half a file. The cache is a convenience: a
directory that cannot be read or written is a miss, never an error. ``UMMA_PROBE_CACHE`` moves it, or with ``off``
switches it off.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LIMIT_BYTES = 256 << 20
_SWEEP_EVERY = 64
"""Stores between two looks at the size: scanning on each would cost more than it saves."""


def cache_root() -> Path | None:
    """Where this user's cache lies, or None where it is off or there is no home."""
    setting = os.environ.get("UMMA_PROBE_CACHE", "")
    if setting.lower() == "off":
        return None
    if setting:
        return Path(setting)
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "umma-probe"
    except RuntimeError:  # no home directory
        return None


def digest(parts: Iterable[str | bytes]) -> str:
    """One key for a sequence of parts. Each is length-prefixed, so ("ab", "c") and ("a", "bc") differ."""
    hasher = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        hasher.update(len(data).to_bytes(8, "little"))
        hasher.update(data)
    return hasher.hexdigest()


class CompileCache:
    """Blobs by key under ``root``; the least recently used go when the total exceeds ``limit_bytes``."""

    def __init__(self, root: Path | None, limit_bytes: int = LIMIT_BYTES) -> None:
        self.root = root / "kernels" if root is not None else None
        self.limit_bytes = limit_bytes
        self._stores = 0

    def get(self, key: str) -> bytes | None:
        """The blob, or None; reading it makes it the most recently used."""
        if self.root is None:
            return None
        path = self._path(self.root, key)
        try:
            blob = path.read_bytes()
        except OSError:
            return None
        checksum, body = blob[:32], blob[32:]
        if hashlib.sha256(body).digest() != checksum:  # damaged on disk: compile again
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return body

    def put(self, key: str, blob: bytes) -> None:
        """Keep the blob, if the directory allows it."""
        if self.root is None:
            return
        path = self._path(self.root, key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_atomically(path, hashlib.sha256(blob).digest() + blob)
        except OSError:
            return
        if self._stores % _SWEEP_EVERY == 0:
            self._trim(self.root)
        self._stores += 1

    @staticmethod
    def _path(root: Path, key: str) -> Path:
        return root / key[:2] / key

    def _trim(self, root: Path) -> None:
        """Delete the oldest entries until the total is within three quarters of the limit."""
        entries = []
        for path in root.glob("*/*"):
            with contextlib.suppress(OSError):
                status = path.stat()
                entries.append((status.st_mtime_ns, status.st_size, path))
        total = sum(size for _, size, _ in entries)
        if total <= self.limit_bytes:
            return
        for _, size, path in sorted(entries):
            with contextlib.suppress(OSError):
                path.unlink()
                total -= size
            if total <= self.limit_bytes * 3 // 4:
                return


def _write_atomically(path: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        os.replace(temporary, path)
    except BaseException:  # Ctrl-C too: no half-written file stays behind
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
