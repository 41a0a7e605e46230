from __future__ import annotations

from pathlib import Path

import pytest

from umma_probe.gpu.includes import include_closure


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_h", ".h")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_includes_are_followed_wherever_they_lie(tmp_path: Path) -> None:
    write(
        tmp_path,
        own__a_h='#include "b.h"\n',
        own__b_h="  #  include <sub/c.h> // quoted or not\n",
        lib__sub__c_h='#include "d.h"\n#include "a.h"\n',
        lib__sub__d_h="",
    )
    closure = include_closure('#include "a.h"', tmp_path / "own", [tmp_path / "lib"])
    assert [path.relative_to(tmp_path).as_posix() for path in closure.files] == [
        "own/a.h", "own/b.h", "lib/sub/c.h", "lib/sub/d.h"
    ]  # fmt: skip
    assert closure.missing == ["a.h"]  # lib/sub has none, and own/ is no include directory
    assert not closure.opaque


def test_the_first_directory_wins_and_angle_brackets_skip_the_own_one(tmp_path: Path) -> None:
    write(tmp_path, own__x_h="own", one__x_h="one", two__x_h="two")
    dirs = [tmp_path / "one", tmp_path / "two"]
    assert list(include_closure("#include <x.h>", tmp_path / "own", dirs).files.values()) == [b"one"]
    assert list(include_closure('#include "x.h"', tmp_path / "own", dirs).files.values()) == [b"own"]


def test_cycles_end(tmp_path: Path) -> None:
    write(tmp_path, a_h='#include "b.h"', b_h='#include "a.h"')
    assert len(include_closure('#include "a.h"', tmp_path, []).files) == 2


@pytest.mark.parametrize("text", ["#include HEADER", "  # include  HEADER(x)", "#include\\\n<x.h>"])
def test_computed_includes_are_opaque(text: str, tmp_path: Path) -> None:
    assert include_closure(text, tmp_path, []).opaque


def test_has_include_counts(tmp_path: Path) -> None:
    closure = include_closure('#if __has_include(<x.h>) || __has_include( "y.h" )', tmp_path, [])
    assert closure.missing == ["x.h", "y.h"]
    assert not closure.opaque
