"""The `#if` blocks of a source: which lines belong to each, and which stay where names are known.

The lines come from the tokens, so that what stays is written exactly as it was; a condition is
parsed by tree-sitter.
"""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from tree_sitter import Node

from cuda_llm.agents.syntax_tree import SyntaxTree
from cuda_llm.source_tokens import Line

_MAX = 2**63
MOST_DEPTH = 100
"""Operators within each other; a condition that nests deeper is left to the preprocessor."""

_UNARY: Mapping[str, Callable[[int], int]] = MappingProxyType(
    {"-": operator.neg, "+": operator.pos, "~": operator.invert, "!": operator.not_}
)
OPENING_DIRECTIVES = {"if", "ifdef", "ifndef"}
_FURTHER_DIRECTIVES = {"elif", "elifdef", "elifndef", "else"}


class _UndecidableError(Exception):
    """The condition needs more than known names and integers."""


def evaluate_condition(text: str, values: Mapping[str, int]) -> bool | None:
    """Return whether the condition of an `#if` holds; None where it needs more than `values`.

    It computes as the preprocessor does: 64-bit signed, division towards zero. `?:`, unsigned
    literals, overflow and a division by zero that counts are left to the preprocessor.
    """
    tree = SyntaxTree(f"#if {text}\n#endif\n")
    nodes = list(tree.nodes())
    blocks = (one for one in nodes if one.type == "preproc_if")
    condition = next((one.child_by_field_name("condition") for one in blocks), None)
    names = {tree.text(one) for one in nodes if one.type == "identifier"}
    if tree.has_error or condition is None or not names <= values.keys():
        return None
    try:
        return bool(_Condition(tree, values).value(condition, MOST_DEPTH))
    except _UndecidableError:
        return None


@dataclass(frozen=True)
class _Condition:
    """An expression of integers and names that `values` knows."""

    tree: SyntaxTree
    values: Mapping[str, int]

    def value(self, node: Node, depth: int) -> int:
        """Return the value of a part of the expression, at most `depth` operators deep."""
        if depth == 0:
            raise _UndecidableError
        parts = (one for one in node.named_children if one.type != "comment")
        operands = (self.value(one, depth - 1) for one in parts)
        match node.type, self.tree.text(node.child_by_field_name("operator")):
            case "parenthesized_expression", _:
                return next(operands)
            case "number_literal", _:
                return _bounded(_integer(self.tree.text(node)))
            case "identifier", _:
                return self.values[self.tree.text(node)]
            case "preproc_defined", _:
                return 1
            case "unary_expression", sign if sign in _UNARY:
                return _bounded(int(_UNARY[sign](next(operands))))
            case "binary_expression", "&&":
                return int(all(operands))
            case "binary_expression", "||":
                return int(any(operands))
            case "binary_expression", sign if sign in _BINARY:
                return _bounded(int(_BINARY[sign](next(operands), next(operands))))
        raise _UndecidableError


def _integer(literal: str) -> int:
    digits = literal.replace("'", "").lower().rstrip("l")
    octal = len(digits) > 1 and digits.startswith("0") and digits.isdigit()
    try:
        return int(digits, 8 if octal else 0)
    except ValueError:
        raise _UndecidableError from None


def _bounded(value: int) -> int:
    if not -_MAX <= value < _MAX:
        raise _UndecidableError
    return value


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


_BINARY: Mapping[str, Callable[[int, int], int]] = MappingProxyType(
    {
        "|": operator.or_,
        "^": operator.xor,
        "&": operator.and_,
        "==": operator.eq,
        "!=": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
        "<<": _shift(operator.lshift),
        ">>": _shift(operator.rshift),
        "+": operator.add,
        "-": operator.sub,
        "*": operator.mul,
        "/": _divide,
        "%": _remainder,
    }
)


@dataclass(frozen=True, kw_only=True)
class ConditionalBranch:
    """One condition of a block and the lines under it."""

    head: Line
    body: "tuple[Piece, ...]"


@dataclass(frozen=True, kw_only=True)
class ConditionalBlock:
    """A conditional of the preprocessor, from `#if` to `#endif`, with its branches."""

    branches: tuple[ConditionalBranch, ...]
    end: Line


Piece: TypeAlias = Line | ConditionalBlock


def build_tree(lines: Sequence[Line]) -> tuple[Piece, ...]:
    """Group lines into `#if` blocks; return plain lines where `#if` and `#endif` do not match."""
    nodes, rest = _nodes(lines)
    return tuple(lines) if rest else nodes


def _nodes(lines: Sequence[Line]) -> tuple[tuple[Piece, ...], Sequence[Line]]:
    """Build nodes up to a line that belongs to an outer block; return the other lines too."""
    nodes = list[Piece]()
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
    nodes: Sequence[Piece], values: Mapping[str, int], known: dict[str, int]
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
            return evaluate_condition(" ".join(words), known)
        case "ifdef" | "ifndef" if len(words) == 1 and words[0] in known:
            return head.directive == "ifdef"
        case _:
            return None
