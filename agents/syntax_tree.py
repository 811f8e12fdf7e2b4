"""CUDA C++ as a syntax tree, by tree-sitter with its CUDA grammar.

The tree is of the text: no macro is expanded, both branches of an `#if` are in it, the body of a
`#define` is not. What does not parse is an `ERROR` node, and the rest of the tree is whole.
"""

import re
import time
from functools import cache

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser, Query, QueryCursor, Tree

LIMIT_S = 0.5
"""Processor time for one source. Valid code of 1 MB takes that long, random brackets of 30 kB."""
_CHUNK_BYTES = 1 << 16
_UNKNOWN = re.compile(rb"__(?:align|cluster_dims|maxnreg|block_size)__[ \t]*\([^();{}\n]*\)")
"""Attributes that the grammar does not know."""


class SyntaxTree:
    """The tree of one source."""

    def __init__(self, source: str) -> None:
        self._data = source.encode(errors="replace")
        self._tree = _parse(_UNKNOWN.sub(lambda found: b" " * len(found[0]), self._data))

    def find(self, query: str) -> dict[str, list[Node]]:
        """Return the nodes that a query of tree-sitter captures, in order, by the capture's name.

        The query tests no texts: tree-sitter's own predicates and `Node.text` read a source that is
        parsed under a limit one character a call, and crash where Python's stack is deep.
        """
        captured = QueryCursor(_query(query)).captures(self._tree.root_node)
        return {
            name: sorted(nodes, key=lambda node: node.start_byte)
            for name, nodes in captured.items()
        }

    def text(self, node: Node | None) -> str:
        """Return what a node spells; empty without a node."""
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
    parser, started_s = Parser(_language()), time.thread_time()
    try:
        return parser.parse(
            lambda offset, _: data[offset : offset + _CHUNK_BYTES],
            progress_callback=lambda _offset, _failed: time.thread_time() - started_s > LIMIT_S,
        )
    except ValueError:
        return Parser(_language()).parse(b"")


@cache
def _language() -> Language:
    return Language(tree_sitter_cuda.language())


@cache
def _query(text: str) -> Query:
    return Query(_language(), text)


def line_of(node: Node) -> int:
    """Return the line on which a node begins, from 1."""
    return node.start_point.row + 1


def last_line_of(node: Node) -> int:
    """Return the line on which a node ends, from 1."""
    return node.end_point.row + 1
