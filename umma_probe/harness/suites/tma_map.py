"""``tma-map``: from which byte of a tensor each byte of shared memory comes after one TMA load.

Byte ``i`` of the tensor is ``i + 1``, its low eight bits in one launch and the next eight in the other; so the two
dumps name every byte. A byte that still is the sentinel in both was not written. What is filled is zero, or NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import ConfigError
from umma_probe.harness.suite import Experiment, Judgement, LaunchPlan, Mapped, Output, Outputs, passed
from umma_probe.layouts.tma_box import Access, plan_box, swizzle_shared
from umma_probe.record.schema import Check
from umma_probe.spec.tensor_map import ELEMENTS, TensorMapFields, tensor_map_problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

MAX_TENSOR_BYTES = 40960
"""Below what two sentinels name."""
SENTINEL = 0xA5
UNTOUCHED, FILLED = -1, -2
NAN_FILL = 0x7FF7
"""Every 16 bits of what is filled with NaN, whatever the type; the documents say only that it is one."""


@dataclass(frozen=True)
class BoxCase:
    """One load."""

    fields: TensorMapFields
    start: tuple[int, ...]
    offset: int
    smem_bytes: int
    nan: bool

    @property
    def tensor_bytes(self) -> int:
        """Of the whole tensor."""
        return int(np.prod(self.fields.global_dim)) * self.fields.element.bits // 8

    def expected(self) -> NDArray[np.int64]:
        """(shared bytes): the tensor's byte that belongs there, ``UNTOUCHED`` or ``FILLED``."""
        plan = plan_box(self.fields, Access.TILE, self.start)
        shared = np.full(self.smem_bytes, UNTOUCHED, np.int64)
        within = np.arange(plan.unit)
        places = swizzle_shared((plan.place * plan.unit)[..., None] + within + self.offset, self.fields.swizzle)
        sources = (plan.source * plan.unit)[..., None] + within
        shared[places] = np.where(plan.inside[..., None], sources, FILLED)
        return shared


def prepare(params: Mapping[str, Any], arch: str, seed: int = 0) -> Experiment:
    """See ``Suite.prepare``. Nothing is random: ``seed`` is not used."""
    tensor, box, start = (_numbers(name, params[name]) for name in ("tensor", "box", "start"))
    steps = _numbers("steps", params["steps"]) if params["steps"] else (1,) * len(tensor)
    if len({len(tensor), len(box), len(start), len(steps)}) > 1 or len(tensor) > 5:
        raise ConfigError(
            "tensor, box, start and steps have different numbers of dimensions, must have the same, 1 to 5"
        )
    size = ELEMENTS[params["dtype"]].bits // 8
    strides = tuple(int(np.prod(tensor[: axis + 1])) * size for axis in range(len(tensor) - 1))
    words: dict[str, Any] = {
        "dtype": params["dtype"], "global_dim": tensor, "global_strides": strides, "box_dim": box,
        "element_strides": steps, "swizzle": params["swizzle"], "oob_fill": params["fill"],
    }  # fmt: skip
    fields = TensorMapFields(address=0, **words)
    plan = plan_box(fields, Access.TILE, start)
    end = params["offset"] + int(plan.place.max() + 1) * plan.unit
    case = BoxCase(fields, start, params["offset"], -(-end // 1024) * 1024 + 1024, params["fill"] == "nan")
    if case.tensor_bytes > MAX_TENSOR_BYTES:
        raise ConfigError(f"the tensor has {case.tensor_bytes} bytes, must have at most {MAX_TENSOR_BYTES}")
    launches = [_launch(case, words, number, plan.tx_bytes) for number in range(2)]
    defines = {"RANK": len(tensor)}
    return Experiment(dict(params), tensor_map_problems(fields), defines, launches, lambda out: judge(case, out))


def _numbers(name: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(f"{name} is '{text}', must be integers separated by commas") from None


def _launch(case: BoxCase, words: Mapping[str, Any], number: int, tx_bytes: int) -> LaunchPlan:
    codes = (np.arange(1, case.tensor_bytes + 1) >> 8 * number).astype(np.uint8)
    start = np.zeros(5, np.int32)
    start[: len(case.start)] = case.start
    return LaunchPlan(
        entry="tma_map",
        args=[
            Mapped(codes, {key: list(value) if isinstance(value, tuple) else value for key, value in words.items()}),
            Output("dump", (case.smem_bytes,), np.uint8),
            Output("arrived", (1,)),
            start.tobytes(),
            np.uint32(case.offset),
            np.uint32(tx_bytes),
            np.uint32(case.smem_bytes),
        ],
        dynamic_smem=case.smem_bytes + 1024,
        label=("low bytes", "high bytes")[number],
    )


def judge(case: BoxCase, outputs: Sequence[Outputs]) -> Judgement:
    """What arrived where, against the documents."""
    return Judgement(list(_checks(case, outputs)))


def _checks(case: BoxCase, outputs: Sequence[Outputs]) -> Iterator[Check]:
    arrived = [int(output["arrived"][0]) for output in outputs]
    yield passed("bytes", all(arrived), "the phase completes", "it completes" if all(arrived) else "it does not",
                 "the copy counts other bytes than its box has")  # fmt: skip
    low, high = (np.asarray(output["dump"], np.int64) for output in outputs)
    found = (high << 8 | low) - 1
    expected = case.expected()
    untouched = (low == SENTINEL) & (high == SENTINEL)
    yield from _state("untouched", expected == UNTOUCHED, untouched)
    fill = _fill_bytes(case)[np.arange(case.smem_bytes) % 8]
    filled = (low == fill) & (high == fill)
    wrong_fill = (expected == FILLED) & ~filled
    yield passed("fill", not wrong_fill.any(), f"{int((expected == FILLED).sum())} bytes filled",
                 f"{int(wrong_fill.sum())} with something else", _first(wrong_fill, low))  # fmt: skip
    wrong = (expected >= 0) & (found != expected)
    yield passed("map", not wrong.any(), f"{int((expected >= 0).sum())} bytes of the tensor",
                 f"{int(wrong.sum())} bytes from elsewhere", _moved(wrong, found, expected))  # fmt: skip


def _state(name: str, expected: NDArray[np.bool_], actual: NDArray[np.bool_]) -> Iterator[Check]:
    wrong = expected & ~actual
    yield passed(name, not wrong.any(), f"{int(expected.sum())} bytes", f"{int(wrong.sum())} of them written",
                 f"first at {int(np.flatnonzero(wrong)[0]):#x}" if wrong.any() else "")  # fmt: skip


def _fill_bytes(case: BoxCase) -> NDArray[np.int64]:
    """Eight bytes of the fill, in the order of addresses."""
    word = NAN_FILL if case.nan else 0
    return np.resize(np.array([word & 0xFF, word >> 8], np.int64), 8)


def _first(wrong: NDArray[np.bool_], values: NDArray[np.int64]) -> str:
    if not wrong.any():
        return ""
    at = int(np.flatnonzero(wrong)[0])
    return f"shared byte {at:#x} holds {values[at]:#04x}"


def _moved(wrong: NDArray[np.bool_], found: NDArray[np.int64], expected: NDArray[np.int64]) -> str:
    if not wrong.any():
        return ""
    at = int(np.flatnonzero(wrong)[0])
    return f"shared byte {at:#x} holds byte {found[at]} of the tensor, must hold byte {expected[at]}"
