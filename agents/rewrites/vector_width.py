"""Loads and stores of neighbouring elements at once, where code walks along a pointer.

Whether the first element is aligned is asked at run time, and what is left over takes the code as
it was.
"""

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from tree_sitter import Node

from cuda_llm.agents.rewrites.block_extents import Edits, block_extents, scaled_grid, shares_launch
from cuda_llm.agents.rewrites.kernel_source import (
    BARRIER,
    CROSS_LANE,
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

WIDTHS = (2, 4, 8, 16)
MOST_BYTES = 16
"""Widest access of a thread."""
BYTES = {
    "char": 1, "signed char": 1, "unsigned char": 1, "int8_t": 1, "uint8_t": 1,
    "short": 2, "unsigned short": 2, "int16_t": 2, "uint16_t": 2, "half": 2, "__half": 2,
    "__nv_bfloat16": 2,
    "int": 4, "unsigned": 4, "unsigned int": 4, "int32_t": 4, "uint32_t": 4, "float": 4,
    "double": 8, "long long": 8, "int64_t": 8, "uint64_t": 8,
}  # fmt: skip
_BRANCHES = {
    "if_statement", "for_statement", "while_statement", "do_statement", "conditional_expression",
    "switch_statement", "lambda_expression",
}  # fmt: skip
_PACK = """\
// `count` neighbouring elements, which move as one.
template <int bytes> struct PackBits;
template <> struct PackBits<2> { typedef unsigned short Type; };
template <> struct PackBits<4> { typedef unsigned int Type; };
template <> struct PackBits<8> { typedef uint2 Type; };
template <> struct PackBits<16> { typedef uint4 Type; };
template <typename T, int count> union Pack {
    typename PackBits<sizeof(T) * count>::Type bits;
    T at[count];
    __device__ Pack() {}
};

"""


@dataclass(frozen=True)
class _Walk:
    """A pointer that code reads or writes at an index with a counter as one term."""

    pointer: str
    kind: str
    """Type of an element, without `const`."""
    rest: str
    """The index without the counter; empty where the counter is the index."""
    places: tuple[Node, ...]
    is_read: bool
    is_written: bool

    def address(self, counter: str) -> str:
        """Return the address of the element at a counter."""
        rest = f"{self.rest} + " if self.rest else ""
        return f"&{self.pointer}[{rest}{counter}]"

    def name(self, number: int) -> str:
        """Return the variable that holds the neighbours."""
        return f"pack{number}"


def wider_accesses(text: str, value: int) -> str | None:
    """Return the source whose loops along pointers take `value` elements a turn, and whose kernels
    of one element a thread take `value` neighbours a thread."""
    source = read_kernels(text)
    edits: Edits = {}
    for kernel in source.kernels:
        for one in below(kernel.body):
            if one.type == "for_statement" and (made := _wider_loop(source, kernel, one, value)):
                edits[one.start_byte, one.end_byte] = made
    wider = {one.name: _wider_kernel(source, one, value) for one in source.kernels}
    launches = {at: text for made in wider.values() for at, text in made.items()}
    others = [one for one in source.kernels if not wider[one.name]]
    if not any(shares_launch(source, one, launches) for one in others):
        edits |= launches
    return with_pack(source, edits)


def with_pack(source: KernelSource, edits: Edits) -> str | None:
    """Return the source with its edits and the type of packs; None without edits."""
    if not edits:
        return None
    if "union Pack" not in source.source:
        start = source.kernels[0].node
        while start.parent is not None and start.parent.type != "translation_unit":
            start = start.parent
        edits = {(start.start_byte, start.start_byte): _PACK, **edits}
    return source.edited(edits)


def _wider_loop(source: KernelSource, kernel: Kernel, loop: Node, width: int) -> str | None:
    """Return a loop `for (T c = first; c < end; c += step)` in packs, its rest, and the loop as it
    was for pointers that are not aligned."""
    body = loop.child_by_field_name("body")
    head = source.tree.between(loop.start_byte, body.start_byte) if body else ""
    found = re.fullmatch(
        r"for\s*\(\s*(?P<kind>[\w ]+?)\s+(?P<name>\w+)\s*=\s*(?P<first>[^;]+);"
        r"\s*(?P=name)\s*<\s*(?P<end>[^;]+);"
        r"\s*(?:(?P=name)\s*\+=\s*(?P<step>[^;]+)|\+\+\s*(?P=name)|(?P=name)\s*\+\+)\s*\)\s*",
        head,
        re.DOTALL,
    )
    if body is None or found is None or _is_unfit(source, body):
        return None
    kind, name, first, end = (found[each].strip() for each in ("kind", "name", "first", "end"))
    step = (found["step"] or "1").strip()
    if (first == "0") != (step == "1") or _changes(source, body, name):
        return None
    # From an index of another kind, as `offsets[row] + lane`, no thread takes whole packs.
    if "+" in first and "blockIdx" not in first:
        return None
    walks = _walks(source, kernel, (body,), name, width)
    if walks is None:
        return None
    inner = _with_packs(source, body, walks, "lane")
    turn = f"{name}_first"
    aligned = _aligned(walks, "0" if kind != "size_t" else "(size_t)0", width)
    begin, stride = (
        ("0", str(width)) if step == "1" else (f"({first}) * {width}", f"({step}) * {width}")
    )
    rest = "whole" if first == "0" else f"whole + ({first})"
    made = f"""{{
    {kind} whole = {aligned} ? ({end}) / {width} * {width} : 0;
    for ({kind} {turn} = {begin}; {turn} < whole; {turn} += {stride}) {{
{_loads(walks, turn, width)}
#pragma unroll
        for (int lane = 0; lane < {width}; lane++) {{
            {kind} {name} = {turn} + lane;
            {_inside(inner)}
        }}
{_stores(walks, turn)}
    }}
    for ({kind} {name} = {rest}; {name} < {end}; {name} += {step}) {{
        {_inside(source.text(body))}
    }}
}}"""
    return textwrap.indent(indented(made), " " * loop.start_point.column).lstrip()


def _inside(code: str) -> str:
    """Return the statements of a block in braces; other code as it is."""
    return code[1:-1].strip() if code.startswith("{") else code


def _wider_kernel(source: KernelSource, kernel: Kernel, width: int) -> Edits:
    """Return the edits of a kernel whose thread takes one element below a bound, and of the grids
    of its launches."""
    if _is_unfit(source, kernel.body):
        return {}
    declared, guard, *others = (*statements(kernel.body), None, None)
    counter = _thread_index(source, declared) if declared else ""
    if not counter or guard is None or guard.type != "if_statement":
        return {}
    condition = source.text(guard.child_by_field_name("condition"))[1:-1].strip()
    inside = guard.child_by_field_name("consequence")
    rest = [one for one in others if one]
    found = re.fullmatch(rf"{counter}\s*(<|>=)\s*([^&|?]+)", condition)
    if found is None or inside is None or guard.child_by_field_name("alternative") is not None:
        return {}
    leaves = bool(re.fullmatch(r"\{?\s*return\s*;\s*\}?", source.text(inside)))
    if found[1] == "<" and not rest:
        return _wider_run(source, kernel, declared, counter, found[2], (inside,), width)
    if found[1] == ">=" and leaves:
        return _wider_run(source, kernel, declared, counter, found[2], rest, width)
    return {}


def _wider_run(
    source: KernelSource,
    kernel: Kernel,
    declared: Node,
    counter: str,
    end: str,
    run: Sequence[Node],
    width: int,
) -> Edits:
    edits: Edits = {}
    for launch in source.launches_of(kernel):
        extents = block_extents(source, launch)
        grid = scaled_grid(source, launch, 0, extents[0], width) if len(extents) == 1 else None
        if grid is None:
            return {}
        edits |= grid
    if any(one.type == "return_statement" for node in run for one in below(node)):
        return {}
    walks = _walks(source, kernel, run, counter, width)
    if walks is None or not edits:
        return {}
    inner = "\n".join(_with_packs(source, one, walks, "lane") for one in run)
    plain = "\n".join(source.text(one) for one in run)
    if len(run) == 1:
        inner, plain = _inside(inner), _inside(plain)
    made = declared.child_by_field_name("declarator")
    value = source.text(made.child_by_field_name("value")) if made else ""
    kind = source.tree.between(declared.start_byte, made.start_byte).strip() if made else "int"
    first, own = f"{counter}_first", kind.removeprefix("const ")
    rest = f"{counter} < {first} + {width} && {counter} < {end}"
    body = f"""{{
    {kind} {first} = ({value}) * {width};
    if ({first} + {width} <= {end} && {_aligned(walks, first, width)}) {{
{_loads(walks, first, width)}
#pragma unroll
        for (int lane = 0; lane < {width}; lane++) {{
            {kind} {counter} = {first} + lane;
            {inner}
        }}
{_stores(walks, first)}
    }} else {{
        for ({own} {counter} = {first}; {rest}; {counter}++) {{
            {plain}
        }}
    }}
}}"""
    edits[kernel.body.start_byte, kernel.body.end_byte] = indented(body)
    return edits


def _thread_index(source: KernelSource, node: Node) -> str:
    """Return the variable that a declaration makes the number of the thread in the grid."""
    text = " ".join(source.text(node).split())
    block, thread = r"blockIdx\.x \* (?:blockDim\.x|\w+)", r"threadIdx\.x"
    sized = rf"(?:\((?:int|size_t|long long)\))?\(?(?:{block}|blockDim\.x \* blockIdx\.x)\)?"
    found = re.fullmatch(
        rf"(?:const )?(?:int|size_t|unsigned|unsigned int|long long|long) (\w+) = "
        rf"(?:{sized} \+ {thread}|{thread} \+ {sized});",
        text,
    )
    return found[1] if found else ""


def _is_unfit(source: KernelSource, node: Node) -> bool:
    text = source.text(node)
    return bool(BARRIER.search(text) or CROSS_LANE.search(text) or "union Pack" in text)


def _changes(source: KernelSource, node: Node, name: str) -> bool:
    """Return whether a piece of code gives a variable another value, or leaves the loop early."""
    leaving = ("break_statement", "return_statement", "continue_statement")
    return name in names_set(source, node) or any(one.type in leaving for one in below(node))


def _walks(
    source: KernelSource, kernel: Kernel, run: Sequence[Node], counter: str, width: int
) -> tuple[_Walk, ...] | None:
    """Return the pointers that are walked along with a counter; None where there are none, or an
    access would be wider than `MOST_BYTES`.

    A pointer that is written is left alone where it is used at other indices too, or where only
    some turns write.
    """
    kinds = pointer_kinds(source, kernel)
    inside = [one for node in run for one in below(node)]
    declared = {
        declared_name(source, one)
        for one in inside
        if one.type in ("init_declarator", "declaration")
    }
    uses = dict[str, dict[str | None, list[Node]]]()
    for one in inside:
        if one.type != "subscript_expression":
            continue
        pointer = source.text(one.child_by_field_name("argument"))
        if pointer in kinds:
            rest = _rest_of_index(source, one, counter, declared)
            uses.setdefault(pointer, {}).setdefault(rest, []).append(one)
    walks = list[_Walk]()
    for pointer, by_rest in uses.items():
        written = {one.start_byte for each in by_rest.values() for one in each if is_written(one)}
        for rest, places in by_rest.items():
            if rest is None or (written and len(by_rest) > 1):
                continue
            here = [one for one in places if one.start_byte in written]
            if here and not all(is_always_run(one, run) for one in here):
                continue
            reads = any(one.start_byte not in written or _is_updated(one) for one in places)
            walks.append(_Walk(pointer, kinds[pointer], rest, tuple(places), reads, bool(here)))
    if not walks or any(BYTES[one.kind] * width > MOST_BYTES for one in walks):
        return None
    return tuple(walks)


def pointer_kinds(source: KernelSource, kernel: Kernel) -> dict[str, str]:
    """Return the type of the elements of each pointer that the kernel takes or declares."""
    found = dict[str, str]()
    declared = [one for one in below(kernel.body) if one.type == "declaration"]
    for one in (*kernel.parameters, *declared):
        text = " ".join(source.text(one).split()).partition("=")[0]
        pointer = re.fullmatch(
            r"(?:const )?([\w ]+?)(?: const)? ?\* ?(?:const )?(?:__restrict__ )?(\w+) ?;?", text
        )
        if pointer and pointer[1] in BYTES:
            found[pointer[2]] = pointer[1]
    return found


def _rest_of_index(
    source: KernelSource, node: Node, counter: str, declared: set[str]
) -> str | None:
    """Return an index without the counter, its last or first term; None without such a term.

    What is left must neither mention the counter nor what the code declares.
    """
    listed = node.child_by_field_name("indices")
    index = listed.named_children[0] if listed and listed.named_child_count == 1 else None
    if index is None:
        return None
    if source.text(index) == counter:
        return ""
    if (
        index.type != "binary_expression"
        or source.text(index.child_by_field_name("operator")) != "+"
    ):
        return None
    left, right = index.child_by_field_name("left"), index.child_by_field_name("right")
    for one, other in ((left, right), (right, left)):
        if one is not None and other is not None and source.text(other) == counter:
            names = names_below(source, one)
            return source.text(one) if not names & (declared | {counter}) else None
    return None


def is_written(node: Node) -> bool:
    """Return whether code gives an element another value, or takes its address."""
    around = node.parent
    if around is None:
        return False
    if around.type == "update_expression" or around.type == "pointer_expression":
        return True
    return around.type == "assignment_expression" and around.child_by_field_name("left") == node


def _is_updated(node: Node) -> bool:
    around = node.parent
    operator = around.child_by_field_name("operator") if around else None
    return operator is None or operator.type != "="


def is_always_run(node: Node, run: Sequence[Node]) -> bool:
    """Return whether each turn comes by a node."""
    starts = {(one.start_byte, one.end_byte) for one in run}
    around: Node | None = node
    while around is not None:
        if around.type in _BRANCHES or around.type == "pointer_expression":
            return False
        if (around.start_byte, around.end_byte) in starts:
            return True
        around = around.parent
    return False


def _with_packs(source: KernelSource, node: Node, walks: Sequence[_Walk], lane: str) -> str:
    """Return a node's text in which the elements come from the packs."""
    places = {
        (place.start_byte, place.end_byte): f"{walk.name(number)}.at[{lane}]"
        for number, walk in enumerate(walks)
        for place in walk.places
    }
    return source.render(
        node,
        lambda one: (
            places.get((one.start_byte, one.end_byte))
            if one.type == "subscript_expression"
            else None
        ),
    )


def _aligned(walks: Sequence[_Walk], counter: str, width: int) -> str:
    """Return the condition that the element of each pointer at a counter begins a pack."""
    return " && ".join(
        dict.fromkeys(
            f"(size_t)({one.address(counter)}) % {BYTES[one.kind] * width} == 0" for one in walks
        )
    )


def _loads(walks: Sequence[_Walk], counter: str, width: int) -> str:
    lines = list[str]()
    for number, one in enumerate(walks):
        pack = f"Pack<{one.kind}, {width}>"
        lines.append(f"        {pack} {one.name(number)};")
        if one.is_read:
            bits = f"decltype({one.name(number)}.bits)"
            address = one.address(counter)
            lines.append(
                f"        {one.name(number)}.bits = *reinterpret_cast<const {bits}*>({address});"
            )
    return "\n".join(lines)


def _stores(walks: Sequence[_Walk], counter: str) -> str:
    return "\n".join(
        f"        *reinterpret_cast<decltype({one.name(number)}.bits)*>({one.address(counter)})"
        f" = {one.name(number)}.bits;"
        for number, one in enumerate(walks)
        if one.is_written
    )
