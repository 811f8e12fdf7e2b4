"""Rows of shared tiles made longer, so that a column lies in different banks."""

from tree_sitter import Node

from cuda_llm.agents.rewrites.block_extents import Edits
from cuda_llm.agents.rewrites.kernel_source import below, read_kernels

PADDINGS = (1, 4)


def padded_tiles(text: str, value: int) -> str | None:
    """Return the source with `value` more elements in each row of a shared array of two or more
    extents."""
    source = read_kernels(text)
    edits: Edits = {}
    for kernel in source.kernels:
        for one in below(kernel.body):
            if one.type != "declaration" or "__shared__" not in source.text(one):
                continue
            for array in one.children_by_field_name("declarator"):
                row = _row(array)
                if row is not None and row.type in ("number_literal", "identifier"):
                    edits[row.end_byte, row.end_byte] = f" + {value}"
    return source.edited(edits) if edits else None


def _row(array: Node) -> Node | None:
    """Return the last extent of an array of several extents."""
    inner = array.child_by_field_name("declarator")
    if array.type != "array_declarator" or inner is None or inner.type != "array_declarator":
        return None
    return array.child_by_field_name("size")
