"""CUDA C++ as a syntax tree, by tree-sitter with its CUDA grammar.

The tree is of the text: no macro is expanded, both branches of an `#if` are in it, the body of a
`#define` is not. What does not parse is an `ERROR` node, and the rest of the tree is whole.
"""

import re
import time
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser, Tree

LIMIT_S = 0.5
"""Processor time for the tree of one source, and for one walk through it.

Valid code of 1 MB takes that long to parse, and random brackets of 30 kB.
"""
_CHUNK_BYTES = 1 << 16
_STEPS = 1000
"""Nodes between two looks at the clock."""
_UNKNOWN = re.compile(rb"__(?:align|cluster_dims|maxnreg|block_size)__[ \t]*\([^();{}\n]*\)")
"""Attributes that the grammar does not know."""


class SyntaxTree:
    """The tree of one source."""

    def __init__(self, source: str) -> None:
        self._data = source.encode(errors="replace")
        self._tree = _parse(_UNKNOWN.sub(lambda found: b" " * len(found[0]), self._data))

    def nodes(self) -> Iterator[Node]:
        """Yield the nodes in the order of the source, as many as are reached within `LIMIT_S`.

        By steps of our own: queries of tree-sitter take quadratic time for a row of brackets, and
        crash where they are given a callback to stop them.
        """
        cursor, is_late = self._tree.walk(), _past_limit()
        for step in count():
            if cursor.node is not None:
                yield cursor.node
            if cursor.goto_first_child():
                continue
            while not cursor.goto_next_sibling():
                if not cursor.goto_parent():
                    return
            if step % _STEPS == 0 and is_late():
                return

    def text(self, node: Node | None) -> str:
        """Return what a node spells; empty without a node.

        `Node.text` reads a source that is parsed under a limit one character a call, and crashes
        where Python's stack is deep.
        """
        return self.between(node.start_byte, node.end_byte) if node else ""

    def between(self, start_byte: int, end_byte: int) -> str:
        """Return the source from one byte to another."""
        return self._data[start_byte:end_byte].decode(errors="replace")

    @property
    def has_error(self) -> bool:
        """Return whether a part of the source did not parse."""
        return self._tree.root_node.has_error


def _parse(data: bytes) -> Tree:
    """Return the tree, which is empty where `data` takes more than `LIMIT_S`."""
    try:
        return Parser(_language()).parse(
            lambda offset, _: data[offset : offset + _CHUNK_BYTES],
            progress_callback=_past_limit(),
        )
    except ValueError:
        return Parser(_language()).parse(b"")


def _past_limit() -> Callable[..., bool]:
    """Return the function by which tree-sitter asks, every few hundred steps, whether to stop."""
    started_s = time.thread_time()
    return lambda *_: time.thread_time() - started_s > LIMIT_S


@cache
def _language() -> Language:
    return Language(tree_sitter_cuda.language())


def line_of(node: Node) -> int:
    """Return the line on which a node begins, from 1."""
    return node.start_point.row + 1


def last_line_of(node: Node) -> int:
    """Return the line on which a node ends, from 1."""
    return node.end_point.row + 1
