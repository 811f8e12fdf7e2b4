"""What a kernel's text shows: its blocks, launches, shared memory, barriers and accesses.

A heuristic: no macro is expanded, no type is known.

Good enough to point at a line; never to refuse a kernel.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from cuda_llm.agents.kernel_text.tokens import blank_comments, blank_strings

VECTOR = re.compile(
    r"reinterpret_cast\s*<\s*(?:const\s+)?\w*(?:[2348])\s*(?:const\s*)?\*"
    r"|\(\s*(?:const\s+)?(?:u?int|float|double|half|short|char|long)(?:long)?[248]\s*\*\s*\)"
)
ATOMIC = re.compile(r"\batomic[A-Z]\w*\s*\(|\b(?:red|atom)\.(?:global|shared)")

_LAUNCH = re.compile(r"\b(?P<kernel>\w+)\s*(?:<[^<>;{}]*>)?\s*<<<(?P<how>.*?)>>>", re.DOTALL)
_SHARED = re.compile(
    r"(?P<extern>\bextern\s+)?__shared__\s+(?:__align__\([^)]*\)\s*)?(?P<type>[\w:]+(?:\s+\w+)*?)\s+"
    r"(?P<name>\w+)\s*(?P<extents>(?:\[[^\]]*\])+)"
)
_BARRIER = re.compile(r"\b__syncthreads(?:_\w+)?\s*\(|\bblock\.sync\s*\(|\bbar\.sync\b")
_HEAD = re.compile(r"\b(if|for|while|switch|do|else)\b")
_SINGLE = re.compile(r"\b(?P<kind>if|for|while)\s*(?:constexpr\s*)?(?=\()")


@dataclass(frozen=True)
class CodeBlock:
    """Lines that run together."""

    kind: str
    """`if`, `else`, `for`, `while`, `switch`, `do`, `function` or `other`."""
    header: str
    """What stands before it, on one line: a condition in brackets, or a function's head."""
    first: int
    """Line of its header."""
    last: int


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
        """Return the kernel launches, in order."""
        found = []
        for match in _LAUNCH.finditer(self.code):
            how = [part.strip() for part in split_arguments(match["how"])]
            grid, block, shared = [*how, "", "", ""][:3]
            line = line_of(self.code, match.start())
            found.append(
                Launch(line, match["kernel"], grid, block, "" if shared == "0" else shared)
            )
        return tuple(found)

    @cached_property
    def shared_arrays(self) -> tuple[SharedArray, ...]:
        """Return the static and dynamic shared arrays."""
        return tuple(
            SharedArray(line_of(self.code, m.start()), m["name"], "".join(m["extents"].split()))
            for m in _SHARED.finditer(self.code)
        )

    @cached_property
    def barriers(self) -> tuple[int, ...]:
        """Return the lines of block-wide barriers."""
        return tuple(self._lines(_BARRIER))

    @cached_property
    def vector_accesses(self) -> tuple[int, ...]:
        """Return the lines that look at memory through a vector type."""
        return tuple(self._lines(VECTOR))

    @cached_property
    def atomics(self) -> tuple[int, ...]:
        """Return the lines with an atomic."""
        return tuple(self._lines(ATOMIC))

    def line(self, number: int) -> str:
        """Return that line of code, stripped; empty beyond the end."""
        lines = self.code.splitlines()
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""

    def around(self, line: int, *kinds: str) -> tuple[CodeBlock, ...]:
        """Return the blocks of those kinds that hold `line`, innermost first."""
        inside = [b for b in self.blocks if b.first <= line <= b.last and b.kind in kinds]
        return tuple(sorted(inside, key=lambda b: (b.last - b.first, -b.first)))

    def kernel_around(self, line: int) -> CodeBlock | None:
        """Return the function that holds `line`."""
        return next(iter(self.around(line, "function")), None)

    def guards(self, line: int) -> tuple[str, ...]:
        """Return the conditions that compare something and decide whether `line` runs."""
        around = self.around(line, "if", "for", "while", "else")
        conditions = [block.header for block in around]
        conditions += [condition for _, condition in self._returns(line)]
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
        """Return the line of a conditional `return` of the same function before `line`."""
        return next((number for number, _ in self._returns(line)), None)

    def barriers_between(self, one: int, other: int) -> tuple[int, ...]:
        """Return the lines of barriers from the earlier to the later of two lines."""
        first, last = sorted((one, other))
        return tuple(line for line in self.barriers if first <= line <= last)

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
        yield from dict.fromkeys(
            line_of(self.code, match.start()) for match in pattern.finditer(self.code)
        )


def split_arguments(text: str) -> Iterator[str]:
    """Split at commas outside brackets."""
    depth, start = 0, 0
    for index, character in enumerate(text):
        depth += character in "([{"
        depth -= character in ")]}"
        if character == "," and depth == 0:
            yield text[start:index]
            start = index + 1
    yield text[start:]


def read_blocks(code: str) -> tuple[CodeBlock, ...]:
    """Return the blocks of `code`, by first line. Unbalanced braces end what is open."""
    plain = blank_strings(code)
    found = [*_braced(plain), *_unbraced(plain)]
    return tuple(sorted(found, key=lambda block: (block.first, -block.last)))


def _braced(code: str) -> list[CodeBlock]:
    found: list[CodeBlock] = []
    stack: list[tuple[str, str, int]] = []
    start = 0
    for index, character in enumerate(code):
        if character == "{":
            head = code[start:index]
            kind = _kind(head, depth=len(stack))
            begin = start + len(head) - len(head.lstrip())
            stack.append((kind, _header(head, kind), line_of(code, begin)))
        elif character == "}" and stack:
            kind, header, first = stack.pop()
            found.append(CodeBlock(kind, header, first, line_of(code, index)))
        if character in "{};" and not _inside_brackets(code, start, index):
            start = index + 1
    last = line_of(code, len(code))
    found += [CodeBlock(kind, header, first, last) for kind, header, first in stack]
    return found


def _inside_brackets(code: str, start: int, end: int) -> bool:
    """Return whether a semicolon stands in the brackets of a `for`."""
    if code[end] != ";":
        return False
    piece = code[start:end]
    return piece.count("(") > piece.count(")")


def _kind(head: str, depth: int) -> str:
    words = _HEAD.findall(head)
    if "if" in words:
        return "if"
    if words:
        return str(words[0])
    return "function" if head.rstrip().endswith(")") and depth <= 2 else "other"


def _header(head: str, kind: str) -> str:
    line = " ".join(head.split())
    if kind in {"if", "for", "while", "switch"} and "(" in line:
        return line[line.index("(") :]
    return line


def _unbraced(code: str) -> list[CodeBlock]:
    """Return the block of an `if (...) statement;` without braces."""
    found = []
    for match in _SINGLE.finditer(code):
        close = closing_bracket(code, match.end())
        body = re.compile(r"\s*").match(code, close)
        start = body.end() if body else close
        if start >= len(code) or code[start] in "{;":
            continue
        end = code.find(";", start)
        end = len(code) - 1 if end < 0 else end
        header = " ".join(code[match.end() : close].split())
        found.append(
            CodeBlock(match["kind"], header, line_of(code, match.start()), line_of(code, end))
        )
    return found


def closing_bracket(code: str, start: int) -> int:
    """Return the position behind the bracket that closes the one at `start`."""
    depth = 0
    for index in range(start, len(code)):
        depth += code[index] == "("
        depth -= code[index] == ")"
        if depth == 0:
            return index + 1
    return len(code)


def line_of(code: str, offset: int) -> int:
    """Return the line of a position, from 1."""
    return code.count("\n", 0, offset) + 1
