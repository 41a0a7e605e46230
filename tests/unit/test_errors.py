"""Errors as a user reads them: unknown names, parts of a message."""

import pytest

from umma_probe.errors import ConfigError, Where, unknown_name


@pytest.mark.parametrize(
    ("name", "known", "text"),
    [
        ("tmem-layuot", ["tmem-layout", "qk-gemm"], "unknown probe 'tmem-layuot'; did you mean tmem-layout?"),
        ("k", ["_Z1kPf", "other"], "unknown probe 'k'; did you mean _Z1kPf?"),
        ("zzz", ["b", "a"], "unknown probe 'zzz'; known: a, b"),
        ("", ["b", "a"], "unknown probe ''; known: a, b"),
    ],
)
def test_unknown_names_come_with_the_nearest(name: str, known: list[str], text: str) -> None:
    assert unknown_name("probe", name, known) == text


def test_a_message_has_its_parts_in_order() -> None:
    where = Where("case.yaml", 3, 5, "grd: [1]", "CTA 0")
    error = ConfigError("grd: unknown key", where=where, hint="grid", ref="PTX ISA, grid")
    assert error.render().splitlines() == [
        "usage error: grd: unknown key",
        "  at case.yaml:3:5, CTA 0",
        "  grd: [1]",
        "      ^",
        "  hint: grid",
        "  source: PTX ISA, grid",
    ]
