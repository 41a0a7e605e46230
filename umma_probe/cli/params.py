"""Parameter types of the command line: small integer tuples such as ``3,17``."""

from __future__ import annotations

from typing import Any

import click


class Integers(click.ParamType):  # type: ignore[type-arg]  # generic in newer click only
    """``3,17`` to (3, 17); ``names`` are the parts, those past ``required`` may be left out (then 0)."""

    name = "integers"

    def __init__(self, names: str, required: int | None = None) -> None:
        self.parts = names.split(",")
        self.required = len(self.parts) if required is None else required

    def get_metavar(self, *_: Any, **__: Any) -> str:
        """``M,N`` or ``LANE,COLUMN[,CTA]``."""
        needed, rest = self.parts[: self.required], self.parts[self.required :]
        return ",".join(needed) + "".join(f"[,{part}]" for part in rest)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Split and check the count."""
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(int(part, 0) for part in str(value).split(","))
        except ValueError:
            self.fail(f"'{value}' is not {self.get_metavar()}", param, ctx)
        if not self.required <= len(numbers) <= len(self.parts):
            self.fail(f"'{value}' has {len(numbers)} numbers, must be {self.get_metavar()}", param, ctx)
        return numbers + (0,) * (len(self.parts) - len(numbers))
