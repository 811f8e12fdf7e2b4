"""Splits a source into logical lines, and builds a tree of its `#if` blocks."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from cuda_llm.agents.kernel_text.tokens import Token, TokenKind, tokenise

_OPENING = {"if", "ifdef", "ifndef"}
_FURTHER = {"elif", "elifdef", "elifndef", "else"}


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
        """Its tokens without blanks."""
        return tuple(one.text for one in self.tokens if not one.is_blank)

    @cached_property
    def directive(self) -> str:
        """`if`, `define` ...; empty where the line is none of the preprocessor's."""
        words = self.words
        return words[1] if len(words) > 1 and words[0] == "#" else ""

    @cached_property
    def defines(self) -> str:
        """The name that a `#define` gives a meaning to; empty for any other line."""
        return self.words[2] if self.directive == "define" and len(self.words) > 2 else ""


@dataclass(frozen=True, kw_only=True)
class Branch:
    """One condition of a block and the lines under it."""

    head: Line
    body: "tuple[Node, ...]"


@dataclass(frozen=True, kw_only=True)
class Block:
    """`#if` to `#endif`."""

    branches: tuple[Branch, ...]
    end: Line

    def lines(self) -> tuple[Line, ...]:
        """Returns all lines of the block, in order."""
        inside = [line for one in self.branches for line in (one.head, *lines_of(one.body))]
        return (*inside, self.end)


Node: TypeAlias = Line | Block


def lines_of(nodes: Sequence[Node]) -> tuple[Line, ...]:
    """Returns every line below `nodes`, in order."""
    return tuple(
        line for node in nodes for line in (node.lines() if isinstance(node, Block) else (node,))
    )


def split_lines(source: str) -> tuple[Line, ...]:
    """Returns the logical lines of `source`."""
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
    """Groups lines into `#if` blocks; returns plain lines where `#if` and `#endif` do not match."""
    nodes, rest = _nodes(lines)
    return tuple(lines) if rest else nodes


def _line(source: str, tokens: Sequence[Token]) -> Line:
    start = tokens[0].start
    return Line(text=source[start : tokens[-1].end], tokens=tuple(tokens), start=start)


def _nodes(lines: Sequence[Line]) -> tuple[tuple[Node, ...], Sequence[Line]]:
    """Builds nodes up to a line that belongs to an outer block; returns the other lines too."""
    nodes = list[Node]()
    while lines and lines[0].directive not in _FURTHER | {"endif"}:
        if lines[0].directive not in _OPENING:
            nodes.append(lines[0])
            lines = lines[1:]
            continue
        branches = list[Branch]()
        while lines and lines[0].directive != "endif":
            body, rest = _nodes(lines[1:])
            branches.append(Branch(head=lines[0], body=body))
            lines = rest
        if not lines:
            return tuple(nodes), [branches[0].head]
        nodes.append(Block(branches=tuple(branches), end=lines[0]))
        lines = lines[1:]
    return tuple(nodes), lines
