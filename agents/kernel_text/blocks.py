"""The blocks of C++ text: what stands in braces, and what decides whether it runs."""

import re
from dataclasses import dataclass

from cuda_llm.agents.kernel_text.code import blank_strings

_HEAD = re.compile(r"\b(if|for|while|switch|do|else)\b")
_SINGLE = re.compile(r"\b(?P<kind>if|for|while)\s*(?:constexpr\s*)?(?=\()")


@dataclass(frozen=True)
class Block:
    """Lines that run together."""

    kind: str
    """`if`, `else`, `for`, `while`, `switch`, `do`, `function` or `other`."""
    header: str
    """What stands before it, on one line: a condition in brackets, or a function's head."""
    first: int
    """Line of its header."""
    last: int


def read_blocks(code: str) -> tuple[Block, ...]:
    """Blocks of `code`, by first line. Unbalanced braces end what is open."""
    plain = blank_strings(code)
    found = [*_braced(plain), *_unbraced(plain)]
    return tuple(sorted(found, key=lambda block: (block.first, -block.last)))


def _braced(code: str) -> list[Block]:
    found: list[Block] = []
    stack: list[tuple[str, str, int]] = []
    start = 0
    for index, character in enumerate(code):
        if character == "{":
            head = code[start:index]
            kind = _kind(head, depth=len(stack))
            begin = start + len(head) - len(head.lstrip())
            stack.append((kind, _header(head, kind), _line(code, begin)))
        elif character == "}" and stack:
            kind, header, first = stack.pop()
            found.append(Block(kind, header, first, _line(code, index)))
        if character in "{};" and not _inside_brackets(code, start, index):
            start = index + 1
    last = _line(code, len(code))
    found += [Block(kind, header, first, last) for kind, header, first in stack]
    return found


def _inside_brackets(code: str, start: int, end: int) -> bool:
    """Whether a semicolon stands in the brackets of a `for`."""
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


def _unbraced(code: str) -> list[Block]:
    """`if (...) statement;` without braces."""
    found = []
    for match in _SINGLE.finditer(code):
        close = _closing(code, match.end())
        body = re.compile(r"\s*").match(code, close)
        start = body.end() if body else close
        if start >= len(code) or code[start] in "{;":
            continue
        end = code.find(";", start)
        end = len(code) - 1 if end < 0 else end
        header = " ".join(code[match.end() : close].split())
        found.append(Block(match["kind"], header, _line(code, match.start()), _line(code, end)))
    return found


def _closing(code: str, start: int) -> int:
    """Position behind the bracket that closes the one at `start`."""
    depth = 0
    for index in range(start, len(code)):
        depth += code[index] == "("
        depth -= code[index] == ")"
        if depth == 0:
            return index + 1
    return len(code)


def _line(code: str, offset: int) -> int:
    return code.count("\n", 0, offset) + 1
