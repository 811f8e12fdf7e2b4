"""The extents of a launch's block: where each is written, and where the grid depends on it."""

from collections.abc import Mapping
from dataclasses import dataclass

from tree_sitter import Node

from cuda_llm.agents.rewrites.kernel_source import Kernel, KernelSource, Launch, below

Edits = dict[tuple[int, int], str]


@dataclass(frozen=True)
class BlockExtent:
    """One extent of a block, in threads."""

    literal: Node
    """The number literal that gives the extent its value."""
    value: int
    spellings: frozenset[str]
    """What means this extent in the grid's expression, as `threads`, `block.x` or `256`."""
    argument: Node
    """The expression in the launch or in the `dim3`."""
    constant: str
    """Name of the file-wide constant that holds the number; empty where there is none."""


def block_extents(source: KernelSource, launch: Launch) -> tuple[BlockExtent, ...]:
    """Return the extents of a launch's block; empty where a number is not a constant."""
    name, parts = _parts(source, launch, launch.block)
    found = [_extent(source, launch, part) for part in parts]
    if not found or any(one is None for one in found):
        return ()
    return tuple(
        BlockExtent(
            literal=one[0],
            value=int(source.text(one[0])),
            spellings=one[1] | ({f"{name}.{axis}"} if name else set()),
            argument=part,
            constant=one[2],
        )
        for one, part, axis in zip(found, parts, "xyz", strict=False)
        if one
    )


def grid_extents(source: KernelSource, launch: Launch) -> tuple[Node, ...]:
    """Return the expressions of a launch's grid."""
    return _parts(source, launch, launch.grid)[1]


def scaled_grid(
    source: KernelSource, launch: Launch, axis: int, extent: BlockExtent, factor: int
) -> Edits | None:
    """Return the edits by which each block covers `factor` times as much along an axis, with as
    much more dynamic shared memory where that follows the block.

    None where the grid does not depend on that extent of the block.
    """
    grid = grid_extents(source, launch)
    if axis >= len(grid):
        return None
    edits: Edits = {}
    for one in _mentions(source, grid[axis], extent):
        text = source.text(one)
        is_last = one.type == "number_literal" and text == str(extent.value - 1)
        changed = f"({extent.value} * {factor} - 1)" if is_last else f"({text} * {factor})"
        edits[one.start_byte, one.end_byte] = changed
    if not edits:
        return None
    for one in _mentions(source, launch.shared, extent) if launch.shared else ():
        edits[one.start_byte, one.end_byte] = f"({source.text(one)} * {factor})"
    return edits


def shares_launch(source: KernelSource, kernel: Kernel, edits: Edits) -> bool:
    """Return whether edits change the grid or the block of a kernel that they do not rewrite."""
    parts = [
        part
        for one in source.launches_of(kernel)
        for part in (*grid_extents(source, one), *(e.argument for e in block_extents(source, one)))
    ]
    return any(part.start_byte <= start <= part.end_byte for part in parts for start, _ in edits)


def renumbered_grid(source: KernelSource, launch: Launch, extent: BlockExtent, new: int) -> Edits:
    """Return the edits of literals in the grid, and in the bytes of dynamic shared memory, that
    repeat a block's extent."""
    edits: Edits = {}
    shared = (launch.shared,) if launch.shared else ()
    for part in (*grid_extents(source, launch), *shared):
        for one in _mentions(source, part, extent):
            if one.type == "number_literal":
                shift = extent.value - int(source.text(one))
                edits[one.start_byte, one.end_byte] = str(new - shift)
    return edits


def scaled_arrays(source: KernelSource, kernel: Kernel, value: int, new: str) -> Edits:
    """Return the edits of shared arrays whose extent is `value`, and of the places where the
    kernel's index spells the block's extent as that number."""
    edits: Edits = {}
    for one in below(kernel.body):
        if one.type != "number_literal" or source.text(one) != str(value):
            continue
        around = one.parent
        is_extent = around is not None and around.type == "array_declarator"
        is_index = (
            around is not None
            and around.type == "binary_expression"
            and "blockIdx" in source.text(around)
        )
        declared = around
        while declared is not None and declared.type != "declaration":
            declared = declared.parent
        is_shared = declared is not None and "__shared__" in source.text(declared)
        if is_index or (is_extent and is_shared):
            edits[one.start_byte, one.end_byte] = new
    return edits


def _mentions(source: KernelSource, node: Node, extent: BlockExtent) -> list[Node]:
    """List the parts of an expression that name the extent; without a name, the numbers that are
    the extent, or the extent less one."""
    words = ("identifier", "field_expression")
    named = [
        one for one in below(node) if one.type in words and source.text(one) in extent.spellings
    ]
    if named:
        return named
    numbers = (str(extent.value), str(extent.value - 1)) if extent.value > 2 else ()
    literals = (one for one in below(node) if one.type == "number_literal")
    return [one for one in literals if source.text(one) in numbers]


def _parts(source: KernelSource, launch: Launch, node: Node) -> tuple[str, tuple[Node, ...]]:
    """Return the variable that holds a `dim3` or a number, and the expressions of its extents."""
    if node.type == "call_expression":
        function = source.text(node.child_by_field_name("function"))
        listed = node.child_by_field_name("arguments")
        return "", tuple(listed.named_children) if function == "dim3" and listed else (node,)
    if node.type != "identifier":
        return "", (node,)
    name = source.text(node)
    value = _locals(source, launch.host).get(name)
    if value is None:
        return "", (node,)
    if value.type in ("argument_list", "initializer_list", "parameter_list"):
        return name, tuple(value.named_children)
    if value.type == "call_expression" and source.text(value).startswith("dim3"):
        return name, _parts(source, launch, value)[1]
    return "", (value,) if value.type != "number_literal" else (node,)


def _extent(
    source: KernelSource, launch: Launch, node: Node
) -> tuple[Node, frozenset[str], str] | None:
    """Return the literal behind an extent, the names for it, and the file-wide constant of them."""
    text = source.text(node)
    if node.type == "number_literal":
        return (node, frozenset({text}), "") if text.isdigit() else None
    if not text.isidentifier():
        return None
    if text in source.constants:
        literal = source.constants[text]
        return literal, frozenset({text}), text
    value = _locals(source, launch.host).get(text)
    found = _extent(source, launch, value) if value is not None else None
    return (found[0], found[1] | {text}, found[2]) if found else None


def _locals(source: KernelSource, host: Node) -> Mapping[str, Node]:
    """Return the initialisers of the variables that a host function declares."""
    found = dict[str, Node]()
    for one in below(host):
        if one.type == "init_declarator":
            value = one.child_by_field_name("value")
            name = source.text(one.child_by_field_name("declarator"))
            if value is not None and name:
                found.setdefault(name, value)
        if one.type == "function_declarator" and source.text(one.parent).startswith("dim3"):
            # `dim3 block(TILE, TILE)` may declare a function, and the grammar takes it for one.
            listed = one.child_by_field_name("parameters")
            if listed is not None:
                found.setdefault(source.text(one.child_by_field_name("declarator")), listed)
    return found
