from __future__ import annotations

import pytest

from umma_probe.errors import PtxSyntaxError
from umma_probe.ptx.lexer import TokenStream
from umma_probe.ptx.nodes import Pos


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("tcgen05.wait::ld.sync.aligned;", ["tcgen05.wait::ld.sync.aligned", ";"]),
        ("tcgen05.ld.sync.aligned.32x32b.x1.b32{%r1},[%r2];",
         ["tcgen05.ld.sync.aligned.32x32b.x1.b32", "{", "%r1", "}", ",", "[", "%r2", "]", ";"]),
        (".reg.pred p;", [".reg", ".pred", "p", ";"]),
        (".shared::cta .32x32b", [".shared::cta", ".32x32b"]),
        ("%tid.x|%p1 @!%p @ !p", ["%tid.x", "|", "%p1", "@", "!", "%p", "@", "!", "p"]),
        ("[%rd1+-8]", ["[", "%rd1", "+", "-", "8", "]"]),
        (".reg .b32 %r<5>;", [".reg", ".b32", "%r", "<", "5", ">", ";"]),
        ("0f3F800000 0d3FF0000000000000 1.5e-3 .5 1. 7U 0x1F",
         ["0f3F800000", "0d3FF0000000000000", "1.5e-3", ".5", "1.", "7U", "0x1F"]),
        ("a//x\nb/*y\n*/c/**/d", ["a", "b", "c", "d"]),
        ("L1:L2: $L__x", ["L1", ":", "L2", ":", "$L__x"]),
        ("1<<3>>2 a<=b!=c&&d||e", ["1", "<<", "3", ">>", "2", "a", "<=", "b", "!=", "c", "&&", "d", "||", "e"]),
        ('.file 1 "a // b \\" c"', [".file", "1", '"a // b \\" c"']),
        ("@@DWARF", ["@@", "DWARF"]),
    ],
)  # fmt: skip
def test_tokens(text: str, tokens: list[str]) -> None:
    assert TokenStream(text).texts == [*tokens, ""]


def test_positions_count_tabs_and_comment_lines() -> None:
    stream = TokenStream("a\n\t/* x\n y */ b\r\n\tc // z\nd")
    assert [stream.position(i) for i in range(5)] == [Pos(1, 1), Pos(3, 7), Pos(4, 2), Pos(5, 1), Pos(5, 2)]


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("ab\n  #", 2, 3, "unexpected character '#'"),
        ("x /* y", 1, 3, "the comment that starts here is never closed"),
        ('\n\t"abc\n"', 2, 2, "the string that starts here is never closed on its line"),
        ("a é", 1, 3, "unexpected character 'é'"),
        ("a\x00", 1, 2, "unexpected character '\\x00'"),
    ],
)
def test_bad_characters(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(PtxSyntaxError) as caught:
        TokenStream(text, "f.ptx")
    where = caught.value.where
    assert where is not None
    assert (where.file, where.line, where.column) == ("f.ptx", line, column)
    assert caught.value.message == message


def test_end_of_text_is_never_passed() -> None:
    stream = TokenStream("a")
    assert [stream.take(), stream.take(), stream.take(), stream.head, stream.following] == ["a", "", "", "", ""]
