"""A path without checks of bounds for the blocks that lie wholly within them."""

from collections.abc import Mapping, Sequence

from tree_sitter import Node

from cuda_llm.agents.rewrites.block_extents import Edits, block_extents
from cuda_llm.agents.rewrites.kernel_source import (
    CROSS_LANE,
    FULL_TILE,
    Kernel,
    KernelSource,
    below,
    declared_name,
    indented,
    names_below,
    names_set,
    read_kernels,
    statements,
)

_HOLDS: Mapping[str, str] = {"<": "true", "<=": "true", ">": "false", ">=": "false"}
"""What a comparison of a thread's index with its bound is where the whole block is within it."""
_WITHIN: Mapping[str, str] = {"<": "<", "<=": "<=", ">": "<=", ">=": "<"}
_GROWING = {
    "binary_expression", "parenthesized_expression", "cast_expression", "type_descriptor",
    "primitive_type", "type_identifier", "sized_type_specifier", "identifier", "number_literal",
    "field_expression", "field_identifier",
}  # fmt: skip
"""Kinds of nodes of an expression that grows with the numbers in it, by `+` and `*` alone."""


def full_tiles(text: str, value: int) -> str | None:
    """Return the source whose kernels ask once whether all threads of a block are within their
    bounds, and then ask no more; `value` is 1."""
    source = read_kernels(text)
    edits: Edits = {}
    for kernel in source.kernels:
        body = source.text(kernel.body)
        if CROSS_LANE.search(body) or FULL_TILE in body:
            continue
        known = _indices(source, kernel)
        bounds = [one for one in below(kernel.body) if _is_bound(source, one, known)]
        if not bounds:
            continue
        last = _last_threads(source, kernel)
        within = " && ".join(dict.fromkeys(_within(source, one, known, last) for one in bounds))
        shared = [
            one
            for one in statements(kernel.body)
            if one.type == "declaration" and "__shared__" in source.text(one)
        ]
        # Both paths use the same arrays: in each of them they would be there twice.
        arrays = "".join(f"{source.text(one)}\n" for one in shared)
        whole = _without(source, kernel.body, [*bounds, *shared])
        some = _without(source, kernel.body, shared)
        asked = f"const bool {FULL_TILE} = {within};"
        edits[kernel.body.start_byte, kernel.body.end_byte] = indented(
            f"{{\n{arrays}{asked}\nif ({FULL_TILE}) {whole} else {some}\n}}"
        )
    return source.edited(edits) if edits else None


def _indices(source: KernelSource, kernel: Kernel) -> dict[str, Node]:
    """Return the value of each variable of the body that is set once and grows with the thread."""
    changed = names_set(source, kernel.body)
    known = dict[str, Node]()
    for one in statements(kernel.body):
        if one.type != "declaration":
            continue
        for made in one.children_by_field_name("declarator"):
            name = source.text(made.child_by_field_name("declarator"))
            value = made.child_by_field_name("value")
            if value is not None and name not in changed and _grows(source, value, known):
                known[name] = value
    return known


def _grows(source: KernelSource, node: Node, known: Mapping[str, Node]) -> bool:
    """Return whether an expression grows with the numbers of block and thread."""
    for one in below(node):
        if one.is_named and one.type not in _GROWING:
            return False
        operator = one.child_by_field_name("operator") if one.type == "binary_expression" else None
        if operator is not None and operator.type not in ("+", "*"):
            return False
    names = names_below(source, node)
    return bool(names & ({"threadIdx", "blockIdx"} | known.keys()))


def _is_bound(source: KernelSource, node: Node, known: Mapping[str, Node]) -> bool:
    """Return whether a node compares a thread's index with what is the same for the whole block."""
    operator = node.child_by_field_name("operator") if node.type == "binary_expression" else None
    if operator is None or operator.type not in _HOLDS:
        return False
    if node.parent is not None and node.parent.type == "for_statement":
        return False
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is None or right is None or not _grows(source, left, known):
        return False
    given = {declared_name(source, one) for one in _parameters(source, node)} | set(
        source.constants
    )
    places = {"threadIdx", "blockIdx", "blockDim", "gridDim"}
    inner = names_below(source, left) | {
        name for one in known.values() for name in names_below(source, one)
    }
    plain = all(one.type in _GROWING for one in below(right) if one.is_named)
    return plain and names_below(source, right) <= given and inner <= given | places | known.keys()


def _parameters(source: KernelSource, node: Node) -> Sequence[Node]:
    inside = (
        one for one in source.kernels if one.node.start_byte <= node.start_byte < one.node.end_byte
    )
    kernel = next(inside, None)
    return kernel.parameters if kernel else ()


def _last_threads(source: KernelSource, kernel: Kernel) -> Mapping[str, str]:
    """Return the number of the last thread of a block along each axis: by the constant that names
    the block's extent, where there is one."""
    launches = [block_extents(source, one) for one in source.launches_of(kernel)]
    last = {axis: f"(blockDim.{axis} - 1)" for axis in "xyz"}
    for axis, extents in zip("xyz", zip(*launches, strict=False), strict=False):
        constants = {one.constant for one in extents}
        if len(constants) == 1 and "" not in constants:
            last[axis] = f"({constants.pop()} - 1)"
    return last


def _within(
    source: KernelSource, node: Node, known: Mapping[str, Node], last: Mapping[str, str]
) -> str:
    """Return the condition that the last thread of a block is within a bound."""

    def replace(one: Node) -> str | None:
        text = source.text(one)
        if one.type == "identifier" and text in known:
            return f"({source.render(known[text], replace)})"
        if one.type == "field_expression" and text.startswith("threadIdx."):
            return last[text[-1]]
        return None

    left, operator, right = (node.child_by_field_name(one) for one in ("left", "operator", "right"))
    if left is None or operator is None:
        return "false"
    return f"{source.render(left, replace)} {_WITHIN[operator.type]} {source.text(right)}"


def _without(source: KernelSource, body: Node, parts: Sequence[Node]) -> str:
    """Return the body without some declarations, and with what comparisons are within bounds."""
    holds = {
        (one.start_byte, one.end_byte): _HOLDS[operator.type] if operator else ""
        for one in parts
        for operator in (one.child_by_field_name("operator"),)
    }

    def replace(one: Node) -> str | None:
        if one.type in ("binary_expression", "declaration"):
            return holds.get((one.start_byte, one.end_byte))
        condition = one.child_by_field_name("condition") if one.type == "if_statement" else None
        if condition is None or one.child_by_field_name("alternative") is not None:
            return None
        inside = one.child_by_field_name("consequence")
        words = set(source.render(condition, replace)[1:-1].split())
        if inside is not None and words <= {"true", "&&"}:
            return source.render(inside, replace)
        return "" if words <= {"false", "||"} else None

    return source.render(body, replace)
