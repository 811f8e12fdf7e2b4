"""Splits a source into logical lines and `#if` blocks, and resolves the blocks that known names
decide.
"""

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TypeAlias

from cuda_llm.agents.kernel_text.tokens import Token, TokenKind, tokenise

_MAX = 2**63
_LITERAL = re.compile(r"(0[xX][\da-fA-F']+|0[bB][01']+|0[0-7']*|[1-9][\d']*)[lL]{0,2}")


def evaluate_condition(tokens: Sequence[str], values: Mapping[str, int]) -> bool | None:
    """Return whether the condition holds; None where it needs more than `values` and integers.

    It computes as the preprocessor does: 64-bit signed, C's precedence, division towards zero.
    Unsigned literals, overflow and a division by zero that counts are left to the preprocessor.
    """
    parser = _Parser(tokens, values)
    try:
        value = parser.conditional(live=True)
    except _UndecidableError:
        return None
    return bool(value) if parser.at_end else None


def _divide(dividend: int, divisor: int) -> int:
    if divisor == 0:
        raise _UndecidableError
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def _remainder(dividend: int, divisor: int) -> int:
    return dividend - divisor * _divide(dividend, divisor)


def _shift(by: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def shift(value: int, bits: int) -> int:
        if not 0 <= bits < 64:
            raise _UndecidableError
        return by(value, bits)

    return shift


_BINARY: Mapping[str, tuple[int, Callable[[int, int], int]]] = MappingProxyType(
    {
        "||": (1, lambda left, right: left or right),
        "&&": (2, lambda left, right: left and right),
        "|": (3, operator.or_),
        "^": (4, operator.xor),
        "&": (5, operator.and_),
        "==": (6, operator.eq),
        "!=": (6, operator.ne),
        "<": (7, operator.lt),
        "<=": (7, operator.le),
        ">": (7, operator.gt),
        ">=": (7, operator.ge),
        "<<": (8, _shift(operator.lshift)),
        ">>": (8, _shift(operator.rshift)),
        "+": (9, operator.add),
        "-": (9, operator.sub),
        "*": (10, operator.mul),
        "/": (10, _divide),
        "%": (10, _remainder),
    }
)
"""Precedence and function of each binary operator."""

_UNARY: Mapping[str, Callable[[int], int]] = MappingProxyType(
    {"-": operator.neg, "+": operator.pos, "~": operator.invert, "!": lambda value: not value}
)


class _UndecidableError(Exception):
    """The condition needs what is not known here."""


class _Parser:
    """Parses by precedence climbing. A part that is not `live` is parsed but not evaluated."""

    def __init__(self, tokens: Sequence[str], values: Mapping[str, int]) -> None:
        self._tokens = tokens
        self._values = values
        self._position = 0

    @property
    def at_end(self) -> bool:
        return self._position == len(self._tokens)

    def conditional(self, *, live: bool) -> int:
        condition = self._binary(1, live=live)
        if not self._taken("?"):
            return condition
        chosen = self.conditional(live=live and bool(condition))
        self._require(":")
        other = self.conditional(live=live and not condition)
        return chosen if condition else other

    def _binary(self, weakest: int, *, live: bool) -> int:
        left = self._unary(live=live)
        while self._peek() in _BINARY and _BINARY[self._peek()][0] >= weakest:
            sign = self._next()
            strength, compute = _BINARY[sign]
            matters = live and not (sign == "&&" and not left) and not (sign == "||" and left)
            right = self._binary(strength + 1, live=matters)
            if sign in ("&&", "||"):
                left = int(bool(compute(left, right)))
            else:
                left = _bounded(int(compute(left, right))) if live else 0
        return left

    def _unary(self, *, live: bool) -> int:
        token = self._next()
        if token in _UNARY:
            return _bounded(int(_UNARY[token](self._unary(live=live))))
        if token == "(":
            value = self.conditional(live=live)
            self._require(")")
            return value
        if token == "defined":
            return self._defined()
        if token in self._values:
            return self._values[token]
        literal = _LITERAL.fullmatch(token)
        if not literal:
            raise _UndecidableError
        digits = literal[1].replace("'", "")
        octal = digits.startswith("0") and digits.isdigit()
        return _bounded(int(digits, 8 if octal else 0))

    def _defined(self) -> int:
        bracketed = self._taken("(")
        if self._next() not in self._values:
            raise _UndecidableError
        if bracketed:
            self._require(")")
        return 1

    def _peek(self) -> str:
        return "" if self.at_end else self._tokens[self._position]

    def _next(self) -> str:
        token = self._peek()
        self._position += 1
        if not token:
            raise _UndecidableError
        return token

    def _taken(self, token: str) -> bool:
        found = self._peek() == token
        self._position += found
        return found

    def _require(self, token: str) -> None:
        if not self._taken(token):
            raise _UndecidableError


def _bounded(value: int) -> int:
    if not -_MAX <= value < _MAX:
        raise _UndecidableError
    return value


OPENING_DIRECTIVES = {"if", "ifdef", "ifndef"}
_FURTHER_DIRECTIVES = {"elif", "elifdef", "elifndef", "else"}


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
    def words(self) -> tuple[str, ...]:
        """Return its tokens without blanks."""
        return tuple(one.text for one in self.tokens if not one.is_blank)

    @cached_property
    def directive(self) -> str:
        """Return `if`, `define` ...; empty where the line is none of the preprocessor's."""
        words = self.words
        return words[1] if len(words) > 1 and words[0] == "#" else ""

    @cached_property
    def defines(self) -> str:
        """Return the name that a `#define` gives a meaning to; empty for any other line."""
        return self.words[2] if self.directive == "define" and len(self.words) > 2 else ""


@dataclass(frozen=True, kw_only=True)
class ConditionalBranch:
    """One condition of a block and the lines under it."""

    head: Line
    body: "tuple[Node, ...]"


@dataclass(frozen=True, kw_only=True)
class ConditionalBlock:
    """`#if` to `#endif`."""

    branches: tuple[ConditionalBranch, ...]
    end: Line


Node: TypeAlias = Line | ConditionalBlock


def split_lines(source: str) -> tuple[Line, ...]:
    """Return the logical lines of `source`."""
    lines, tokens = list[Line](), list[Token]()
    for token in tokenise(source):
        tokens.append(token)
        if token.kind == TokenKind.NEWLINE:
            lines.append(_line(source, tokens))
            tokens = []
    if tokens:
        lines.append(_line(source, tokens))
    return tuple(lines)


def build_tree(lines: Sequence[Line]) -> tuple[Node, ...]:
    """Group lines into `#if` blocks; return plain lines where `#if` and `#endif` do not match."""
    nodes, rest = _nodes(lines)
    return tuple(lines) if rest else nodes


def _line(source: str, tokens: Sequence[Token]) -> Line:
    start = tokens[0].start
    return Line(text=source[start : tokens[-1].end], tokens=tuple(tokens), start=start)


def _nodes(lines: Sequence[Line]) -> tuple[tuple[Node, ...], Sequence[Line]]:
    """Build nodes up to a line that belongs to an outer block; return the other lines too."""
    nodes = list[Node]()
    while lines and lines[0].directive not in _FURTHER_DIRECTIVES | {"endif"}:
        if lines[0].directive not in OPENING_DIRECTIVES:
            nodes.append(lines[0])
            lines = lines[1:]
            continue
        branches = list[ConditionalBranch]()
        while lines and lines[0].directive != "endif":
            body, rest = _nodes(lines[1:])
            branches.append(ConditionalBranch(head=lines[0], body=body))
            lines = rest
        if not lines:
            return tuple(nodes), [branches[0].head]
        nodes.append(ConditionalBlock(branches=tuple(branches), end=lines[0]))
        lines = lines[1:]
    return tuple(nodes), lines


def resolve(
    nodes: Sequence[Node], values: Mapping[str, int], known: dict[str, int]
) -> Iterator[Line]:
    """Yield the lines that stay; add each declaration it passes to `known`."""
    for node in nodes:
        if isinstance(node, Line):
            if node.defines in values:
                known[node.defines] = values[node.defines]
            yield node
            continue
        decisions = [_decide(branch.head, known) for branch in node.branches]
        if None in decisions:
            for branch in node.branches:
                yield branch.head
                yield from resolve(branch.body, values, known)
            yield node.end
        elif True in decisions:
            yield from resolve(node.branches[decisions.index(True)].body, values, known)


def _decide(head: Line, known: Mapping[str, int]) -> bool | None:
    words = head.words[2:]
    match head.directive:
        case "else":
            return True
        case "if" | "elif":
            return evaluate_condition(words, known)
        case "ifdef" | "ifndef" if len(words) == 1 and words[0] in known:
            return head.directive == "ifdef"
        case _:
            return None
