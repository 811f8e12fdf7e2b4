"""A CUDA source as rewrites see it: its kernels, their launches, and copies with parts replaced."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from tree_sitter import Node

from cuda_llm.agents.syntax_tree import SyntaxTree

Replace = Callable[[Node], str | None]
"""Returns the text that takes the place of a node; None where its parts are to be looked at."""

CROSS_LANE = re.compile(
    r"__shfl|__ballot|__any_sync|__all_sync|__match|__reduce_|__syncwarp|__activemask"
    r"|cooperative_groups|\basm\b|wmma|\bgoto\b"
)
"""What ties a thread to other lanes or hides what it does: the threads of such a kernel stay."""
FULL_TILE = "is_full_tile"
"""Name of the variable that says whether all threads of a block are within their bounds."""
BARRIER = re.compile(r"__syncthreads\s*\(")


@dataclass(frozen=True)
class Kernel:
    """A `__global__` function with a body."""

    name: str
    node: Node
    parameters: tuple[Node, ...]
    body: Node


@dataclass(frozen=True)
class Launch:
    """A launch `kernel<<<grid, block, ...>>>`, with the host function around it."""

    kernel: str
    node: Node
    grid: Node
    block: Node
    shared: Node | None
    """Bytes of dynamic shared memory; None where there are none."""
    host: Node


class KernelSource:
    """One source. Offsets are of bytes."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.tree = SyntaxTree(source)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Return all nodes, in the order of the source."""
        return tuple(self.tree.nodes())

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:
        """Return the kernels with a body, in order."""
        found = (self._kernel(one) for one in self.nodes if one.type == "function_definition")
        return tuple(one for one in found if one)

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """Return the launches, in order."""
        calls = (one for one in self.nodes if one.type == "kernel_call_syntax")
        return tuple(one for one in map(self._launch, calls) if one)

    @cached_property
    def constants(self) -> Mapping[str, Node]:
        """Return the literal of each name that one `#define` or one file-wide constant gives a
        whole number."""
        found = dict[str, Node]()
        seen = dict[str, int]()
        for one in self.nodes:
            name, value = self._constant(one)
            if name:
                seen[name] = seen.get(name, 0) + 1
                if value is not None:
                    found[name] = value
        return {name: value for name, value in found.items() if seen[name] == 1}

    def launches_of(self, kernel: Kernel) -> tuple[Launch, ...]:
        """Return the launches of one kernel."""
        return tuple(one for one in self.launches if one.kernel == kernel.name)

    def text(self, node: Node | None) -> str:
        """Return what a node spells; empty without a node."""
        return self.tree.text(node)

    def render(self, node: Node, replace: Replace) -> str:
        """Return the text of a node with its parts replaced, the outermost first."""
        made = replace(node)
        if made is not None:
            return made
        pieces, at = list[str](), node.start_byte
        for child in node.children:
            pieces.append(self.tree.between(at, child.start_byte))
            pieces.append(self.render(child, replace))
            at = child.end_byte
        pieces.append(self.tree.between(at, node.end_byte))
        return "".join(pieces)

    def edited(self, edits: Mapping[tuple[int, int], str]) -> str:
        """Return the source with the text between two bytes replaced, for each of `edits`.

        An edit inside of another is left out.
        """
        pieces, at = list[str](), 0
        for (start, end), text in sorted(edits.items(), key=lambda one: (one[0][0], -one[0][1])):
            if start < at:
                continue
            pieces += [self.tree.between(at, start), text]
            at = end
        return "".join((*pieces, self.tree.between(at, len(self.source.encode()))))

    def _kernel(self, node: Node) -> Kernel | None:
        head, body = node.child_by_field_name("declarator"), node.child_by_field_name("body")
        if head is None or body is None or head.type != "function_declarator":
            return None
        if all(one.type != "__global__" for one in node.children):
            return None
        listed = head.child_by_field_name("parameters")
        parameters = listed.named_children if listed else []
        return Kernel(
            name=self.text(head.child_by_field_name("declarator")),
            node=node,
            parameters=tuple(one for one in parameters if one.type == "parameter_declaration"),
            body=body,
        )

    def _launch(self, node: Node) -> Launch | None:
        call = node.parent
        host = call
        while host is not None and host.type != "function_definition":
            host = host.parent
        listed = [one for one in node.named_children if one.type != "comment"]
        if call is None or host is None or len(listed) < 2:
            return None
        called = call.child_by_field_name("function")
        name = re.match(r"[\w:]*", self.text(called))
        kernel = name[0].rpartition(":")[2] if name else ""
        return Launch(
            kernel=kernel,
            node=node,
            grid=listed[0],
            block=listed[1],
            shared=listed[2] if len(listed) > 2 else None,
            host=host,
        )

    def _constant(self, node: Node) -> tuple[str, Node | None]:
        if node.type == "preproc_def":
            value = node.child_by_field_name("value")
            name = self.text(node.child_by_field_name("name"))
            return name, value if value and self.text(value).strip().isdigit() else None
        at_top = node.parent is not None and node.parent.type == "translation_unit"
        if node.type == "declaration" and at_top:
            made = node.child_by_field_name("declarator")
            value = made.child_by_field_name("value") if made else None
            if made and value and value.type == "number_literal":
                return self.text(made.child_by_field_name("declarator")), value
        return "", None


@lru_cache(maxsize=64)
def read_kernels(source: str) -> KernelSource:
    """Return the source, parsed once."""
    return KernelSource(source)


def below(node: Node) -> Iterator[Node]:
    """Yield a node and all nodes in it, in order."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        waiting.extend(reversed(one.children))


def names_below(source: KernelSource, node: Node) -> frozenset[str]:
    """Return the names that a node mentions."""
    return frozenset(source.text(one) for one in below(node) if one.type == "identifier")


def declared_name(source: KernelSource, node: Node | None) -> str:
    """Return the name that a declarator, or a declaration of one, declares; else nothing."""
    while node is not None and node.type != "identifier":
        node = node.child_by_field_name("declarator")
    return source.text(node)


def names_set(source: KernelSource, node: Node) -> frozenset[str]:
    """Return the names that a piece of code assigns to, beside their declarations."""
    fields = {"assignment_expression": "left", "update_expression": "argument"}
    return frozenset(
        source.text(one.child_by_field_name(fields[one.type]))
        for one in below(node)
        if one.type in fields
    )


def indented(code: str) -> str:
    """Return a body in braces with its lines indented by the braces and brackets around them."""
    made, depth = list[str](), 0
    for line in code.splitlines():
        text = line.strip()
        if text or (made and made[-1]):
            closing = len(text) - len(text.lstrip("})"))
            made.append(" " * 4 * (depth - closing) + text if text else "")
        depth += sum((one in "{(") - (one in "})") for one in text)
    return "\n".join(made).rstrip()


def mentions(source: KernelSource, node: Node | None, text: str) -> bool:
    """Return whether a node spells `text` as a whole word, as in `blockDim.x`."""
    return bool(re.search(rf"\b{re.escape(text)}\b", source.text(node)))


def statements(block: Node) -> tuple[Node, ...]:
    """Return the statements of a block in braces, pragmas included."""
    return tuple(one for one in block.named_children if one.type != "comment")
