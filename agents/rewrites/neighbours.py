"""Loads that code spells one by one, `a[4 * i]`, `a[4 * i + 1]` ..., as one load where aligned.

Whether the first element is aligned is asked at run time; else each is loaded by itself.
"""

import re
from collections.abc import Iterator, Sequence

from tree_sitter import Node

from cuda_llm.agents.rewrites.block_extents import Edits
from cuda_llm.agents.rewrites.kernel_source import (
    Kernel,
    KernelSource,
    below,
    declared_name,
    names_below,
    names_set,
    read_kernels,
    statements,
)
from cuda_llm.agents.rewrites.vector_width import (
    BYTES,
    MOST_BYTES,
    is_always_run,
    is_written,
    pointer_kinds,
    with_pack,
)

NEIGHBOURS = (2, 4, 8)


def neighbouring_loads(text: str, value: int) -> str | None:
    """Return the source in which `value` loads of neighbouring elements are one load."""
    source = read_kernels(text)
    edits: Edits = {}
    for kernel in source.kernels:
        edits |= _merged(source, kernel, value)
    return with_pack(source, edits)


def _merged(source: KernelSource, kernel: Kernel, width: int) -> Edits:
    """Return the edits that load neighbours in front of the statement with the first of them."""
    kinds = pointer_kinds(source, kernel)
    written = {
        source.text(one.child_by_field_name("argument"))
        for one in below(kernel.body)
        if one.type == "subscript_expression" and is_written(one)
    }
    readable = {
        name: kind
        for name, kind in kinds.items()
        if name not in written and BYTES[kind] * width <= MOST_BYTES
    }
    edits: Edits = {}
    number = 0
    for block in (one for one in below(kernel.body) if one.type == "compound_statement"):
        for pointer, base, first, places in _groups(source, block, readable, width):
            at = _statement_of(block, places[0][0])
            # An edit that begins with the statement would take the place of the load.
            if any(
                (one.start_byte, one.end_byte) in edits or one.start_byte == at.start_byte
                for one, _ in places
            ):
                continue
            if not _is_same(source, block, at, places, pointer, base):
                continue
            name, kind = f"near{number}", readable[pointer]
            number += 1
            edits[at.start_byte, at.start_byte] = edits.get(
                (at.start_byte, at.start_byte), ""
            ) + _load(name, kind, pointer, base, first, width, at.start_point.column)
            for one, offset in places:
                edits[one.start_byte, one.end_byte] = f"{name}.at[{offset - first}]"
    return edits


_Place = tuple[Node, int]
"""A load, and the constant at the end of its index."""


def _groups(
    source: KernelSource, block: Node, readable: dict[str, str], width: int
) -> Iterator[tuple[str, str, int, list[_Place]]]:
    """Yield pointer, rest of the index, first constant and loads of whole groups that each turn
    through a block comes by."""
    found = dict[tuple[str, str], list[_Place]]()
    bases = dict[tuple[str, str], str]()
    for one in below(block):
        if one.type != "subscript_expression" or not is_always_run(one, statements(block)):
            continue
        pointer = source.text(one.child_by_field_name("argument"))
        split = _split(source, one)
        if pointer in readable and split is not None:
            key = pointer, re.sub(r"\s+", "", split[0])
            bases.setdefault(key, split[0])
            found.setdefault(key, []).append((one, split[1]))
    for key, places in found.items():
        pointer, base = key[0], bases[key]
        # Two neighbours of a stencil are those of other threads, too.
        if width == 2 and not re.search(r"\d\*|\*\d|<<", key[1]):
            continue
        for first in sorted({offset for _, offset in places if offset % width == 0}):
            group = [one for one in places if first <= one[1] < first + width]
            if {offset for _, offset in group} == set(range(first, first + width)):
                yield pointer, base, first, sorted(group, key=lambda one: one[0].start_byte)


def _split(source: KernelSource, node: Node) -> tuple[str, int] | None:
    """Return an index without the constant at its end, and the constant; 0 without one."""
    listed = node.child_by_field_name("indices")
    index = listed.named_children[0] if listed and listed.named_child_count == 1 else None
    if index is None or index.type in ("call_expression", "assignment_expression"):
        return None
    right = index.child_by_field_name("right")
    is_sum = (
        index.type == "binary_expression"
        and source.text(index.child_by_field_name("operator")) == "+"
    )
    if is_sum and right is not None and source.text(right).isdigit():
        left = " ".join(source.text(index.child_by_field_name("left")).split())
        return left, int(source.text(right))
    return " ".join(source.text(index).split()), 0


def _statement_of(block: Node, node: Node) -> Node:
    """Return the statement of a block that holds a node."""
    return next(
        one
        for one in statements(block)
        if one.start_byte <= node.start_byte and node.end_byte <= one.end_byte
    )


def _is_same(
    source: KernelSource,
    block: Node,
    at: Node,
    places: Sequence[_Place],
    pointer: str,
    base: str,
) -> bool:
    """Return whether the address is the same from a statement to the last of the loads: nothing on
    the way declares or sets what the address is made of, and no loop repeats it."""
    names = {pointer, *names_below(source, places[0][0])}
    last = max(one.end_byte for one, _ in places)
    for one in statements(block):
        if one.end_byte <= at.start_byte or one.start_byte >= last:
            continue
        if names_set(source, one) & names:
            return False
        declared = (
            declared_name(source, each)
            for each in below(one)
            if each.type in ("init_declarator", "declaration")
        )
        if {*declared} & names or "++" in base or "--" in base:
            return False
        if one.type in ("for_statement", "while_statement", "do_statement"):
            return False
    return True


def _load(
    name: str, kind: str, pointer: str, base: str, first: int, width: int, indent: int
) -> str:
    """Return the declaration of a pack, and its load."""
    pack = f"Pack<{kind}, {width}>"
    address = f"&{pointer}[{base} + {first}]"
    pad = " " * indent
    return (
        f"{pack} {name};\n"
        f"{pad}if ((size_t)({address}) % {BYTES[kind] * width} == 0)\n"
        f"{pad}    {name}.bits = *reinterpret_cast<const decltype({name}.bits)*>({address});\n"
        f"{pad}else\n"
        f"{pad}    for (int lane = 0; lane < {width}; lane++) "
        f"{name}.at[lane] = {pointer}[{base} + {first} + lane];\n{pad}"
    )
