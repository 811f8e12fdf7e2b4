"""Signs of techniques in a kernel's text, so that nobody is told to do what is there already.

A heuristic, like all reading of text here. Of a vector access it has to be known whether it is to
shared memory: its pointer is followed through assignments and calls.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from cuda_llm.agents.kernel_text.facts import (
    VECTOR,
    SourceFacts,
    closing_bracket,
    line_of,
    split_arguments,
)

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
"""By name of a technique. Copies that a later step waits for are double buffering too."""
SIGNS = frozenset({*TECHNIQUE_PATTERNS, "shared_vectors", "global_vectors"})

_TARGET = re.compile(rf"(?:{VECTOR.pattern})\s*>?\s*\(?\s*&?\s*(?P<name>\w+)")
_GLOBAL_VECTOR = re.compile(
    r"\b(?:float|int|uint|double|ushort|short|uchar|char)[248]\s*\*\s*(?:__restrict__\s*)?\w+\s*[,)]"
    r"|cp\.async\.cg"
)
_SHARED_VECTOR = re.compile(r"__shared__[^;=]*\b(?:float|u?int|double)[24]\s|ld\.shared\.v[24]")
_POINTER = re.compile(
    r"\*\s*(?:const\s+)?(?:__restrict__\s+)?(?P<name>\w+)\s*=(?!=)\s*(?P<value>[^;]*);"
)
_PARAMETER = re.compile(r"\(\s*[&*]\s*(?P<inside>\w+)\s*\)|(?P<last>\w+)\s*(?:\[[^\]]*\]\s*)*$")
_WORD = re.compile(r"[A-Za-z_]\w*")


@lru_cache(maxsize=256)
def signs_of(source: SourceFacts) -> frozenset[str]:
    """Return the techniques the kernel shows signs of, of `SIGNS`.

    Every prompt of a round asks it of the same kernels, which takes milliseconds for each.
    """
    named = (name for name, sign in TECHNIQUE_PATTERNS.items() if sign.search(source.code))
    return frozenset((*named, *_vectors(source)))


def part_of_kernel(source: SourceFacts, kernel: str) -> SourceFacts:
    """Return the text with the functions blanked that a kernel does not come to, line for line.

    `kernel` is as a profile names it: `tiles::multiply<16, 8>`. All of it where that is not found.
    """
    heads = _functions(source)
    blocks = {one.first: one for one in source.blocks if one.kind == "function"}
    lines = source.code.split("\n")
    texts = {one: "\n".join(lines[one.line : blocks[one.line].last]) for one in heads}
    name = re.sub(r"<.*", "", kernel, flags=re.DOTALL).rsplit("::", 1)[-1].strip()
    reached: set[_Function] = set()
    due = [one for one in heads if one.name == name]
    if not due:
        return source
    while due:
        reached.add(found := due.pop())
        called = {*_WORD.findall(texts[found])}
        due += [one for one in heads if one.name in called and one not in reached]
    for one in {*heads} - reached:
        lines[one.line - 1 : blocks[one.line].last] = [""] * (blocks[one.line].last - one.line + 1)
    return SourceFacts("\n".join(lines))


def _vectors(source: SourceFacts) -> Iterator[str]:
    """Yield whether vector types look at shared memory, and whether at other memory."""
    shared = _shared_names(source)
    found = {True} if _SHARED_VECTOR.search(source.code) else set[bool]()
    for match in _TARGET.finditer(source.code):
        found.add(match["name"] in shared.get(_scope(source, match.start()), shared[None]))
    if True in found:
        yield "shared_vectors"
    if False in found or _GLOBAL_VECTOR.search(source.code):
        yield "global_vectors"


@dataclass(frozen=True)
class _Function:
    name: str
    parameters: tuple[str, ...]
    """Names; empty of one that is no pointer."""
    line: int


def _shared_names(source: SourceFacts) -> dict[int | None, set[str]]:
    """Return the names of shared memory in each function, by its first line; under None those
    that all functions know."""
    functions = _functions(source)
    known = {one.name for one in source.shared_arrays}
    shared: dict[int | None, set[str]] = {None: known, **{one.line: {*known} for one in functions}}
    size = -1
    while size != (size := sum(map(len, shared.values()))):
        for match in _POINTER.finditer(source.code):
            scope = shared.get(_scope(source, match.start()), known)
            if scope & {*_WORD.findall(match["value"])}:
                scope.add(match["name"])
        for one in functions:
            shared[one.line] |= {*_given(source, one, shared)}
    return shared


def _given(
    source: SourceFacts, called: _Function, shared: Mapping[int | None, set[str]]
) -> Iterator[str]:
    """Yield the parameters of a function that some call gives shared memory for."""
    call = re.compile(rf"\b{re.escape(called.name)}\s*(?:<[^;<>()]*>\s*)?\(")
    for match in call.finditer(source.code):
        names = shared.get(_scope(source, match.start()), shared[None])
        end = closing_bracket(source.code, match.end() - 1) - 1
        arguments = split_arguments(source.code[match.end() : end])
        for parameter, argument in zip(called.parameters, arguments, strict=False):
            if parameter and names & {*_WORD.findall(argument)}:
                yield parameter


def _functions(source: SourceFacts) -> list[_Function]:
    heads = (one for one in source.blocks if one.kind == "function")
    return [found for one in heads if (found := _read_head(one.header, one.first))]


def _read_head(header: str, line: int) -> _Function | None:
    """Return the function of a head that ends with its parameters."""
    opened = [match.start() for match in re.finditer(r"\(", header)]
    starts = [at for at in opened if closing_bracket(header, at) == len(header.rstrip())]
    name = re.search(r"(\w+)\s*$", header[: starts[0]]) if starts else None
    if name is None:
        return None
    written = split_arguments(header.rstrip()[starts[0] + 1 : -1])
    return _Function(name[1], tuple(map(_pointer_name, written)), line)


def _pointer_name(parameter: str) -> str:
    match = _PARAMETER.search(parameter.strip())
    if match is None or not re.search(r"[*&\[]", parameter):
        return ""
    return match["inside"] or match["last"]


def _scope(source: SourceFacts, offset: int) -> int | None:
    """Return the first line of the function that holds a position."""
    function = source.kernel_around(line_of(source.code, offset))
    return function.first if function else None
