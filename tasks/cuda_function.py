"""Finds one function in CUDA source and reads its parameters, of C-like signatures only."""

import re
from dataclasses import dataclass

from cuda_llm.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One parameter of a function."""

    name: str
    dtype: str
    """NumPy name."""
    pointer: bool
    const: bool
    """Points to const."""


@dataclass(frozen=True, kw_only=True)
class CudaFunction:
    """One function definition found in a source."""

    name: str
    is_kernel: bool
    """`__global__`, not a host function."""
    parameters: tuple[Parameter, ...]
    body: str
    """Text between its braces, without comments and strings."""


_DTYPES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "__half": "float16",
    "bool": "bool",
    "char": "int8",
    "signed char": "int8",
    "int8_t": "int8",
    "short": "int16",
    "int16_t": "int16",
    "int": "int32",
    "int32_t": "int32",
    "long long": "int64",
    "unsigned char": "uint8",
    "uint8_t": "uint8",
    "unsigned short": "uint16",
    "uint16_t": "uint16",
    "unsigned": "uint32",
    "unsigned int": "uint32",
    "uint32_t": "uint32",
    "unsigned long long": "uint64",
}
_SCALARS = _DTYPES | {"size_t": "uint64", "int64_t": "int64", "long": "int64", "uint64_t": "uint64"}
"""Types by value: C++ converts them, so their exact spelling does not matter."""

_NOISE = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_QUALIFIERS = re.compile(r"\b(?:__restrict__|__restrict|__grid_constant__|volatile)\b")


def find_function(source: str, name: str, where: str) -> CudaFunction:
    """Finds the definition of `name`. Raises UsageError, one line starting with `where`."""
    text = _NOISE.sub(lambda match: '""' if match[0][0] == '"' else " ", source)
    for match in re.finditer(rf"\b{re.escape(name)}\s*\(", text):
        closing = _matching(text, match.end() - 1)
        opening = re.compile(r"\s*\{").match(text, closing + 1)
        head = re.split(r"[;{}]|#[^\n]*\n", text[: match.start()])[-1]
        if opening is None or not re.search(r"\bvoid\b", head) or "__device__" in head:
            continue
        if re.search(r"\btemplate\b", head):
            raise UsageError(f"{where}: {name} is a template; expected a function of plain types")
        parameters = text[match.end() : closing]
        return CudaFunction(
            name=name,
            is_kernel="__global__" in head,
            parameters=tuple(_parameter(part, where) for part in _split(parameters)),
            body=text[opening.end() : _matching(text, opening.end() - 1)],
        )
    kernels = re.findall(r"__global__[^;{}]*?\b(?!__)(\w+)\s*\([^;{}]*\)\s*\{", text)
    known = ", ".join(dict.fromkeys(kernels)) or "no kernel at all"
    raise UsageError(f"{where}: has no void function {name}; found {known}")


def _matching(text: str, start: int) -> int:
    """Returns the index of the bracket that closes the one at `start`, or the end of the text."""
    pairs = {"(": ")", "{": "}"}
    opening, closing = text[start], pairs[text[start]]
    depth = 0
    for index in range(start, len(text)):
        depth += (text[index] == opening) - (text[index] == closing)
        if depth == 0:
            return index
    return len(text)


def _split(parameters: str) -> list[str]:
    if parameters.strip() in ("", "void"):
        return []
    parts, depth, start = [], 0, 0
    for index, char in enumerate(parameters):
        depth += (char in "(<[") - (char in ")>]")
        if char == "," and depth == 0:
            parts.append(parameters[start:index])
            start = index + 1
    return [*parts, parameters[start:]]


def _parameter(text: str, where: str) -> Parameter:
    shown = " ".join(text.split())
    plain = _QUALIFIERS.sub(" ", text.split("=")[0])
    match = re.fullmatch(r"\s*([\w\s]+?)\s*(\*?)\s*(?:const\s+)?(\w+)\s*(\[\s*\w*\s*\])?\s*", plain)
    if match is None:
        raise UsageError(f"{where}: parameter `{shown}`; expected a number or a pointer to numbers")
    words = match[1].split()
    pointer = bool(match[2] or match[4])
    ctype = " ".join(word for word in words if word not in ("const", "struct"))
    dtypes = _DTYPES if pointer else _SCALARS
    if ctype not in dtypes:
        raise UsageError(
            f"{where}: parameter `{shown}` of type {ctype or '?'}; "
            "expected a built-in number type, half or one of the intN_t"
        )
    return Parameter(
        name=match[3], dtype=dtypes[ctype], pointer=pointer, const="const" in words and pointer
    )
