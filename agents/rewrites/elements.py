"""The work of several threads done by one: of a larger block, or of a block by fewer threads.

The code between two barriers runs once for each of the threads that a thread stands for; what
such a thread keeps across a barrier becomes an array. Loops and conditions around a barrier stay
outside: all threads of a block agree on them.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from tree_sitter import Node

from cuda_llm.agents.rewrites.block_extents import (
    BlockExtent,
    Edits,
    block_extents,
    scaled_arrays,
    scaled_grid,
    shares_launch,
)
from cuda_llm.agents.rewrites.kernel_source import (
    BARRIER,
    CROSS_LANE,
    FULL_TILE,
    Kernel,
    KernelSource,
    Launch,
    below,
    declared_name,
    indented,
    mentions,
    names_below,
    read_kernels,
    statements,
)

ELEMENTS = (2, 4, 8, 16)
PART = "part"
"""Name of the variable that counts the threads that a thread stands for."""


class _UnfitError(Exception):
    """The kernel's threads cannot be put together."""


def more_elements(text: str, value: int) -> str | None:
    """Return the source with blocks that cover `value` times as many elements with as many threads,
    where the grid follows the block."""
    return _together(text, value, grows=True)


def fewer_threads(text: str, value: int) -> str | None:
    """Return the source with blocks of `value` times fewer threads that cover as many elements,
    where a constant names the block's extent."""
    return _together(text, value, grows=False)


def _together(text: str, value: int, *, grows: bool) -> str | None:
    source = read_kernels(text)
    edits: Edits = {}
    unfit = list[Kernel]()
    for kernel in source.kernels:
        try:
            edits |= _edits(source, kernel, value, grows=grows)
        except _UnfitError:
            unfit.append(kernel)
    if not edits or any(shares_launch(source, one, edits) for one in unfit):
        return None
    return source.edited(edits)


def _edits(source: KernelSource, kernel: Kernel, value: int, *, grows: bool) -> Edits:
    """Return the edits of a kernel and of its launches. Raises _UnfitError."""
    blocks = [(one, block_extents(source, one)) for one in source.launches_of(kernel)]
    ranks = {len(extents) for _, extents in blocks}
    if ranks not in ({1}, {2}) or _is_asked_elsewhere(source):
        raise _UnfitError
    if CROSS_LANE.search(source.text(kernel.body)):
        raise _UnfitError
    axis = ranks.pop() - 1
    edits: Edits = {}
    longer: Edits = {}
    for launch, extents in blocks:
        extent = extents[axis]
        if not grows:
            edits |= _shrunk(source, kernel, axis, extent, value)
            continue
        edits |= _grown(source, kernel, launch, axis, extent, value)
        longer |= scaled_arrays(source, kernel, extent.value, str(extent.value * value))
    body = _Body(source, kernel, "xyz"[axis], value if grows else 0, value, longer)
    edits[kernel.body.start_byte, kernel.body.end_byte] = indented(body.text())
    return edits


def _grown(
    source: KernelSource, kernel: Kernel, launch: Launch, axis: int, extent: BlockExtent, value: int
) -> Edits:
    """Return the edits of a launch whose blocks cover more; the kernel asks for their size."""
    grid = scaled_grid(source, launch, axis, extent, value)
    asks = mentions(source, kernel.body, f"blockDim.{'xyz'[axis]}")
    if grid is None or not asks or extent.constant in names_below(source, kernel.body):
        raise _UnfitError
    return grid


def _shrunk(
    source: KernelSource, kernel: Kernel, axis: int, extent: BlockExtent, value: int
) -> Edits:
    """Return the edits of a launch whose blocks have fewer threads; a constant is their size."""
    asks = mentions(source, kernel.body, f"blockDim.{'xyz'[axis]}")
    if not extent.constant or asks or extent.value % value:
        raise _UnfitError
    argument = extent.argument
    return {(argument.end_byte, argument.end_byte): f" / {value}"}


def _is_asked_elsewhere(source: KernelSource) -> bool:
    """Return whether a function that is no kernel asks for the thread's place."""
    kernels = {one.node.start_byte for one in source.kernels}
    functions = (one for one in source.nodes if one.type == "function_definition")
    return any(
        re.search(r"\b(?:threadIdx|blockDim)\b", source.text(one))
        for one in functions
        if one.start_byte not in kernels
    )


@dataclass(frozen=True)
class _Body:
    """The body of a kernel in which a thread stands for several along one axis."""

    source: KernelSource
    kernel: Kernel
    axis: str
    grown: int
    """How many times larger the block is that the kernel sees; 0 where it is as large as before."""
    parts: int
    longer: Edits
    """Literals of the body that become others."""

    def text(self) -> str:
        """Return the new body. Raises _UnfitError."""
        if self.has_barriers and any(
            one.type == "return_statement" for one in below(self.kernel.body)
        ):
            raise _UnfitError
        if not self._is_outside(self.kernel.body):
            return "{\n" + self._run(statements(self.kernel.body)) + "\n}"
        return "{\n" + "\n".join(self._block(statements(self.kernel.body))) + "\n}"

    @cached_property
    def has_barriers(self) -> bool:
        """Return whether threads of the kernel wait for each other."""
        return self._has_barrier(self.kernel.body)

    @cached_property
    def varying(self) -> frozenset[str]:
        """Return the names whose value depends on the thread, or that are changed."""
        found = {"threadIdx"}
        while True:
            new = {
                name
                for name, value in self._assignments
                if name not in found and (value is None or names_below(self.source, value) & found)
            }
            if not new:
                return frozenset(found)
            found |= new

    @cached_property
    def _assignments(self) -> tuple[tuple[str, Node | None], ...]:
        """Return each variable with what it becomes; None for one that is changed in place."""
        found = list[tuple[str, Node | None]]()
        for one in below(self.kernel.body):
            if one.type == "init_declarator":
                name = one.child_by_field_name("declarator")
                found.append((declared_name(self.source, name), one.child_by_field_name("value")))
            if one.type == "assignment_expression" and not self._is_loop_head(one):
                found.append((self.source.text(one.child_by_field_name("left")), None))
            if one.type == "update_expression" and not self._is_loop_head(one):
                found.append((self.source.text(one.child_by_field_name("argument")), None))
        return tuple(found)

    def _is_loop_head(self, node: Node) -> bool:
        return node.parent is not None and node.parent.type == "for_statement"

    def _block(self, listed: Sequence[Node]) -> Iterator[str]:
        """Yield the text of statements among which are barriers."""
        run = list[Node]()
        for one in listed:
            if self._is_uniform(one) or self._is_outside(one):
                yield self._run(run)
                run = []
                yield self._outside(one)
            else:
                run.append(one)
        yield self._run(run)

    def _is_uniform(self, node: Node) -> bool:
        """Return whether a declaration is the same for all threads of a block."""
        if node.type != "declaration":
            return False
        if "__shared__" in self.source.text(node):
            return True
        if "atomic" in self.source.text(node):
            return False
        declared = node.children_by_field_name("declarator")
        return all(
            one.type == "init_declarator"
            and declared_name(self.source, one.child_by_field_name("declarator"))
            not in self.varying
            for one in declared
        )

    def _has_barrier(self, node: Node) -> bool:
        return bool(BARRIER.search(self.source.text(node)))

    def _is_outside(self, node: Node) -> bool:
        """Return whether all threads of a block run a statement together."""
        return self._has_barrier(node) or FULL_TILE in self.source.text(node)

    def _outside(self, node: Node) -> str:
        """Return the text of a statement that all threads of a block run together."""
        if node.type in ("declaration", "expression_statement"):
            return self._changed(node, "")
        if node.type == "compound_statement":
            return self._braced(node)
        body = node.child_by_field_name("body") or node.child_by_field_name("consequence")
        if body is None or node.type not in ("for_statement", "while_statement", "if_statement"):
            raise _UnfitError
        head = self.source.tree.between(node.start_byte, body.start_byte)
        words = set(re.findall(r"[A-Za-z_]\w*", head))
        if words & self.varying:
            raise _UnfitError
        other = node.child_by_field_name("alternative")
        following = f" else {self._braced(other.named_children[-1])}" if other is not None else ""
        return self._renamed_sizes(head) + self._braced(body) + following

    def _braced(self, node: Node) -> str:
        """Return the text of the statements that a loop or a condition holds, in braces."""
        inner = statements(node) if node.type == "compound_statement" else (node,)
        return "{\n" + "\n".join(self._block(inner)) + "\n}"

    def _run(self, run: Sequence[Node]) -> str:
        """Return the loop over the threads of a run of statements without barriers."""
        if not run:
            return ""
        *before_last, last = run
        if self._may_stay_outside(last) and all(one.type == "preproc_call" for one in before_last):
            pragmas = "".join(f"\n{self.source.text(one).strip()}\n" for one in before_last)
            return pragmas + self._outside(last)
        before, inside = list[str](), list[str]()
        for one in run:
            if one.type == "preproc_call":
                inside.append("\n" + self.source.text(one).strip() + "\n")
                continue
            kept = self._kept(one)
            if kept is None:
                inside.append(self._changed(one, PART))
                continue
            before.append(kept[0])
            inside.append(kept[1])
        loop = f"\n#pragma unroll\nfor (int {PART} = 0; {PART} < {self.parts}; {PART}++) {{\n"
        return "\n".join(before) + loop + "\n".join(inside) + "\n}"

    def _may_stay_outside(self, node: Node) -> bool:
        """Return whether all threads of a block take the same turns of a loop without barriers, so
        that what a turn loads for one thread serves the others."""
        body = node.child_by_field_name("body")
        if node.type != "for_statement" or body is None or not self.has_barriers:
            return False
        leaves = ("break_statement", "continue_statement")
        head = self.source.tree.between(node.start_byte, body.start_byte)
        uniform = not set(re.findall(r"[A-Za-z_]\w*", head)) & self.varying
        return uniform and all(one.type not in leaves for one in below(body))

    def _kept(self, node: Node) -> tuple[str, str] | None:
        """Return a declaration as one of arrays, and the assignments of the thread's elements.

        None for a statement that declares nothing that is used beyond its run.
        """
        if node.type != "declaration":
            return None
        declared = node.children_by_field_name("declarator")
        names = [declared_name(self.source, _inner(one)) for one in declared]
        if not set(names) & self.kept_names:
            return None
        if any(_inner(one).type != "identifier" for one in declared):
            raise _UnfitError
        kind = re.sub(
            r"^\s*const\b", "", self.source.tree.between(node.start_byte, declared[0].start_byte)
        )
        before = "".join(f"{kind.strip()} {name}[{self.parts}];" for name in names)
        made = [
            f"{name}[{PART}] = {self._changed(value, PART)};"
            for name, one in zip(names, declared, strict=True)
            if one.type == "init_declarator" and (value := one.child_by_field_name("value"))
        ]
        return before, "\n".join(made)

    @cached_property
    def kept_names(self) -> frozenset[str]:
        """Return the names that are declared in one run and used in another, or around it."""
        found = set[str]()
        waiting = [statements(self.kernel.body)]
        while waiting:
            listed = waiting.pop()
            run = 0
            home = dict[str, int]()
            for one in listed:
                if self._is_outside(one) and not self._is_uniform(one):
                    run += 1
                    body = one.child_by_field_name("body") or one.child_by_field_name("consequence")
                    if body is not None:
                        inner = statements(body) if body.type == "compound_statement" else (body,)
                        waiting.append(inner)
                elif self._is_uniform(one):
                    run += 1
                    continue
                found |= {
                    name
                    for name in names_below(self.source, one)
                    if name in home and (home[name] != run or self._is_outside(one))
                }
                if one.type == "declaration":
                    for each in one.children_by_field_name("declarator"):
                        home[declared_name(self.source, _inner(each))] = run
                run += self._is_outside(one)
        return frozenset(found)

    def _changed(self, node: Node, part: str) -> str:
        """Return a node's text as the thread `part` runs it; outside of runs `part` is empty."""
        is_split = self._is_outside(self.kernel.body)
        kept = self.kept_names if is_split else frozenset[str]()

        def replace(one: Node) -> str | None:
            text = self.source.text(one)
            if (one.start_byte, one.end_byte) in self.longer:
                return self.longer[one.start_byte, one.end_byte]
            if one.type == "field_expression":
                if text == f"threadIdx.{self.axis}":
                    if not part:
                        raise _UnfitError
                    return f"((int)threadIdx.{self.axis} + {part} * (int)blockDim.{self.axis})"
                return self._renamed_sizes(text)
            if one.type == "identifier" and text in kept:
                if not part:
                    raise _UnfitError
                return f"{text}[{part}]"
            if one.type == "identifier" and text in ("threadIdx", "blockDim"):
                raise _UnfitError  # All three numbers at once.
            if one.type == "return_statement":
                if self._is_in_loop(one):
                    raise _UnfitError
                return "continue;"
            return None

        return self.source.render(node, replace)

    def _renamed_sizes(self, text: str) -> str:
        """Return the text with the size of the block that the kernel is to see."""
        if not self.grown:
            return text
        mine = f"blockDim.{self.axis}"
        return re.sub(rf"\b{re.escape(mine)}\b", f"({mine} * {self.grown})", text)

    def _is_in_loop(self, node: Node) -> bool:
        around = node.parent
        while around is not None and around != self.kernel.body:
            if around.type in (
                "for_statement",
                "while_statement",
                "do_statement",
                "switch_statement",
            ):
                return True
            around = around.parent
        return False


def _inner(node: Node) -> Node:
    """Return what a declarator with an initialiser declares."""
    made = node.child_by_field_name("declarator") if node.type == "init_declarator" else node
    return made or node
