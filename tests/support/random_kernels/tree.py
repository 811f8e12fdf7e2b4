"""Program text as a tree: statements can be left out, conditions turned, before it is rendered."""

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(eq=False)
class Node:
    """A line, or lines between a head and a tail."""

    head: str = ""
    body: list["Node"] = field(default_factory=list)
    tail: str = ""
    turned: str | None = None
    """The head with its condition the other way round, where it has one."""
    needed: bool = False
    """Without it the program would not be valid."""


def render(node: Node, turned: frozenset[Node] = frozenset(), depth: int = 0) -> list[str]:
    """Lines of a tree; nodes in `turned` have the other condition."""
    head = node.turned if node in turned and node.turned is not None else node.head
    pad = "  " * depth
    inner = [line for child in node.body for line in render(child, turned, depth + 1)]
    return [*([pad + head] if head else []), *inner, *([pad + node.tail] if node.tail else [])]


def walk(node: Node) -> Iterator[Node]:
    """Every node below and including this one."""
    yield node
    for child in node.body:
        yield from walk(child)
