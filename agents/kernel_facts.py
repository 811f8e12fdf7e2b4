"""What a kernel's text shows: its blocks, launches, shared memory, barriers and accesses, and the
techniques that it uses.

A heuristic: no macro is expanded, no type is known. Good enough to point at a line; never to refuse
a kernel. Blocks, launches, functions and declarations come from the syntax tree; what may also
stand in a macro's body or in inline PTX, which the tree does not hold, is searched in the text.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TypeAlias

from tree_sitter import Node

from cuda_llm.agents.syntax_tree import SyntaxTree, last_line_of, line_of
from cuda_llm.source_tokens import blank_comments

_VECTOR = (
    r"reinterpret_cast\s*<\s*(?:const\s+)?\w*(?:[2348])\s*(?:const\s*)?\*"
    r"|\(\s*(?:const\s+)?(?:u?int|float|double|half|short|char|long)(?:long)?[248]\s*\*\s*\)"
)
_ATOMIC = r"\batomic[A-Z]\w*\s*\(|\b(?:red|atom)\.(?:global|shared)"
_BARRIER = r"\b__syncthreads(?:_\w+)?\s*\(|\bblock\.sync\s*\(|\bbar\.sync\b"
_KINDS = {
    "if_statement": "if",
    "else_clause": "else",
    "for_statement": "for",
    "for_range_loop": "for",
    "while_statement": "while",
    "do_statement": "do",
    "return_statement": "return",
    "function_definition": "function",
    "declaration": "declaration",
    "init_declarator": "value",
    "call_expression": "call",
}
"""The kinds of nodes of the syntax tree that facts are read from."""

_DECLARATORS = {"identifier", "array_declarator", "pointer_declarator", "reference_declarator"}
_LOCAL_ARRAY = (
    r"(?<!__shared__ )(?<!__constant__ )(?<!__device__ )\b(?:float|double|int|half)\d?\s+"
    r"(?:\w+\s*(?:\[[^\]]+\])*\s*,\s*)*"
)
TECHNIQUE_PATTERNS: Mapping[str, re.Pattern[str]] = {
    "padding": re.compile(r"__shared__[^;]*\[[^\]]*\+\s*\d+\s*\]|__shared__[^;]*\[(?:17|33|65)\]"),
    "swizzle": re.compile(r"\[[^\]\n]*\^[^\]\n]*\]"),
    "unrolling": re.compile(r"#\s*pragma\s+unroll"),
    "warp_shuffle": re.compile(r"__shfl_\w+|__reduce_\w+_sync|\.shfl(?:_\w+)?\s*\("),
    "warp_reduce": re.compile(r"__reduce_\w+_sync"),
    "bulk_copy": re.compile(r"cp\.async\.bulk|cuda_tma|CUtensorMap"),
    "match_any": re.compile(r"__match_any_sync"),
    "last_block": re.compile(r"__threadfence\s*\(\s*\)[\s\S]*?atomic(?:Add|Inc)"),
    "constant_memory": re.compile(r"\b__constant__\b"),
    "tensor_mma": re.compile(r"mma\.sync|wgmma|wmma::|\bmma_sync\b"),
    "online_softmax": re.compile(
        r"\b(?:__)?exp2?f?\s*\(\s*\(?\s*\w*(?:\bm|[mM]ax|old|prev)\w*(?:\[[^\]]*\])?\s*-"
        r"\s*\w*(?:\bm|[mM]ax|new)\w*"
    ),
    "base_two": re.compile(r"\b(?:h2?)?exp2f?\s*\(|\bex2\.approx"),
    "look_back": re.compile(
        r"[lL]ook_?[bB]ack|while\s*\([^{]*(?:[fF]lag|[sS]tatus|[sS]tate)|\bld\.(?:acquire|volatile)"
    ),
    "grid_sync": re.compile(r"\bthis_grid\s*\(|\bgrid\.sync\s*\("),
    "cluster": re.compile(r"__cluster_dims__|\bthis_cluster\s*\(|barrier\.cluster|map_shared_rank"),
    "split_inner": re.compile(r"\b[sS]plit_?[kK]\w*|\bk[sS]plits?\b|\b[sS]plits?\b|\bgridDim\.z\b"),
    "tile_order": re.compile(r"\b[gG]roup_?(?:[mM]|[sS]ize|[rR]ows)\w*|\b[rR]aster\w*"),
    "bitonic": re.compile(r"[bB]itonic|[cC]ompare_?(?:[eE]xchange|(?:[aA]nd)?_?[sS]wap)"),
    "merge_path": re.compile(r"[mM]erge_?[pP]ath|\b[dD]iagonal\w*"),
    "radix_digits": re.compile(
        r"\b[dD]igit\w*|>>\s*\w+\s*\)?\s*&\s*(?:0[xX][fF]+|(?:15|31|63|127|255|511|1023)u?\b)"
    ),
    "warp_aggregated": re.compile(
        r"__popc\s*\(\s*(?:__ballot_sync|\w*(?:ballot|mask|vote|below)\w*)"
    ),
    "cache_hints": re.compile(r"\b__(?:ldg|ldcs|ldcg|stcs|stcg|ldlu)\s*\("),
    "accumulators": re.compile(
        r"\b(?:float|double|int|float4)\s+(?:sums?|acc\w*|totals?)\s*\[|\b(?:sum|acc)_?[1-3]\b"
    ),
    "private_copies": re.compile(
        r"__shared__[^;]*\[\s*\w*[wW]arps?\w*\s*\]|\b\w*(?:[wW]arp|[cC]opy)\w*\s*\*\s*\w*[bB]ins"
    ),
    "async_copy": re.compile(r"cp\.async|__pipeline_memcpy_async|memcpy_async"),
    "launch_bounds": re.compile(r"__launch_bounds__"),
    "grid_stride": re.compile(
        r"\+=\s*\(?[^;)]*(?:gridDim\.\w[^;)]*blockDim|blockDim\.\w[^;)]*gridDim|stride)"
    ),
    "register_blocking": re.compile(
        rf"{_LOCAL_ARRAY}\w+\s*(?:\[[^\]]+\]){{1,2}}\s*=\s*\{{"
        rf"|{_LOCAL_ARRAY}\w+\s*(?:\[[^\]]+\]){{2}}\s*[;,]"
    ),
    "double_buffering": re.compile(
        r"__shared__[^;]*\[\s*2\s*\]|\bstage\s*\^=\s*1|\bbuf\w*\s*\^=\s*1|=\s*\w+\s*\^\s*1\b"
        r"|cp\.async\.wait_group\s+(?:%|[1-9])|__pipeline_wait_prior\s*\(\s*[^\s0]"
    ),
}
"""Patterns of source text by the name of the technique. Copies that a later step waits for are
double buffering too."""
SIGNS = frozenset({*TECHNIQUE_PATTERNS, "shared_vectors", "global_vectors", "loads_first"})
_READ = re.compile(r"(?:(?<![\w.])(?P<name>[A-Za-z_]\w*)\s*\[|__ld\w+\s*\(|\*\s*reinterpret_cast)")
"""Something that reads memory, by the name of a pointer or array where it has one."""
_ELEMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)(?P<field>\.\w+)?\s*\[")
"""An element of an array, which may be a field of a struct."""
_NESTING = {"compound_statement", "if_statement", "else_clause", "for_statement"}
_STATEMENTS = _NESTING | {"expression_statement", "declaration", "return_statement"}
_TARGET = re.compile(rf"(?:{_VECTOR})\s*>?\s*\(?\s*&?\s*(?P<name>\w+)")
_GLOBAL_VECTOR = re.compile(
    r"\b(?:float|int|uint|double|ushort|short|uchar|char)[248]\s*\*\s*(?:__restrict__\s*)?\w+\s*[,)]"
    r"|cp\.async\.cg"
)
_SHARED_VECTOR = re.compile(r"__shared__[^;=]*\b(?:float|u?int|double)[24]\s|ld\.shared\.v[24]")
_WORD = re.compile(r"[A-Za-z_]\w*")
MOST_PASSES = 8
"""Steps against the order of the text along which a pointer is followed."""


@dataclass(frozen=True)
class CodeBlock:
    """The statements below one `if`, `else`, `for`, `while` or `do`, in braces or not."""

    kind: str
    """`if`, `else`, `for`, `while` or `do`."""
    header: str
    """The condition or the head of the loop in brackets, on one line; else empty."""
    first: int
    """Line of the keyword."""
    last: int


@dataclass(frozen=True)
class Function:
    """A function with a body."""

    name: str
    parameters: tuple[str, ...]
    """Names; empty for a parameter that is no pointer, reference or array."""
    first: int
    """Line of its head, `template <...>` included."""
    last: int


@dataclass(frozen=True)
class Launch:
    """A kernel launch `kernel<<<...>>>` in the host code of a source."""

    line: int
    kernel: str
    """Without namespaces and template arguments."""
    grid: str
    block: str
    shared: str
    """Empty where no dynamic shared memory is asked for."""


@dataclass(frozen=True)
class SharedArray:
    """An array in a `__shared__` declaration."""

    line: int
    name: str
    extents: str
    """Extents as the source declares them, e.g. `[32][33]`; `[]` for dynamic shared memory."""


@dataclass(frozen=True)
class SourceFacts:
    """One source, read on demand. Lines count from 1."""

    text: str

    @cached_property
    def code(self) -> str:
        """Return the text with comments blanked, line for line."""
        return blank_comments(self.text)

    @cached_property
    def tree(self) -> SyntaxTree:
        """Return the syntax tree."""
        return SyntaxTree(self.text)

    @cached_property
    def nodes(self) -> Mapping[str, Sequence[Node]]:
        """Return the nodes that facts are read from, in order, by their kind of `_KINDS`."""
        found: dict[str, list[Node]] = {kind: [] for kind in _KINDS.values()}
        for one in self.tree.nodes():
            if one.type in _KINDS:
                found[_KINDS[one.type]].append(one)
        return found

    @cached_property
    def blocks(self) -> tuple[CodeBlock, ...]:
        """Return the blocks of statements."""
        found = (
            _block(self.tree, kind, node)
            for kind in ("if", "else", "for", "while", "do")
            for node in self.nodes[kind]
        )
        return tuple(one for one in found if one)

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """Return the functions that the source defines, in order."""
        found = (_function(self.tree, one) for one in self.nodes["function"])
        return tuple(one for one in found if one)

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """Return the kernel launches, in order."""
        found = (_launch(self.tree, one) for one in self.nodes["call"])
        return tuple(one for one in found if one)

    @cached_property
    def shared_arrays(self) -> tuple[SharedArray, ...]:
        """Return the static and dynamic shared arrays, in order."""
        declared = self.nodes["declaration"]
        return tuple(array for one in declared for array in _arrays(self.tree, one))

    @cached_property
    def barriers(self) -> tuple[int, ...]:
        """Return the lines of block-wide barriers."""
        return self.lines_with(_BARRIER)

    @cached_property
    def vector_accesses(self) -> tuple[int, ...]:
        """Return the lines that look at memory through a vector type."""
        return self.lines_with(_VECTOR)

    @cached_property
    def atomics(self) -> tuple[int, ...]:
        """Return the lines with an atomic."""
        return self.lines_with(_ATOMIC)

    def lines_with(self, pattern: str) -> tuple[int, ...]:
        """Return the lines on which a match of a regular expression begins."""
        found = re.finditer(pattern, self.code)
        return tuple(dict.fromkeys(self.line_at(match.start()) for match in found))

    def line_at(self, position: int) -> int:
        """Return the line of a position in `code`."""
        return bisect_left(self._line_ends, position) + 1

    def line(self, number: int) -> str:
        """Return that line of code, stripped; empty beyond the end."""
        return self._lines[number - 1].strip() if 0 < number <= len(self._lines) else ""

    def around(self, line: int, *kinds: str) -> tuple[CodeBlock, ...]:
        """Return the blocks of those kinds that hold `line`, innermost first."""
        inside = [one for one in self.blocks if one.first <= line <= one.last and one.kind in kinds]
        return tuple(sorted(inside, key=lambda one: (one.last - one.first, -one.first)))

    def function_around(self, line: int) -> Function | None:
        """Return the innermost function that holds `line`."""
        inside = [one for one in self.functions if one.first <= line <= one.last]
        return min(inside, key=lambda one: one.last - one.first, default=None)

    def guards(self, line: int) -> tuple[str, ...]:
        """Return the conditions that compare something and decide whether `line` runs."""
        conditions = [one.header for one in self.around(line, "if", "for", "while")]
        conditions += [one.header for one in self._returns(line)]
        own = self.line(line)
        conditions += [own] if re.search(r"\bif\s*\(|\?", own) else []
        return tuple(one for one in conditions if re.search(r"[<>]=?|==|!=|&&|\|\|", one))

    def branch_around(self, line: int) -> CodeBlock | None:
        """Return the innermost `else`, or `if` that asks about the thread, around `line`."""
        for block in self.around(line, "if", "else"):
            if block.kind == "else" or re.search(
                r"threadIdx|lane|warp|\btid\b|\b[xyij]\b", block.header
            ):
                return block
        return None

    def left_early(self, line: int) -> int | None:
        """Return the line of a conditional `return` of the same function before `line`."""
        return next((one.first for one in self._returns(line)), None)

    def barriers_between(self, one: int, other: int) -> tuple[int, ...]:
        """Return the lines of barriers from the earlier to the later of two lines."""
        first, last = sorted((one, other))
        return tuple(line for line in self.barriers if first <= line <= last)

    @cached_property
    def _lines(self) -> list[str]:
        return self.code.split("\n")

    @cached_property
    def _line_ends(self) -> list[int]:
        return [match.start() for match in re.finditer("\n", self.code)]

    @cached_property
    def _return_lines(self) -> list[int]:
        return [line_of(one) for one in self.nodes["return"]]

    def _returns(self, line: int) -> Iterator[CodeBlock]:
        """Yield the `if` blocks before `line`, of its function, that hold a `return`."""
        function = self.function_around(line)
        if function is None:
            return
        for one in self.blocks:
            inside = one.kind == "if" and function.first <= one.first and one.last < line
            if inside and any(one.first <= place <= one.last for place in self._return_lines):
                yield one


def _block(tree: SyntaxTree, kind: str, node: Node) -> CodeBlock | None:
    body = node.child_by_field_name("consequence") or node.child_by_field_name("body")
    if kind == "else":
        body = node.named_children[-1] if node.named_children else None
    if body is None or (kind == "else" and body.type == "if_statement"):
        return None
    _, bracket, head = tree.between(node.start_byte, body.start_byte).partition("(")
    return CodeBlock(kind, " ".join((bracket + head).split()), line_of(node), last_line_of(body))


def _function(tree: SyntaxTree, node: Node) -> Function | None:
    body = node.child_by_field_name("body")
    if body is None or body.type != "compound_statement":
        return None
    head = node.child_by_field_name("declarator")
    while head is not None and head.type != "function_declarator":
        head = _inner(head)
    name = tree.text(head.child_by_field_name("declarator")) if head else ""
    listed = head.child_by_field_name("parameters") if head else None
    parameters = tuple(_pointer(tree, one) for one in _written(listed))
    is_template = node.parent is not None and node.parent.type == "template_declaration"
    first = line_of(node.parent if node.parent and is_template else node)
    return Function(plain_name(name), parameters, first, last_line_of(node))


def _written(listed: Node | None) -> list[Node]:
    """Return the parameters or arguments of a list."""
    return [one for one in listed.named_children if one.type != "comment"] if listed else []


def _pointer(tree: SyntaxTree, parameter: Node) -> str:
    declarator = parameter.child_by_field_name("declarator")
    is_value = declarator is None or declarator.type == "identifier"
    return "" if is_value else _declared(tree, declarator)


def _declared(tree: SyntaxTree, declarator: Node | None) -> str:
    """Return the name that `*name`, `(&name)[8]` or the like declares."""
    while declarator is not None and declarator.type != "identifier":
        declarator = _inner(declarator)
    return tree.text(declarator)


def _inner(declarator: Node) -> Node | None:
    """Return the declarator within another: `a[2]` of `*a[2]`."""
    return declarator.child_by_field_name("declarator") or next(
        (one for one in declarator.named_children if one.type in _DECLARATORS), None
    )


def _launch(tree: SyntaxTree, node: Node) -> Launch | None:
    how = next((one for one in node.children if one.type == "kernel_call_syntax"), None)
    if how is None:
        return None
    written = [" ".join(tree.text(one).split()) for one in _written(how)]
    grid, block, shared = (*written, "", "", "")[:3]
    kernel = plain_name(tree.text(node.child_by_field_name("function")))
    return Launch(line_of(node), kernel, grid, block, "" if shared == "0" else shared)


def plain_name(name: str) -> str:
    """Return `multiply` of `tiles::multiply<16, 8>`."""
    return name.partition("<")[0].rpartition("::")[2].strip()


def _arrays(tree: SyntaxTree, declaration: Node) -> Iterator[SharedArray]:
    """Yield the arrays that a declaration puts into shared memory."""
    words = (tree.text(one) for one in declaration.children if one.type == "type_qualifier")
    if "__shared__" not in words:
        return
    for one in declaration.children_by_field_name("declarator"):
        extents, declarator = list[str](), one
        while declarator.type == "array_declarator":
            size = tree.text(declarator.child_by_field_name("size"))
            extents.append(f"[{''.join(size.split())}]")
            inner = declarator.child_by_field_name("declarator")
            assert inner, "the grammar gives each array declarator one of what it is an array of"
            declarator = inner
        if extents:
            yield SharedArray(line_of(one), tree.text(declarator), "".join(reversed(extents)))


@lru_cache(maxsize=64)
def facts_of(text: str) -> SourceFacts:
    """Return the facts of a source, which share what was read of the same text before."""
    return SourceFacts(text)


@lru_cache(maxsize=256)
def signs_of(source: SourceFacts) -> frozenset[str]:
    """Return the techniques of `SIGNS` that the kernel's text shows signs of.

    Every prompt of a round asks for the signs of the same kernels, which takes milliseconds each.
    """
    named = (name for name, sign in TECHNIQUE_PATTERNS.items() if sign.search(source.code))
    first = ("loads_first",) if _loads_first(source) else ()
    return frozenset((*named, *_vectors(source), *first))


@lru_cache(maxsize=256)
def part_of_kernel(source: SourceFacts, kernel: str) -> SourceFacts:
    """Return the text with the functions blanked that `kernel` does not call, line for line.

    `kernel` is as a profile names it: `tiles::multiply<16, 8>`. All of `source` where no function
    has that name.
    """
    lines = source.code.split("\n")
    reached = set[Function]()
    due = [one for one in source.functions if one.name == plain_name(kernel)]
    if not due:
        return source
    while due:
        reached.add(found := due.pop())
        called = {*_WORD.findall("\n".join(lines[found.first - 1 : found.last]))}
        due += [one for one in source.functions if one.name in called and one not in reached]
    for one in {*source.functions} - reached:
        lines[one.first - 1 : one.last] = [""] * (one.last - one.first + 1)
    return SourceFacts("\n".join(lines))


def _loads_first(source: SourceFacts) -> bool:
    """Return whether a thread issues several loads before it uses the first value: a loop that only
    fills a local array from global memory, or declarations in a row that each load."""
    shared = _shared_names(source)
    local = set(_local_arrays(source))

    def reads(node: Node | None) -> bool:
        """Return whether an expression looks at memory that is not shared."""
        if node is None:
            return False
        names = shared.get(source.function_around(line_of(node)), shared[None]) | local
        return any(one["name"] not in names for one in _READ.finditer(source.tree.text(node)))

    def fills(loop: Node) -> bool:
        """Return whether statements only load into elements of local arrays; where the loop is
        unrolled, whether some do, since nothing that the others compute delays a load."""
        unrolled = "unroll" in source.line(line_of(loop) - 1)
        body = loop.child_by_field_name("body")
        found, due = False, [body] if body is not None else []
        while due:
            node = due.pop()
            if node.type in _NESTING:
                due += (one for one in node.named_children if one.type in _STATEMENTS)
                continue
            declared = (
                node.child_by_field_name("declarator") if node.type == "declaration" else None
            )
            assigned = declared or next(iter(node.named_children), None)
            left = assigned.child_by_field_name("left") if assigned else None
            target = _ELEMENT.match(source.tree.text(left)) if left else None
            kept = target and (target["field"] or target["name"] in local)
            if declared is not None or (assigned is not None and kept):
                part = "right" if declared is None else "value"
                loads = assigned is not None and reads(assigned.child_by_field_name(part))
                found = found or (loads and (declared is None or not unrolled))
            elif not unrolled:
                return False
        return found

    return any(map(fills, source.nodes["for"])) or any(
        _loads_in_a_row(source, one, reads) for one in source.nodes["declaration"]
    )


def _local_arrays(source: SourceFacts) -> Iterator[str]:
    """Yield the names of arrays that are not shared."""
    shared = {one.name for one in source.shared_arrays}
    for declaration in source.nodes["declaration"]:
        for one in declaration.children_by_field_name("declarator"):
            inner = one.child_by_field_name("declarator") if one.type == "init_declarator" else one
            name = _declared(source.tree, inner)
            if inner is not None and inner.type == "array_declarator" and name not in shared:
                yield name


def _loads_in_a_row(
    source: SourceFacts, declaration: Node, reads: Callable[[Node | None], bool]
) -> bool:
    """Return whether a declaration loads, and another value of it or the next declaration too,
    without the first one's value."""
    following = declaration.next_named_sibling
    listed = [declaration, *([following] if following and following.type == "declaration" else [])]
    found = [
        (_words(source.tree.text(one.child_by_field_name("declarator"))), value)
        for each in listed
        for one in each.children_by_field_name("declarator")
        if (value := one.child_by_field_name("value")) is not None and reads(value)
    ]
    pairs = pairwise(found)
    return any(not names & _words(source.tree.text(value)) for (names, _), (_, value) in pairs)


def _vectors(source: SourceFacts) -> Iterator[str]:
    """Yield whether vector types look at shared memory, and whether at other memory."""
    shared = _shared_names(source)
    found = {True} if _SHARED_VECTOR.search(source.code) else set[bool]()
    for match in _TARGET.finditer(source.code):
        scope = source.function_around(source.line_at(match.start()))
        found.add(match["name"] in shared.get(scope, shared[None]))
    if True in found:
        yield "shared_vectors"
    if False in found or _GLOBAL_VECTOR.search(source.code):
        yield "global_vectors"


def _shared_names(source: SourceFacts) -> Mapping[Function | None, set[str]]:
    """Return the names of pointers to shared memory in each function, and outside by None.

    They are followed through declarations with a value and through arguments of calls.
    """
    known = {one.name for one in source.shared_arrays}
    shared: dict[Function | None, set[str]] = {one: {*known} for one in (None, *source.functions)}
    steps = [*_assignments(source), *_arguments(source)]
    for _ in range(MOST_PASSES):
        size = sum(map(len, shared.values()))
        for scope, given, target, name in steps:
            if shared[scope] & given:
                shared[target].add(name)
        if size == sum(map(len, shared.values())):
            break
    return shared


_Step: TypeAlias = tuple[Function | None, set[str], Function | None, str]
"""A function, the names of which one is used there, and the function and the name that get the
value of that name."""


def _assignments(source: SourceFacts) -> Iterator[_Step]:
    """Yield the declarations of pointers with a value."""
    tree = source.tree
    for one in source.nodes["value"]:
        declarator = one.child_by_field_name("declarator")
        if declarator is not None and declarator.type == "pointer_declarator":
            scope = source.function_around(line_of(one))
            given = _words(tree.text(one.child_by_field_name("value")))
            yield scope, given, scope, _declared(tree, declarator)


def _arguments(source: SourceFacts) -> Iterator[_Step]:
    """Yield what calls give for the pointers among the parameters of functions of this source."""
    tree = source.tree
    targets = defaultdict[str, list[Function]](list)
    for one in source.functions:
        targets[one.name].append(one)
    for call in source.nodes["call"]:
        called = plain_name(tree.text(call.child_by_field_name("function")))
        for target in targets[called]:
            scope = source.function_around(line_of(call))
            given = _written(call.child_by_field_name("arguments"))
            for parameter, argument in zip(target.parameters, given, strict=False):
                if parameter:
                    yield scope, _words(tree.text(argument)), target, parameter


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text))
