"""Operands against the declarations of their registers: what ptxas refuses is refused, with its place."""

import numpy as np
import pytest
from kernels import ptx, run_ptx

from umma_probe.errors import PtxSyntaxError


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("setp.gt.u32 %r1, %r2, 3;", "register %r1 is 32 bits wide, must be a predicate"),
        ("@%r1 mov.u32 %r2, 1;", "register %r1 is 32 bits wide, must be a predicate"),
        ("mov.pred %r1, %p0;", "register %r1 is 32 bits wide, must be a predicate"),
        ("vote.sync.ballot.b32 %r1, %r2, -1;", "register %r2 is 32 bits wide, must be a predicate"),
        ("selp.b32 %r1, 1, 2, %r2;", "register %r2 is 32 bits wide, must be a predicate"),
        ("mov.u32 %p0, 1;", "register %p0 is a predicate, must be of type .u32"),
        ("xor.b32 %r1, %p0, 1;", "register %p0 is a predicate, must be of type .b32"),
        ("mul.wide.u32 %r1, %r2, %r2;", "register %r1 is 32 bits wide, must be of type .u64"),
        (".shared .pred flag;", "flag: type is .pred in .shared, must be a type of memory"),
        ("cvt.u32.u64 %r1, %r2;", "register %r2 is 32 bits wide, must be of type .u64"),
    ],
)
def test_a_register_of_the_wrong_kind_or_too_narrow(line: str, says: str) -> None:
    with pytest.raises(PtxSyntaxError) as caught:
        run_ptx(ptx(line), np.zeros(32, np.uint32))
    assert says in caught.value.message
    assert caught.value.where is not None
    assert caught.value.where.line > 0


def test_a_wider_register_is_allowed() -> None:
    out = run_ptx(ptx("ld.global.u8 %r1, [%mine]; st.global.u32 [%mine], %r1;"), np.full(32, 0x1FE, np.uint32))
    assert out.words.tolist() == [0xFE] * 32
