"""C++ source as preprocessing tokens, and with its comments and strings blanked out."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple


class TokenKind(StrEnum):
    """What a piece of source is."""

    SPACE = "space"
    COMMENT = "comment"
    NEWLINE = "newline"
    NAME = "name"
    NUMBER = "number"
    LITERAL = "literal"
    """A string or character literal."""
    HEADER = "header"
    """`<cuda_fp16.h>` behind `#include`."""
    PUNCTUATOR = "punctuator"
    """An operator, a punctuator or a stray character."""


_BLANK = frozenset({TokenKind.SPACE, TokenKind.COMMENT, TokenKind.NEWLINE})
_KINDS = {kind.value: kind for kind in TokenKind}


class Token(NamedTuple):
    """One piece of source. All pieces in order make up the source."""

    kind: TokenKind
    text: str
    """Without line continuations."""
    start: int
    """Where it begins in the source as written."""
    end: int
    """Behind its last character."""

    @property
    def is_blank(self) -> bool:
        """Return whether the compiler sees nothing but white space here."""
        return self.kind in _BLANK


_CONTINUATION = re.compile(r"\\[ \t\f\v]*(?:\r\n|\n|\r)")
_RAW_PREFIX = re.compile(r'(?:u8|u|U|L)?R"')
_RAW_STRING = re.compile(r'(?:u8|u|U|L)?R"([^()\\\s"]{0,16})\((?s:.)*?\)\1"')
_HEADER = re.compile(r"<[^>\n\r]*>")
_TOKEN = re.compile(
    r"""
    (?P<newline>\r\n|\n|\r)
  | (?P<space>[^\S\n\r]+)
  | (?P<comment>//[^\n\r]*|/\*(?s:.)*?(?:\*/|\Z))
  | (?P<literal>(?:u8|[uUL])?(?:"(?:[^"\\\n\r]|\\[^\n\r])*"|'(?:[^'\\\n\r]|\\[^\n\r])*'))
  | (?P<name>[^\W\d][\w$]*|\$[\w$]*)
  | (?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)
  | (?P<punctuator><<<|>>>|<=>|<<=|>>=|\.\.\.|->\*|::|->|\.\*|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||\#\#
      |[-+*/%&|^]=|(?s:.))
    """,
    re.VERBOSE,
)


def tokenise(source: str) -> Iterator[Token]:
    """Return the preprocessing tokens of `source`, blanks too, in order.

    Never fails: a stray character is a punctuator. Trigraphs are not known, as they are not to
    C++17. `<<<` and `>>>` are one punctuator, as in CUDA.
    """
    text, origins = _join_lines(source)
    position = 0
    seen: list[str] = []
    if origins[0] > 0:  # The source begins with a continuation.
        yield Token(TokenKind.SPACE, "", 0, origins[0])
    while position < len(text):
        start = origins[position]
        raw = _RAW_PREFIX.match(text, position) and _RAW_STRING.match(source, start)
        if raw:
            position = bisect_left(origins, raw.end())
            token = Token(TokenKind.LITERAL, raw[0], start, origins[position])
        else:
            header = seen == ["#", "include"] and _HEADER.match(text, position)
            found = header or _TOKEN.match(text, position)
            assert found, "the last alternative matches any character"
            kind = TokenKind.HEADER if header else _KINDS[found.lastgroup or "punctuator"]
            position = found.end()
            token = Token(kind, found[0], start, origins[position])
        yield token
        if token.kind == TokenKind.NEWLINE:
            seen = []
        elif not token.is_blank and len(seen) < 3:
            seen.append(token.text)


def _join_lines(source: str) -> tuple[str, list[int]]:
    """Return `source` without line continuations, and where each character comes from."""
    pieces, origins, position = list[str](), list[int](), 0
    for gap in _CONTINUATION.finditer(source):
        pieces.append(source[position : gap.start()])
        origins.extend(range(position, gap.start()))
        position = gap.end()
    pieces.append(source[position:])
    origins.extend(range(position, len(source) + 1))
    return "".join(pieces), origins


def blank_comments(source: str) -> str:
    """Return `source` with comments blanked, lines and strings kept: inline PTX is a string."""
    return _blank(source, {TokenKind.COMMENT})


@lru_cache(maxsize=16)
def blank_strings(source: str) -> str:
    """Return `source` with comments and strings blanked: what they hold is no code."""
    return _blank(source, {TokenKind.COMMENT, TokenKind.LITERAL})


def _blank(source: str, kinds: set[TokenKind]) -> str:
    return "".join(
        _gap(source, one) if one.kind in kinds else source[one.start : one.end]
        for one in tokenise(source)
    )


def _gap(source: str, token: Token) -> str:
    quotes = '""' if token.kind == TokenKind.LITERAL else " "
    return quotes + "\n" * source.count("\n", token.start, token.end)
