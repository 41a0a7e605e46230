"""PTX to NVIDIA's assembler: what it takes, what it refuses and in which words, and texts that cannot be asked."""

import pytest

from umma_probe.errors import ConfigError
from umma_probe.gpu.assemble import assemble


@pytest.mark.parametrize(
    ("text", "arch"),
    [
        ("tcgen05.mma.cta_group::1.kind::f16 [d], a, b, idesc, p;", "sm_100a"),
        ("tcgen05.mma.cta_group::1.kind::mxf4.block_scale.block32 [d], a, b, idesc, [sfa], [sfb], p;", "sm_103a"),
        ("mov.b32 w0, 1; add.u32 w7, w0, w0;", "sm_90a"),
    ],
)
def test_accepted(text: str, arch: str) -> None:
    answer = assemble(text, arch)
    assert (answer.accepted, answer.message) == (True, "")
    assert answer.assembler.startswith("NVRTC ")


@pytest.mark.parametrize(
    ("text", "arch", "part"),
    [
        ("tcgen05.shift.cta_group::1.down [taddr];", "sm_100f", "not supported on .target 'sm_100f'"),
        ("tcgen05.mma.cta_group::1.kind::f16 [d], a, b, idesc, p, 16;", "sm_100a", "value '16' out of range"),
        ("tcgen05.mma.cta_group::1.kind::f16 [d], a, b, idesc;", "sm_100a", "arguments"),
        ("tcgen05.shift.cta_group::1 [taddr];", "sm_100a", ".down modifier required"),
    ],
)
def test_refused_in_the_assemblers_words(text: str, arch: str, part: str) -> None:
    answer = assemble(text, arch)
    assert not answer.accepted
    assert part.lower() in answer.message.lower()
    assert "assembled.cu" not in answer.message
    assert "in the PTX" not in answer.message


@pytest.mark.parametrize("text", ["mov.b32 w0, 1", 'trap; "', "mov.b32 w0, %tid.x;", "trap;\ntrap;"])
def test_texts_that_cannot_stand_in_an_asm_statement(text: str) -> None:
    with pytest.raises(ConfigError, match="must be statements on one line"):
        assemble(text, "sm_100a")
