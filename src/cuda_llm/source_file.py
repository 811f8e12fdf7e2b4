"""CUDA source files: reading one, one line of one, and the numbers and kernel names in it."""

import math
import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cuda_llm.codec import SPARSE
from cuda_llm.errors import UsageError
from cuda_llm.source_kinds import foreign_source
from cuda_llm.source_tokens import blank_strings

MOST_CHARACTERS = 1 << 20
"""A source larger than this is not a kernel."""
_MOST_BYTES = 4 * MOST_CHARACTERS + 1
"""A character has at most four bytes."""

MOST_NAME = 60
"""Characters of a kernel's name; a longer name is shortened."""
LEAST_CONSTANT = 257
"""Smaller numbers in a source are widths of blocks and tiles, about which edge sizes lie."""
MOST_CONSTANT = 1 << 31
_NUMBER = r"(?<![\w.])(0[xX][0-9a-fA-F']+|\d[\d']*(?:\.\d*)?(?:[eE]\d+)?)[uUlLfF]*(?![\w.])"
_COMBINED = re.compile(rf"{_NUMBER}(?:\s*(<<|\*)\s*{_NUMBER})?")
_PLAIN = _NUMBER.replace("(0[xX]", "(?:0[xX]")
_TERM = rf"(?:{_PLAIN}(?:\s*(?:<<|\*)\s*\d+)?|[A-Za-z_]\w*)"
_COMPARED = re.compile(rf"(?<![\w.])({_TERM})\s*(?:<=|>=|==|!=|<(?!<)|>(?!>))\s*\(?\s*({_TERM})")
_NAMED = re.compile(
    r"(?:#\s*define\s+|(?:constexpr|const)\s+(?:\w+\s+)+)([A-Za-z_]\w*)"
    r"\s*=?\s*\(?([\w' *<]+?)\)?\s*[;\n]"
)


@dataclass(frozen=True, kw_only=True)
class SourceSpot:
    """One line of a source file."""

    file: str
    """Name as the user wrote it, without the private folder it was compiled in."""
    line: int
    text: str = ""
    """The line itself, stripped; empty when the file is not at hand."""
    inlined_at: tuple["SourceSpot", ...] = field(default=(), compare=False, metadata=SPARSE)
    """Lines that the function of the line was inlined at, the nearest first."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def read_source(path: Path) -> str:
    """Read one source file. Raises UsageError: missing, a folder, empty, too large,
    not text, or text of another language than CUDA C++."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES)
    except OSError as error:
        msg = f"{path}: {error.strerror}; expected a CUDA source file"
        raise UsageError(msg) from None
    return _text_of(data, str(path))


def read_stdin() -> str:
    """Read one source from stdin to its end. Raises UsageError as `read_source` does."""
    if sys.stdin is None:
        raise UsageError("stdin: closed; expected CUDA source")
    with open(sys.stdin.fileno(), "rb", closefd=False) as file:
        return _text_of(file.read(_MOST_BYTES), "stdin")


def _text_of(data: bytes, name: str) -> str:
    """Return what a file holds, with line ends as Python has them."""
    try:
        text = data.decode().replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        is_cut = len(data) == _MOST_BYTES and error.start > _MOST_BYTES - 4
        if not is_cut:
            raise UsageError(f"{name}{_not_text(data, error.start, name)}") from None
        text = data[: error.start].decode()
    if len(text) > MOST_CHARACTERS:
        msg = f"{name}: larger than {MOST_CHARACTERS:,} characters; expected one CUDA source"
        raise UsageError(msg)
    if not text.strip():
        msg = f"{name}: empty; expected CUDA source with a solve()"
        raise UsageError(msg)
    foreign = foreign_source(text)
    if foreign:
        raise UsageError(f"{name}: {foreign}")
    return text


def _not_text(data: bytes, at: int, name: str) -> str:
    """Return what follows the name of a file whose byte `at` is no UTF-8, with the remedy."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return f": UTF-16, not UTF-8; convert it: iconv -f UTF-16 -t UTF-8 {name}"
    if b"\0" in data:
        return ": not UTF-8 text; expected CUDA source, not a compiled file"
    line = data.count(b"\n", 0, at) + 1
    return (
        f":{line}: byte 0x{data[at]:02x} is not UTF-8, as of a comment in Latin-1; convert it: "
        f"iconv -f LATIN1 -t UTF-8 {name}"
    )


def short_kernel_name(name: str) -> str:
    """Return a kernel's C++ name without the namespaces and inner template arguments of a long one.

    `cub::detail::Reduce<Policy<float, 4>, int>` becomes `Reduce<Policy<…>, int>`; what is still too
    long keeps no template argument.
    """
    if len(name) <= MOST_NAME:
        return name
    head = name.partition("<")[0]
    name = name[head.rfind("::") + 2 :] if "::" in head else name
    for deepest in (1, 0):
        shown, depth = "", 0
        for character in name:
            depth -= character == ">"
            shown += character if depth <= deepest else ""
            depth += character == "<"
            shown += "…" if character == "<" and depth == deepest + 1 else ""
        if len(shown) <= MOST_NAME:
            return shown
    return f"{shown[: MOST_NAME - 1]}…"


def numbers_in(source: str) -> tuple[int, ...]:
    """Return the whole numbers from LEAST_CONSTANT on that a source spells, in order.

    A product or shift of two numbers counts beside them.
    """
    found = set()
    for match in _COMBINED.finditer(blank_strings(source)):
        first, operator, second = match.groups()
        values = [_whole_number(text) for text in (first, second) if text]
        found.update(values)
        if operator == "*":
            found.add(math.prod(values))
        elif operator and values[1] < MOST_CONSTANT.bit_length():
            found.add(values[0] << values[1])
    return tuple(sorted(one for one in found if LEAST_CONSTANT <= one < MOST_CONSTANT))


def thresholds_in(source: str, names: Collection[str]) -> Mapping[str, tuple[int, ...]]:
    """Return the numbers that a source compares variables of these names with, in order.

    Numbers may have a name of their own: `#define LIMIT 4096`, `constexpr int LIMIT = 1 << 12`.
    """
    text = blank_strings(source)
    known = {match[1]: _value(match[2]) for match in _NAMED.finditer(text)}
    found: dict[str, set[int]] = {}
    for match in _COMPARED.finditer(text):
        for name, other in ((match[1], match[2]), (match[2], match[1])):
            value = known[other] if other in known else _value(other)
            if name in names and 0 < value < MOST_CONSTANT:
                found.setdefault(name, set()).add(value)
    return {name: tuple(sorted(values)) for name, values in found.items()}


def shared_shape(source: str, name: str, size_bytes: int) -> tuple[int, ...]:
    """Return the extents of the `__shared__` array of this name and size.

    Empty where they are not spelled in numbers and named constants, or arrays of several shapes
    fit.
    """
    text = blank_strings(source)
    known = {match[1]: _value(match[2]) for match in _NAMED.finditer(text)}
    declared = rf"__shared__\b[^;{{}}=]*?\b{re.escape(name)}\s*((?:\[[^\[\]]*\]\s*)+)"
    found = set()
    for match in re.finditer(declared, text):
        extents = re.findall(r"\[([^\[\]]*)\]", match[1])
        shape = tuple(_extent(one, known) for one in extents)
        if any(size_bytes == width * math.prod(shape) for width in (1, 2, 4, 8, 16)):
            found.add(shape)
    return found.pop() if len(found) == 1 else ()


def _extent(text: str, known: Mapping[str, int]) -> int:
    """Return a number, a constant, or a sum of two; 0 where it is none."""
    parts = [one.strip() for one in text.split("+")]
    values = [known[one] if one in known else _value(one) for one in parts]
    return sum(values) if all(values) and len(values) <= 2 else 0


def _value(text: str) -> int:
    """Return a number, or a product or shift of two; 0 where it is neither."""
    match = _COMBINED.fullmatch(text.strip())
    if match is None:
        return 0
    first, operator, second = match.groups()
    value = _whole_number(first)
    if operator == "*":
        return value * _whole_number(second)
    bits = _whole_number(second) if operator else 0
    return value << bits if bits < MOST_CONSTANT.bit_length() else 0


def _whole_number(text: str) -> int:
    plain = text.replace("'", "")
    if plain[:2] in ("0x", "0X"):
        return int(plain, 16)
    return int(plain) if plain.isdigit() else int(min(float(plain), MOST_CONSTANT))
