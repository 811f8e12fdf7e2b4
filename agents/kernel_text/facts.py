"""What a kernel's text shows: its techniques, its shared memory, its barriers, its accesses.

What the text of a kernel shows. A heuristic: no macro is expanded, no type is known.

Good enough to point at a line and to see which techniques a kernel uses already; never a reason to
refuse one.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from cuda_llm.agents.kernel_text.outline import CodeBlock, read_blocks
from cuda_llm.agents.kernel_text.tokens import blank_comments

VECTOR = re.compile(
    r"reinterpret_cast\s*<\s*(?:const\s+)?\w*(?:[2348])\s*(?:const\s*)?\*"
    r"|\(\s*(?:const\s+)?(?:u?int|float|double|half|short|char|long)(?:long)?[248]\s*\*\s*\)"
)
ATOMIC = re.compile(r"\batomic[A-Z]\w*\s*\(|\b(?:red|atom)\.(?:global|shared)")

TECHNIQUE_PATTERNS: Mapping[str, re.Pattern[str]] = {
    "padding": re.compile(r"__shared__[^;]*\[[^\]]*\+\s*\d+\s*\]|__shared__[^;]*\[(?:17|33|65)\]"),
    "swizzle": re.compile(r"\[[^\]\n]*\^[^\]\n]*\]"),
    "vector_access": VECTOR,
    "unrolling": re.compile(r"#\s*pragma\s+unroll"),
    "warp_shuffle": re.compile(r"__shfl_\w+|__reduce_\w+_sync|\.shfl(?:_\w+)?\s*\("),
    "warp_reduce": re.compile(r"__reduce_\w+_sync"),
    "bulk_copy": re.compile(r"cp\.async\.bulk|cuda_tma|CUtensorMap"),
    "private_copies": re.compile(
        r"__shared__[^;]*\[\s*\w*[wW]arps?\w*\s*\]|\b\w*(?:[wW]arp|[cC]opy)\w*\s*\*\s*\w*[bB]ins"
    ),
    "async_copy": re.compile(r"cp\.async|__pipeline_memcpy_async|memcpy_async"),
    "launch_bounds": re.compile(r"__launch_bounds__"),
    "grid_stride": re.compile(
        r"\+=\s*\(?[^;)]*(?:gridDim\.\w[^;)]*blockDim|blockDim\.\w[^;)]*gridDim|stride)"
    ),
    "register_blocking": re.compile(
        r"(?<!__shared__ )\b(?:float|double|int|half)\d?\s+\w+\s*(?:\[[^\]]+\]){1,2}\s*=\s*\{"
    ),
    "double_buffering": re.compile(
        r"__shared__[^;]*\[\s*2\s*\]|\bstage\s*\^=\s*1|\bbuf\w*\s*\^=\s*1"
    ),
}
"""By name of a technique."""

_LAUNCH = re.compile(r"\b(?P<kernel>\w+)\s*(?:<[^<>;{}]*>)?\s*<<<(?P<how>.*?)>>>", re.DOTALL)
_SHARED = re.compile(
    r"(?P<extern>\bextern\s+)?__shared__\s+(?:__align__\([^)]*\)\s*)?(?P<type>[\w:]+(?:\s+\w+)*?)\s+"
    r"(?P<name>\w+)\s*(?P<extents>(?:\[[^\]]*\])+)"
)
_BARRIER = re.compile(r"\b__syncthreads(?:_\w+)?\s*\(|\bblock\.sync\s*\(|\bbar\.sync\b")


@dataclass(frozen=True)
class Launch:
    """A `kernel<<<...>>>`."""

    line: int
    kernel: str
    grid: str
    block: str
    shared: str
    """Empty where no dynamic shared memory is asked for."""


@dataclass(frozen=True)
class SharedArray:
    """A `__shared__` declaration."""

    line: int
    name: str
    extents: str
    """As written, e.g. `[32][33]`; `[]` for dynamic shared memory."""


@dataclass(frozen=True)
class SourceFacts:
    """One source, read on demand. Lines count from 1."""

    text: str

    @cached_property
    def code(self) -> str:
        """Return the text with comments blanked, line for line."""
        return blank_comments(self.text)

    @cached_property
    def blocks(self) -> tuple[CodeBlock, ...]:
        """Return everything in braces, and single statements below an `if`, `for` or `while`."""
        return read_blocks(self.code)

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """Return kernel launches in order."""
        found = []
        for match in _LAUNCH.finditer(self.code):
            how = [part.strip() for part in _split(match["how"])]
            grid, block, shared = [*how, "", "", ""][:3]
            line = self._line(match.start())
            found.append(
                Launch(line, match["kernel"], grid, block, "" if shared == "0" else shared)
            )
        return tuple(found)

    @cached_property
    def shared_arrays(self) -> tuple[SharedArray, ...]:
        """Return static and dynamic shared arrays."""
        return tuple(
            SharedArray(self._line(m.start()), m["name"], "".join(m["extents"].split()))
            for m in _SHARED.finditer(self.code)
        )

    @cached_property
    def barriers(self) -> tuple[int, ...]:
        """Return lines of block-wide barriers."""
        return tuple(self._lines(_BARRIER))

    @cached_property
    def vector_accesses(self) -> tuple[int, ...]:
        """Return lines that look at memory through a vector type."""
        return tuple(self._lines(VECTOR))

    @cached_property
    def atomics(self) -> tuple[int, ...]:
        """Return lines with an atomic."""
        return tuple(self._lines(ATOMIC))

    @cached_property
    def uses(self) -> frozenset[str]:
        """Return techniques the kernel shows signs of, by the names of `SIGNS`."""
        return frozenset(
            name for name, pattern in TECHNIQUE_PATTERNS.items() if pattern.search(self.code)
        )

    def line(self, number: int) -> str:
        """Return that line of code, stripped; empty beyond the end."""
        lines = self.code.splitlines()
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""

    def around(self, line: int, *kinds: str) -> tuple[CodeBlock, ...]:
        """Return blocks of those kinds that hold `line`, innermost first."""
        inside = [b for b in self.blocks if b.first <= line <= b.last and b.kind in kinds]
        return tuple(sorted(inside, key=lambda b: (b.last - b.first, -b.first)))

    def kernel_around(self, line: int) -> CodeBlock | None:
        """Return the function that holds `line`."""
        return next(iter(self.around(line, "function")), None)

    def guards(self, line: int) -> tuple[str, ...]:
        """Return conditions that compare something and decide whether `line` runs."""
        around = self.around(line, "if", "for", "while", "else")
        conditions = [block.header for block in around]
        conditions += [c for c in self._left_early(line)]
        own = self.line(line)
        conditions += [own] if re.search(r"\bif\s*\(|\?", own) else []
        return tuple(c for c in conditions if re.search(r"[<>]=?|==|!=|&&|\|\|", c))

    def branch_around(self, line: int) -> CodeBlock | None:
        """Return the innermost `if` or `else` around `line` that asks about the thread."""
        for block in self.around(line, "if", "else"):
            if block.kind == "else" or re.search(
                r"threadIdx|lane|warp|\btid\b|\b[xyij]\b", block.header
            ):
                return block
        return None

    def left_early(self, line: int) -> int | None:
        """Return line of a conditional `return` of the same function before `line`."""
        return next((number for number, _ in self._returns(line)), None)

    def barriers_between(self, one: int, other: int) -> tuple[int, ...]:
        """Return lines of barriers from the earlier to the later of two lines."""
        first, last = sorted((one, other))
        return tuple(line for line in self.barriers if first <= line <= last)

    def _left_early(self, line: int) -> Iterator[str]:
        for _, condition in self._returns(line):
            yield condition

    def _returns(self, line: int) -> Iterator[tuple[int, str]]:
        function = self.kernel_around(line)
        if function is None:
            return
        for block in self.blocks:
            inside = block.kind == "if" and function.first <= block.first and block.last < line
            body = range(block.first, block.last + 1)
            if inside and any(re.search(r"\breturn\b", self.line(n)) for n in body):
                yield block.first, block.header

    def _lines(self, pattern: re.Pattern[str]) -> Iterator[int]:
        yield from dict.fromkeys(self._line(match.start()) for match in pattern.finditer(self.code))

    def _line(self, offset: int) -> int:
        return self.code.count("\n", 0, offset) + 1


def _split(text: str) -> Iterator[str]:
    """Split at commas outside brackets."""
    depth, start = 0, 0
    for index, character in enumerate(text):
        depth += character in "([{"
        depth -= character in ")]}"
        if character == "," and depth == 0:
            yield text[start:index]
            start = index + 1
    yield text[start:]
