"""PTX text to tokens, and the cursor that the parser moves over them.

A token is its text: the first character tells its kind, so no kind is stored.

* A word may hold dots and ``::``: an opcode with its modifiers, ``%tid.x`` and ``cta_group::2`` stay whole.
* A token that starts with a dot ends at the next dot: ``.reg.pred`` is two tokens, as ``.reg .pred``.
* ``//`` and ``/* */`` comments and all white space separate tokens; line ends have no meaning of their own.
* The last token is the empty string; it stands at the end of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from umma_probe.errors import PtxSyntaxError, Where
from umma_probe.ptx.nodes import Pos

_TOKEN = re.compile(
    r"""
    (?: \s+ | //[^\n]* | /\*(?s:.*?)\*/ )*+              # what separates tokens
    (?:
      ( [A-Za-z_$%][\w$]*+ (?: (?: \. | :: ) [\w$]++ )*+ # word, opcode, register, symbol
      | \.\d+ (?: [eE][+-]?\d+ )? (?! [\w$.:] )          # .5, but not .32x32b
      | \.[\w$]++ (?: :: [\w$]++ )*+                     # directive, type, state space, modifier
      | \d+\.\d* (?: [eE][+-]?\d+ )?                     # 1.5e-3
      | \d+[eE][+-]?\d+ (?! [\w$] )                      # 1e9
      | \d\w*                                            # 12, 0x1F, 0f3F800000, 7U
      | "(?: [^"\\\n] | \\. )*"
      | @@ | << | >> | <= | >= | == | != | && | \|\|
      | /(?!\*) | [{}()\[\],;:+\-*<>=!~&|^?@]
      )
    | \Z
    | (.)                                                # anything else is an error
    )
    """,
    re.VERBOSE | re.ASCII,
)
_WORD = re.compile(r"[A-Za-z_$%][\w$]*", re.ASCII)


class TokenStream:
    """All tokens of a text and a cursor.

    ``texts`` and ``starts`` run in parallel (text of a token, offset of its first character);
    ``index`` is the cursor. They are public because the parser's hot paths read them directly.

    :raises PtxSyntaxError: a character that starts no token, an open comment or an open string.
    """

    __slots__ = ("_line_starts", "file", "index", "source", "starts", "texts")

    def __init__(self, source: str, file: str = "<ptx>") -> None:
        self.source = source
        self.file = file
        self.index = 0
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", source))]
        self.texts: list[str] = []
        self.starts: list[int] = []
        self._scan()

    def _scan(self) -> None:
        add_text, add_start = self.texts.append, self.starts.append
        for match in _TOKEN.finditer(self.source):
            if match.lastindex == 1:
                add_text(match[1])
                add_start(match.start(1))
            elif match.lastindex == 2:
                raise self._bad_character(match.start(2))
        add_text("")
        add_start(len(self.source))

    def _bad_character(self, offset: int) -> PtxSyntaxError:
        char = self.source[offset]
        if char == "/":
            message = "the comment that starts here is never closed"
        elif char == '"':
            message = "the string that starts here is never closed on its line"
        else:
            message = f"unexpected character {char!r}"
        return PtxSyntaxError(message, where=self._where(offset))

    # ------------------------------------------------------------------ places
    def _line_column(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def _where(self, offset: int) -> Where:
        line, column = self._line_column(offset)
        start = self._line_starts[line - 1]
        end = self.source.find("\n", start)
        text = self.source[start : end if end >= 0 else None].rstrip("\r")
        return Where(self.file, line, column, text)

    def position(self, index: int | None = None) -> Pos:
        """Line and column of a token; of the cursor's, if no index is given."""
        offset = self.starts[self.index if index is None else index]
        line = bisect_right(self._line_starts, offset)
        return Pos(line, offset - self._line_starts[line - 1] + 1)

    def error(self, message: str, index: int | None = None, hint: str = "") -> PtxSyntaxError:
        """An error that points at a token; at the cursor's, if no index is given."""
        offset = self.starts[self.index if index is None else index]
        return PtxSyntaxError(message, where=self._where(offset), hint=hint)

    def expected(self, what: str) -> PtxSyntaxError:
        """An error that says what should stand at the cursor and what does."""
        found = self.texts[self.index]
        shown = f"'{found if len(found) <= 40 else found[:37] + '...'}'" if found else "the end of the text"
        return self.error(f"expected {what}, found {shown}")

    # ------------------------------------------------------------------ the cursor
    @property
    def head(self) -> str:
        """The token at the cursor; empty at the end of the text."""
        return self.texts[self.index]

    @property
    def following(self) -> str:
        """The token after the cursor's; empty at the end of the text."""
        index = self.index + 1
        return self.texts[index] if index < len(self.texts) else ""

    def take(self) -> str:
        """The token at the cursor, which moves on; the end of the text is never passed."""
        text = self.texts[self.index]
        if text:
            self.index += 1
        return text

    def accept(self, text: str) -> bool:
        """Whether the cursor stood at that token; if so, it is taken."""
        if self.texts[self.index] != text:
            return False
        self.index += 1
        return True

    def expect(self, text: str, after: str = "") -> None:
        """Takes that token.

        :raises PtxSyntaxError: another one is there.
        """
        if self.texts[self.index] != text:
            raise self.expected(f"'{text}' {after}".rstrip())
        self.index += 1

    def expect_name(self, what: str) -> str:
        """Takes an identifier without dots.

        :raises PtxSyntaxError: something else is there.
        """
        text = self.texts[self.index]
        if not _WORD.fullmatch(text):
            raise self.expected(what)
        self.index += 1
        return text
