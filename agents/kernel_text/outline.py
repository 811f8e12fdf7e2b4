"""A source as a whole: what it defines, launches and names, whether it is complete, and its hash
without layout. All in time linear in its length.
"""

import hashlib
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

from cuda_llm.agents.kernel_text.tokens import TokenKind, blank_strings, tokenise

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


@lru_cache(maxsize=256)
def normal_sha(source: str) -> str:
    """Return the hash of `source` without comments and layout.

    Layout that means something is kept: where a preprocessor line begins and ends, and the gap
    between the name and the body of `#define F (x)`. Empty for a source without any token.
    """
    digest = hashlib.blake2b(digest_size=16)
    empty = True
    for part in _parts(source):
        encoded = part.encode(errors="surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
        empty = False
    return "" if empty else digest.hexdigest()


def _parts(source: str) -> Iterator[str]:
    line: list[str] = []
    blank_before = False
    for token in tokenise(source):
        if token.kind == TokenKind.NEWLINE:
            if line[:1] == ["#"]:
                yield "\n"
            line = []
        elif token.is_blank:
            blank_before = True
            continue
        else:
            if not line and token.text == "#":
                yield "\n"
            elif token.text == "(" and line[:2] == ["#", "define"] and len(line) == 3:
                yield " " if blank_before else ""
            yield token.text
            line = [*line, token.text][:4]
        blank_before = False
    if line[:1] == ["#"]:
        yield "\n"
