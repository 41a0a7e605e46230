"""Instructions that are refused say why, in a sentence of their own."""

import pytest

from umma_probe.errors import NotModelled
from umma_probe.model.code.decode import find_operation
from umma_probe.model.machine import Machine


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("multimem.ld_reduce.global.add.f32", "memory of several GPUs"),
        ("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", "name which chunk of A"),
        ("mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32", "elements of 4 bits"),
        ("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32", "a quarter of the warp"),
        ("cvt.rs.bf16x2.f32", "which random bits"),
        ("ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b4x16_p64", "4- and 6-bit"),
        ("alloca.u64", "one size"),
        ("vabsdiff4.u32.u32.u32.add", "SIMD"),
        ("tex.2d.v4.f32.f32", "textures"),
    ],
)
def test_the_reason_is_given(text: str, sentence: str) -> None:
    assert Machine  # its import loads every operation
    opcode, *words = text.split(".")
    with pytest.raises(NotModelled, match=sentence) as caught:
        find_operation(opcode, tuple(words))
    assert text in caught.value.message
    assert caught.value.ref


@pytest.mark.parametrize("text", ["mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", "vadd.u32.u32.u32"])
def test_their_neighbours_are_modelled(text: str) -> None:
    opcode, *words = text.split(".")
    find_operation(opcode, tuple(words))
