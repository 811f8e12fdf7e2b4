"""Names a compiler does not know, and the ones that were meant."""

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from cuda_llm.agents.kernel_text.outline import identifiers
from cuda_llm.agents.quote import one_line
from cuda_llm.outcomes import CompileFailed

_UNKNOWN = re.compile(
    r'identifier "([^"]+)" is undefined|has no member(?: named)? "([^"]+)"'
    r'|calling a __host__ function\("([^"]+)"\)'
    r"|'([A-Za-z_]\w*)' (?:was not declared|has not been declared|does not name a type)"
)
_OPERATOR = re.compile(
    r'no operator "([^"]+)" matches these operands.*?\b((?:float|double|int|uint)[234])\b', re.S
)
_NAMESPACE = re.compile(r'name followed by "::" must be a class or namespace name')
_WITHOUT_MASK = re.compile(r"Instruction '(?:vote|shfl)' without '\.sync'")
NEAR = 0.8
"""How alike two names are before one is offered for the other (difflib's ratio)."""
BUILT_IN = (
    *("threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "nullptr", "reinterpret_cast"),
    *("__restrict__", "__syncthreads", "cudaGetLastError", "cudaMemcpyDeviceToDevice"),
)


@dataclass(frozen=True, kw_only=True)
class KnownName:
    """What CUDA really has where models write something else."""

    wrong: tuple[str, ...]
    real: str
    advice: str
    """What it really is and how it is called."""
    code: str
    """A statement that uses it."""
    header: str = ""
    """What must be included for it."""


@cache
def known_names() -> tuple[KnownName, ...]:
    """The table in `known_names.toml`."""
    text = resources.files("cuda_llm.agents.prompting").joinpath("known_names.toml").read_text()
    return tuple(
        KnownName(**{**row, "wrong": tuple(row["wrong"].split())})
        for row in tomllib.loads(text)["name"]
    )


def real_names(failed: CompileFailed, source: str) -> tuple[str, ...]:
    """One line for each name the compiler does not know and we do, or that nearly exists."""
    texts = dict.fromkeys(
        [one.message for one in failed.diagnostics if one.severity == "error"] or [failed.reason]
    )
    lines = [line for text in texts for line in _lines(text, source)]
    return tuple(dict.fromkeys(lines))


def _lines(message: str, source: str) -> Iterator[str]:
    for match in _UNKNOWN.finditer(message):
        name = next(filter(None, match.groups()))
        if known := _by_wrong_name().get(name.rpartition("::")[2]):
            yield f"{one_line(name, 80)} does not exist here: {known.advice}"
        elif near := _nearest(name, source):
            yield f"{one_line(name, 80)} is not declared; {near} is: was that meant?"
    if operator := _OPERATOR.search(message):
        yield (
            f"{operator[2]} has no operator {operator[1]}: compute its parts (.x, .y ...) one by "
            f"one and put them together with make_{operator[2]}"
        )
    if _WITHOUT_MASK.search(message):
        yield (
            "votes and shuffles without a mask of lanes are gone: __any_sync, __all_sync, "
            "__ballot_sync and __shfl_sync take it first"
        )
    if _NAMESPACE.search(message):
        yield "a namespace in front of :: is unknown: its header is not included"


def _nearest(name: str, source: str) -> str:
    """The declared or well-known name most like `name`; empty where none is near."""
    counted = identifiers(source) - {name}
    candidates = sorted({*counted, *BUILT_IN, *_by_real_name()})
    found = difflib.get_close_matches(name, candidates, n=1, cutoff=NEAR)
    return found[0] if found else ""


@cache
def _by_wrong_name() -> Mapping[str, KnownName]:
    return {wrong: known for known in known_names() for wrong in known.wrong}


@cache
def _by_real_name() -> frozenset[str]:
    return frozenset(known.real for known in known_names() if known.real.isidentifier())
