from __future__ import annotations

import os
from pathlib import Path

import pytest

from umma_probe.gpu.cache import CompileCache, cache_root, digest


def test_keys_separate_their_parts() -> None:
    assert digest(["ab", "c"]) != digest(["a", "bc"])
    assert digest(["ab"]) != digest(["ab", ""])
    assert digest(["ab"]) == digest([b"ab"])


def test_a_stored_blob_comes_back(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path)
    assert cache.get("key") is None
    cache.put("key", b"blob")
    assert CompileCache(tmp_path).get("key") == b"blob"
    assert not list(tmp_path.rglob(".new-*"))


@pytest.mark.parametrize("damage", [lambda blob: blob[:-1], lambda blob: blob[:-1] + b"X", lambda blob: b""])
def test_a_damaged_entry_is_a_miss(tmp_path: Path, damage) -> None:
    cache = CompileCache(tmp_path)
    cache.put("key", b"blob")
    (path,) = (entry for entry in tmp_path.rglob("*") if entry.is_file())
    path.write_bytes(damage(path.read_bytes()))
    assert cache.get("key") is None


def test_a_directory_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = CompileCache(tmp_path / "file")
    cache.put("key", b"blob")
    assert cache.get("key") is None


def test_the_oldest_entries_go_when_it_is_full(tmp_path: Path) -> None:
    unlimited = CompileCache(tmp_path)
    for number in range(10):
        unlimited.put(f"{number:02}", bytes(1000))
        path = tmp_path / "kernels" / f"{number:02}" / f"{number:02}"
        os.utime(path, (number, number))
    assert unlimited.get("00") is not None  # now the most recently used
    CompileCache(tmp_path, limit_bytes=5000).put("10", bytes(1000))
    kept = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert kept == {"00", "09", "10"}


def test_where_the_cache_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UMMA_PROBE_CACHE", "off")
    assert cache_root() is None
    monkeypatch.setenv("UMMA_PROBE_CACHE", str(tmp_path))
    assert cache_root() == tmp_path
    monkeypatch.delenv("UMMA_PROBE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_root() == Path("/xdg/umma-probe")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert cache_root() == Path("/home/someone/.cache/umma-probe")
