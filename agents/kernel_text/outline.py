"""The functions and blocks of a source, found in its text in time linear in its length."""

import re
from dataclasses import dataclass
from itertools import islice

from cuda_llm.agents.kernel_text.tokens import blank_strings

_SOLVE = re.compile(r"\bsolve\s*\(")
_LAUNCH = re.compile(r"\b([A-Za-z_]\w*)\s*(?:<[^<>;{}\n]{0,200}>)?\s*<<<")
_KERNEL = re.compile(r"\b__global__\b[^;{}()]{0,200}")
_NAME = re.compile(r"([A-Za-z_]\w*)\s*\Z")
_IDENTIFIER = re.compile(r"\b[A-Za-z_]\w*\b")
MOST_PARAMETERS = 4000
MOST_PLACES = 200


def defines_solve(source: str) -> bool:
    """Return whether a function `solve` is defined, not only declared or called."""
    code = blank_strings(source)
    places = islice(_SOLVE.finditer(code), MOST_PLACES)
    return any(_opens_body(code, match.end()) for match in places)


def is_balanced(source: str) -> bool:
    """Return whether all braces and parentheses are closed: a file cut short rarely has that."""
    code = blank_strings(source)
    return code.count("{") == code.count("}") and code.count("(") == code.count(")")


def kernels_defined(source: str) -> frozenset[str]:
    """Return names of the `__global__` functions."""
    names = set()
    code = re.sub(r"__launch_bounds__\s*\([^()]*\)", " ", blank_strings(source))
    for match in _KERNEL.finditer(code):
        if code[match.end() : match.end() + 1] == "(" and (name := _NAME.search(match[0])):
            names.add(name[1])
    return frozenset(names)


def kernels_launched(source: str) -> frozenset[str]:
    """Return the names in front of `<<<`."""
    return frozenset(match[1] for match in _LAUNCH.finditer(blank_strings(source)))


def identifiers(source: str) -> frozenset[str]:
    """Return every name in the code."""
    return frozenset(_IDENTIFIER.findall(blank_strings(source)))


def _opens_body(code: str, start: int) -> bool:
    """Return whether a brace follows the parameter list that begins at `start`."""
    depth = 1
    for index in range(start, min(len(code), start + MOST_PARAMETERS)):
        depth += (code[index] == "(") - (code[index] == ")")
        if depth == 0:
            return re.compile(r"\s*(?:noexcept\s*)?\{").match(code, index + 1) is not None
        if code[index] in ";{}":
            return False
    return False


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
            stack.append((kind, _header(head, kind), _line(code, begin)))
        elif character == "}" and stack:
            kind, header, first = stack.pop()
            found.append(CodeBlock(kind, header, first, _line(code, index)))
        if character in "{};" and not _inside_brackets(code, start, index):
            start = index + 1
    last = _line(code, len(code))
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
        close = _closing(code, match.end())
        body = re.compile(r"\s*").match(code, close)
        start = body.end() if body else close
        if start >= len(code) or code[start] in "{;":
            continue
        end = code.find(";", start)
        end = len(code) - 1 if end < 0 else end
        header = " ".join(code[match.end() : close].split())
        found.append(CodeBlock(match["kind"], header, _line(code, match.start()), _line(code, end)))
    return found


def _closing(code: str, start: int) -> int:
    """Return position behind the bracket that closes the one at `start`."""
    depth = 0
    for index in range(start, len(code)):
        depth += code[index] == "("
        depth -= code[index] == ")"
        if depth == 0:
            return index + 1
    return len(code)


def _line(code: str, offset: int) -> int:
    return code.count("\n", 0, offset) + 1
