"""CUDA C++ source as preprocessing tokens and logical lines, and what tokens alone show of it.

The tokens make up the whole source, character for character, whatever the text is: kernels are
rewritten, compared and hashed by them. All of it takes time linear in the length of the source.
"""

import hashlib
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import NamedTuple

_CONTINUATION = re.compile(r"\\[ \t\f\v]*(?:\r\n|\n|\r)")
_RAW_PREFIX = r'(?:u8|[uUL])?R"'
_RAW_STRING = re.compile(_RAW_PREFIX + r"([^()\\\s\"]{0,16})\((?s:.)*?\)\1\"")
_HEADER = re.compile(r"<[^>\n\r]*>")
_PLAIN = r"""
    (?P<newline>\r\n|\n|\r)
  | (?P<space>[^\S\n\r]+)
  | (?P<comment>//[^\n\r]*|/\*(?s:.)*?(?:\*/|\Z))
  | (?P<literal>(?:u8|[uUL])?(?:"(?:[^"\\\n\r]|\\[^\n\r])*"|'(?:[^'\\\n\r]|\\[^\n\r])*'))
  | (?P<name>[^\W\d][\w$]*|\$[\w$]*)
  | (?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)
  | (?P<punctuator><<<|>>>|<=>|<<=|>>=|\.\.\.|->\*|::|->|\.\*|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||\#\#
      |[-+*/%&|^]=|(?s:.))
    """
_TOKEN = re.compile(rf"(?P<raw>{_RAW_PREFIX}) | {_PLAIN}", re.VERBOSE)
_NOT_RAW = re.compile(_PLAIN, re.VERBOSE)
_LAUNCH = re.compile(r"\b([A-Za-z_]\w*)\s*(?:<[^<>;{}\n]{0,200}>)?\s*<<<")


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


class Token(NamedTuple):
    """One piece of source."""

    kind: TokenKind
    text: str
    """Without line continuations."""
    start: int
    """Where the token begins in the source as written."""
    end: int
    """Behind the token's last character."""

    @property
    def is_blank(self) -> bool:
        """Return whether the compiler sees nothing but white space here."""
        return self.kind in _BLANK


_BLANK = frozenset({TokenKind.SPACE, TokenKind.COMMENT, TokenKind.NEWLINE})
_KINDS = {kind.value: kind for kind in TokenKind}


def tokenise(source: str) -> Iterator[Token]:
    """Return the preprocessing tokens of `source`, blanks too, in order.

    Never fails: a stray character is a punctuator. Trigraphs are not known, as they are not to
    C++17. `<<<` and `>>>` are one punctuator, as in CUDA.
    """
    text, origins = _join_lines(source)
    position = 0
    include = ("#", "include")
    seen = 0  # How many words of `include` the line begins with; more than two: another line.
    if origins[0] > 0:  # The source begins with a continuation.
        yield Token(TokenKind.SPACE, "", 0, origins[0])
    while position < len(text):
        start = origins[position]
        header = _HEADER.match(text, position) if seen == 2 else None
        found = header or _TOKEN.match(text, position)
        assert found, "the last alternative matches any character"
        if found.lastgroup == "raw":
            raw = _RAW_STRING.match(source, start)
            if raw:
                position = bisect_left(origins, raw.end())
                yield Token(TokenKind.LITERAL, raw[0], start, origins[position])
                seen = 3
                continue
            found = _NOT_RAW.match(text, position)
            assert found, "the last alternative matches any character"
        kind = TokenKind.HEADER if header else _KINDS[found.lastgroup or "punctuator"]
        position = found.end()
        token = Token(kind, found[0], start, origins[position])
        yield token
        if kind == TokenKind.NEWLINE:
            seen = 0
        elif seen < 3 and kind not in _BLANK:
            seen = seen + 1 if seen < 2 and token.text == include[seen] else 3


def _join_lines(source: str) -> tuple[str, Sequence[int]]:
    """Return `source` without line continuations, and where each character comes from."""
    pieces, origins, position = list[str](), list[int](), 0
    for gap in _CONTINUATION.finditer(source):
        pieces.append(source[position : gap.start()])
        origins.extend(range(position, gap.start()))
        position = gap.end()
    if not pieces:
        return source, range(len(source) + 1)
    pieces.append(source[position:])
    origins.extend(range(position, len(source) + 1))
    return "".join(pieces), origins


@dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """One logical line; lines joined by a backslash, a comment or a raw string are one."""

    text: str
    """As written, with its end."""
    tokens: tuple[Token, ...]
    """Blanks too."""
    start: int
    """Where `text` begins in the source."""

    @cached_property
    def code(self) -> tuple[Token, ...]:
        """Return the tokens without blanks."""
        return tuple(one for one in self.tokens if not one.is_blank)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Return the texts of the tokens without blanks."""
        return tuple(one.text for one in self.code)

    @cached_property
    def directive(self) -> str:
        """Return `if`, `define` ...; empty where the line is none of the preprocessor's."""
        words = self.words
        return words[1] if len(words) > 1 and words[0] == "#" else ""

    @cached_property
    def defines(self) -> str:
        """Return the name that a `#define` gives a meaning to; empty for any other line."""
        return self.words[2] if self.directive == "define" and len(self.words) > 2 else ""


def split_lines(source: str) -> Iterator[Line]:
    """Return the logical lines of `source`."""
    tokens = list[Token]()
    for token in tokenise(source):
        tokens.append(token)
        if token.kind == TokenKind.NEWLINE:
            yield _line(source, tokens)
            tokens = []
    if tokens:
        yield _line(source, tokens)


def _line(source: str, tokens: Sequence[Token]) -> Line:
    start = tokens[0].start
    return Line(text=source[start : tokens[-1].end], tokens=tuple(tokens), start=start)


def blank_comments(source: str) -> str:
    """Return `source` with comments blanked, lines and strings kept: inline PTX is a string."""
    return _blank(source, {TokenKind.COMMENT})


@lru_cache(maxsize=16)
def blank_strings(source: str) -> str:
    """Return `source` with comments and strings blanked, lines kept."""
    return _blank(source, {TokenKind.COMMENT, TokenKind.LITERAL})


def _blank(source: str, kinds: set[TokenKind]) -> str:
    return "".join(
        _gap(source, one) if one.kind in kinds else source[one.start : one.end]
        for one in tokenise(source)
    )


def _gap(source: str, token: Token) -> str:
    quotes = '""' if token.kind == TokenKind.LITERAL else " "
    return quotes + "\n" * source.count("\n", token.start, token.end)


def identifiers(source: str) -> frozenset[str]:
    """Return every name in the code."""
    return frozenset(one.text for one in tokenise(source) if one.kind == TokenKind.NAME)


def is_balanced(source: str) -> bool:
    """Return whether all braces and parentheses are closed: a file cut short rarely has that."""
    count = Counter(one.text for one in tokenise(source))
    return count["{"] == count["}"] and count["("] == count[")"]


def defines_solve(source: str) -> bool:
    """Return whether a function `solve` is defined, not only declared or called."""
    return "solve" in functions_defined(source)


def functions_defined(source: str) -> frozenset[str]:
    """Return the names whose parameters a body follows: functions, and keywords such as `if`."""
    return frozenset(name for name, _ in _heads(source))


def kernels_defined(source: str) -> tuple[str, ...]:
    """Return the names of the `__global__` functions that have a body, in order, each once."""
    return tuple(dict.fromkeys(name for name, is_kernel in _heads(source) if is_kernel))


def kernels_launched(source: str) -> frozenset[str]:
    """Return the names in front of `<<<`."""
    return frozenset(match[1] for match in _LAUNCH.finditer(blank_strings(source)))


def _heads(source: str) -> Iterator[tuple[str, bool]]:
    """Yield each name whose parameters a body follows, and whether `__global__` is before it."""
    code = [one for one in tokenise(source) if not one.is_blank]
    opened, is_kernel = list[int](), False
    for at, token in enumerate(code[:-1]):
        if token.text == "(":
            opened.append(at)
        elif token.text == ")" and opened:
            name = code[max(opened.pop() - 1, 0)]
            if name.kind == TokenKind.NAME and code[at + 1].text in ("{", "noexcept"):
                yield name.text, is_kernel
        elif token.text == "__global__":
            is_kernel = True
        elif token.text in (";", "{", "}"):
            is_kernel = False


@lru_cache(maxsize=256)
def normal_sha(source: str) -> str:
    """Return the hash of `source` without comments and layout.

    Layout that means something is kept: where a preprocessor line begins and ends, and the gap
    between the name and the body of `#define F (x)`. Empty for a source without any token.
    """
    digest = hashlib.blake2b(digest_size=16)
    empty = True
    for part in _parts(source):
        encoded = part.encode(errors="surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
        empty = False
    return "" if empty else digest.hexdigest()


def _parts(source: str) -> Iterator[str]:
    for line in split_lines(source):
        is_directive = line.words[:1] == ("#",)
        if is_directive:
            yield "\n"
        for at, token in enumerate(line.code):
            if at == 3 and token.text == "(" and line.defines:
                yield " " if line.code[2].end < token.start else ""
            yield token.text
        if is_directive:
            yield "\n"
