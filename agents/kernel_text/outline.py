"""The functions of a source, found in its text in time linear in its length."""

import re
from itertools import islice

from cuda_llm.agents.kernel_text.code import blank_strings

_SOLVE = re.compile(r"\bsolve\s*\(")
_LAUNCH = re.compile(r"\b([A-Za-z_]\w*)\s*(?:<[^<>;{}\n]{0,200}>)?\s*<<<")
_KERNEL = re.compile(r"\b__global__\b[^;{}()]{0,200}")
_NAME = re.compile(r"([A-Za-z_]\w*)\s*\Z")
_IDENTIFIER = re.compile(r"\b[A-Za-z_]\w*\b")
MOST_PARAMETERS = 4000
MOST_PLACES = 200


def defines_solve(source: str) -> bool:
    """Whether a function `solve` is defined, not only declared or called."""
    code = blank_strings(source)
    places = islice(_SOLVE.finditer(code), MOST_PLACES)
    return any(_opens_body(code, match.end()) for match in places)


def is_balanced(source: str) -> bool:
    """Whether every brace and parenthesis is closed: a file cut short rarely is."""
    code = blank_strings(source)
    return code.count("{") == code.count("}") and code.count("(") == code.count(")")


def kernels_defined(source: str) -> frozenset[str]:
    """Names of the `__global__` functions."""
    names = set()
    code = re.sub(r"__launch_bounds__\s*\([^()]*\)", " ", blank_strings(source))
    for match in _KERNEL.finditer(code):
        if code[match.end() : match.end() + 1] == "(" and (name := _NAME.search(match[0])):
            names.add(name[1])
    return frozenset(names)


def kernels_launched(source: str) -> frozenset[str]:
    """Names in front of `<<<`."""
    return frozenset(match[1] for match in _LAUNCH.finditer(blank_strings(source)))


def identifiers(source: str) -> frozenset[str]:
    """Every name in the code."""
    return frozenset(_IDENTIFIER.findall(blank_strings(source)))


def _opens_body(code: str, start: int) -> bool:
    """Whether the parameter list that begins at `start` is followed by a brace."""
    depth = 1
    for index in range(start, min(len(code), start + MOST_PARAMETERS)):
        depth += (code[index] == "(") - (code[index] == ")")
        if depth == 0:
            return re.compile(r"\s*(?:noexcept\s*)?\{").match(code, index + 1) is not None
        if code[index] in ";{}":
            return False
    return False
