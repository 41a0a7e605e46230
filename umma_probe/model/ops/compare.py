"""``setp`` and ``set``; the operators themselves are in ``model/numbers/comparison.py``.

Rules enforced here (PTX ISA, "Comparison and Selection Instructions", "Half Precision Comparison Instructions"): with
t the comparison and c an optional predicate, ``p|q`` are (t op c) and (not t op c). For packed types p and q are the
lower and upper half's results. ``.ftz`` compares subnormals as zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from umma_probe.errors import PtxSyntaxError
from umma_probe.model.code.decode import operation
from umma_probe.model.code.operands import PRED
from umma_probe.model.numbers.comparison import (
    BIT_COMPARISONS,
    BOOLEANS,
    FLOAT_COMPARISONS,
    SIGNED_COMPARISONS,
    UNSIGNED_COMPARISONS,
)
from umma_probe.model.numbers.rounding import flush
from umma_probe.model.ops.half import HalfFormat
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import Operands
    from umma_probe.model.numbers.values import Array, PtxType
    from umma_probe.model.threads.frame import Frame

Function: TypeAlias = "Callable[..., Any]"

COMPARE = (
    documented("Comparison and Selection Instructions: setp"),
    documented("Comparison and Selection Instructions: set"),
    documented("Half Precision Comparison Instructions: setp"),
    documented("Half Precision Comparison Instructions: set"),
)
_CLASSES: tuple[tuple[str, Mapping[str, Function], bool], ...] = (
    ("b16 b32 b64", BIT_COMPARISONS, False),
    ("s16 s32 s64", SIGNED_COMPARISONS, False),
    ("u16 u32 u64", UNSIGNED_COMPARISONS, False),
    ("f64 bf16", FLOAT_COMPARISONS, False),
    ("f32 f16", FLOAT_COMPARISONS, True),
)
"""Scalar types, their comparisons, and whether ``.ftz`` exists."""
_PACKED = (("f16x2", True), ("bf16x2", False))


def _comparison(compare: Function, type_: PtxType, *, ftz: bool) -> Function:
    """``compare`` on register contents of that type; packed types give two results a register, lower half first."""
    if type_.name == "f32":
        return (lambda a, b: compare(flush(a), flush(b))) if ftz else compare
    if type_.bits > 32 or type_.category not in "fx":
        return compare
    form = HalfFormat(type_)

    def values(register: Array) -> Array:
        lanes = form.values(form.lanes(register))
        return form.flush(lanes) if ftz else lanes

    return lambda a, b: compare(values(a), values(b))


# ---------------------------------------------------------------------- setp
def _bind_setp(ops: Operands, test: Function, type_: PtxType, combine: Function | None, *, packed: bool) -> Executor:
    ops.expect_count(3 if combine is None else 4)
    first, second = ops.pair(0)
    if packed and second is None:
        raise PtxSyntaxError(f"{ops.instruction.text}: a packed type needs two destinations p|q")
    p = ops.destination(first, PRED)
    q = None if second is None else ops.destination(second, PRED)
    a, b = ops.src(1, type_), ops.src(2, type_)
    if combine is None and q is None:

        def run(f: Frame) -> None:
            r, s = f.regs, f.sel
            r[p][s] = test(r[a][s], r[b][s])

        return run
    c, negated = (-1, False) if combine is None else ops.pred(3)

    def run_full(f: Frame) -> None:
        r, s = f.regs, f.sel
        result = test(r[a][s], r[b][s])
        first_result, second_result = (result[0::2], result[1::2]) if packed else (result, ~result)
        if combine is not None:
            condition = r[c][s] ^ negated
            first_result, second_result = combine(first_result, condition), combine(second_result, condition)
        r[p][s] = first_result
        if q is not None:
            r[q][s] = second_result

    return run_full


def _register_setp(types: str, comparisons: Mapping[str, Function], *, has_ftz: bool, packed: bool) -> None:
    flag = ".{ftz?}" if has_ftz else ""

    @operation(f"setp.{{cmp}}{flag}.{{type}}", cmp=comparisons, type=types, refs=COMPARE)
    def setp(ops: Operands, cmp: Function, type: PtxType, ftz: bool = False) -> Executor:
        return _bind_setp(ops, _comparison(cmp, type, ftz=ftz), type, None, packed=packed)

    @operation(f"setp.{{cmp}}.{{bool}}{flag}.{{type}}", cmp=comparisons, bool=BOOLEANS, type=types, refs=COMPARE)
    def setp_bool(ops: Operands, cmp: Function, bool: Function, type: PtxType, ftz: bool = False) -> Executor:
        return _bind_setp(ops, _comparison(cmp, type, ftz=ftz), type, bool, packed=packed)


for _types, _comparisons, _has_ftz in _CLASSES:
    _register_setp(_types, _comparisons, has_ftz=_has_ftz, packed=False)
for _type, _has_ftz in _PACKED:
    _register_setp(_type, FLOAT_COMPARISONS, has_ftz=_has_ftz, packed=True)


# ---------------------------------------------------------------------- set
TRUE_WORDS = {
    "u32": 0xFFFFFFFF,
    "s32": 0xFFFFFFFF,
    "f32": 0x3F800000,
    "u16": 0xFFFF,
    "s16": 0xFFFF,
    "f16": 0x3C00,
    "bf16": 0x3F80,
    "f16x2": 0x3C00,
    "bf16x2": 0x3F80,
}
"""What ``set`` gives for true, by destination type: all ones or 1.0; packed types a half each."""


def _bind_set(ops: Operands, test: Function, dtype: PtxType, stype: PtxType, combine: Function | None) -> Executor:
    ops.expect_count(3 if combine is None else 4)
    packed = stype.name.endswith("x2")
    target, a, b = ops.dst(0, dtype), ops.src(1, stype), ops.src(2, stype)
    c, negated = (-1, False) if combine is None else ops.pred(3)
    word = np.dtype(np.uint16 if packed else f"u{dtype.bytes}")
    true = word.type(TRUE_WORDS[dtype.name] & np.iinfo(word).max)

    def run(f: Frame) -> None:
        r, s = f.regs, f.sel
        result = test(r[a][s], r[b][s])
        if combine is not None:
            condition = r[c][s] ^ negated
            result = combine(result, np.repeat(condition, 2) if packed else condition)
        r[target][s] = np.where(result, true, word.type(0)).view(dtype.dtype)

    return run


def _register_set(dtypes: str, types: str, comparisons: Mapping[str, Function], *, has_ftz: bool) -> None:
    flag = ".{ftz?}" if has_ftz else ""

    @operation(f"set.{{cmp}}{flag}.{{dtype}}.{{stype}}", cmp=comparisons, dtype=dtypes, stype=types, refs=COMPARE)
    def set_(ops: Operands, cmp: Function, dtype: PtxType, stype: PtxType, ftz: bool = False) -> Executor:
        return _bind_set(ops, _comparison(cmp, stype, ftz=ftz), dtype, stype, None)

    @operation(
        f"set.{{cmp}}.{{bool}}{flag}.{{dtype}}.{{stype}}",
        cmp=comparisons,
        bool=BOOLEANS,
        dtype=dtypes,
        stype=types,
        refs=COMPARE,
    )
    def set_bool(
        ops: Operands, cmp: Function, bool: Function, dtype: PtxType, stype: PtxType, ftz: bool = False
    ) -> Executor:
        return _bind_set(ops, _comparison(cmp, stype, ftz=ftz), dtype, stype, bool)


for _types, _comparisons, _has_ftz in _CLASSES:
    _register_set("u32 s32 f32", _types, _comparisons, has_ftz=_has_ftz)
_register_set("f16 u16 s16", "f16", FLOAT_COMPARISONS, has_ftz=True)
_register_set("bf16 u16 s16", "bf16", FLOAT_COMPARISONS, has_ftz=False)
_OF_CATEGORY = {"b": BIT_COMPARISONS, "s": SIGNED_COMPARISONS, "u": UNSIGNED_COMPARISONS, "f": FLOAT_COMPARISONS}
for _type in ("b16 b32 b64", "s16 s32 s64", "u16 u32 u64", "f32 f64"):
    _register_set("f16 bf16", _type, _OF_CATEGORY[_type[0]], has_ftz=_type[0] == "f")
_register_set("f16x2 u32 s32", "f16x2", FLOAT_COMPARISONS, has_ftz=True)
_register_set("bf16x2 u32 s32", "bf16x2", FLOAT_COMPARISONS, has_ftz=False)
