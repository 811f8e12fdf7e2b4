"""What a kernel may promise or ask of the compiler: unrolled loops, bounds of a launch, pointers
that do not overlap."""

from tree_sitter import Node

from cuda_llm.agents.rewrites.block_extents import Edits, block_extents
from cuda_llm.agents.rewrites.kernel_source import KernelSource, below, read_kernels, statements

UNROLLED = (1, 2, 4, 8)
RESIDENT = (1, 2, 4)


def unrolled(text: str, value: int) -> str | None:
    """Return the source with each innermost loop of its kernels unrolled `value` times, where the
    source does not say so itself."""
    source = read_kernels(text)
    edits: Edits = {}
    for kernel in source.kernels:
        for one in below(kernel.body):
            if one.type == "for_statement" and _is_innermost(one) and not _has_pragma(source, one):
                edits[one.start_byte, one.start_byte] = f"\n#pragma unroll {value}\n"
    return source.edited(edits) if edits else None


def launch_bounds(text: str, value: int) -> str | None:
    """Return the source with `__launch_bounds__`: the threads of the launch, and `value` blocks
    resident on a multiprocessor."""
    source = read_kernels(text)
    edits: Edits = {}
    for kernel in source.kernels:
        head = kernel.node.child_by_field_name("declarator")
        launches = [block_extents(source, one) for one in source.launches_of(kernel)]
        if head is None or not launches or not all(launches) or "__launch_bounds__" in text:
            continue
        most = 0
        for extents in launches:
            threads = 1
            for one in extents:
                threads *= one.value
            most = max(most, threads)
        if most <= 1024:
            bounds = f"__launch_bounds__({most}{f', {value}' if value > 1 else ''}) "
            edits[head.start_byte, head.start_byte] = bounds
    return source.edited(edits) if edits else None


def restricted(text: str, value: int) -> str | None:
    """Return the source with `__restrict__` on the pointers that its kernels take; `value` is 1."""
    source = read_kernels(text)
    edits: Edits = {}
    for kernel in source.kernels:
        for parameter in kernel.parameters:
            pointer = parameter.child_by_field_name("declarator")
            if pointer is None or pointer.type != "pointer_declarator":
                continue
            name = pointer.child_by_field_name("declarator")
            if (
                name is not None
                and name.type == "identifier"
                and "restrict" not in source.text(pointer)
            ):
                edits[name.start_byte, name.start_byte] = "__restrict__ "
    return source.edited(edits) if edits else None


def _is_innermost(loop: Node) -> bool:
    inner = ("for_statement", "while_statement", "do_statement")
    return all(one.type not in inner or one == loop for one in below(loop))


def _has_pragma(source: KernelSource, loop: Node) -> bool:
    around = statements(loop.parent) if loop.parent else ()
    before = [one for one in around if one.end_byte <= loop.start_byte]
    return (
        bool(before) and "unroll" in source.text(before[-1]) and before[-1].type == "preproc_call"
    )
