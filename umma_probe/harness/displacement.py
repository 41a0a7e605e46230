"""Scale factors or metadata that are looked for beside their documented place: the one shift that explains all.

Also the planted form of it: ``--inject scale-columns:a,4`` or ``metadata-columns:2`` gives the MMA an address that many
columns further on than where the probe put the bytes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import ConfigError
from umma_probe.harness.wording import counted
from umma_probe.record.schema import Diagnosis

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Places = dict[str, NDArray[np.int64]]
    """Coordinate (``column``, ``byte``) to its value for each element."""


def shift_of(found: Places, documented: Places) -> dict[str, int] | None:
    """The shift of each coordinate, if one and the same holds for every element; None if none does."""
    shift = {}
    for name, places in found.items():
        differences = np.unique(places - documented[name])
        if len(differences) != 1:
            return None
        shift[name] = int(differences[0])
    return shift if any(shift.values()) else None


def diagnose_shift(what: str, cause: str, found: Places, documented: Places) -> Diagnosis | None:
    """A cause for places that are all displaced alike; None where no single shift explains every element."""
    shift = shift_of(found, documented)
    if shift is None:
        return None
    words = ", ".join(
        f"{counted(abs(by), name)} {'further on' if by > 0 else 'before'}" for name, by in shift.items() if by
    )
    count = next(iter(found.values())).size
    return Diagnosis(
        f"{cause}: {what} are taken {words} than where they were put",
        "certain",
        [
            f"this one shift gives the place of every element looked at ({count})",
            "compare the address that the MMA gets with that of the tcgen05.cp or tcgen05.st which put them there",
        ],
    )


def injected_columns(text: str | None, fault: str, operands: tuple[str, ...]) -> dict[str, int]:
    """Columns by operand of ``--inject FAULT:[OPERAND,]COLUMNS``; all zero without one.

    :raises ConfigError: another fault, operand or number.
    """
    columns = dict.fromkeys(operands, 0)
    if not text:
        return columns
    operand = rf"(?P<operand>{'|'.join(operands)})," if len(operands) > 1 else ""
    match = re.fullmatch(rf"{re.escape(fault)}:{operand}(?P<columns>\d{{1,2}})", text)
    if match is None or int(match["columns"]) > _MOST_COLUMNS:
        form = f"{fault}:{'|'.join(operands) + ',' if operand else ''}COLUMNS"
        raise ConfigError(f"inject is '{text}', must be {form}, COLUMNS at most {_MOST_COLUMNS}")
    columns[match["operand"] if operand else operands[0]] = int(match["columns"])
    return columns


_MOST_COLUMNS = 16
"""So that the shifted place still holds coded bytes."""
