"""Names of input distributions, as a task folder spells them. The validator draws from them.

A spelling is `name` or `name(argument, ...)`; arguments are expressions in dims, so that
`ints(0, num_bins)` follows the size. `inputs.name` names a function of the task's inputs.py.
"""

import ast
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from cuda_llm.errors import TaskError


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """A distribution as parsed from its spelling: name and arguments."""

    name: str
    arguments: tuple[str, ...] = ()
    """Arguments as expressions in dims."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """Meaning, input types and arguments of the distributions of one name."""

    meaning: str
    floats: bool = False
    """Whether the distributions fit float inputs."""
    integers: bool = False
    """Whether the distributions fit integer inputs."""
    arguments: tuple[str, ...] = ()
    """Names of the arguments, all of which are required."""


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "normal": Family(meaning="normal, mean 0, variance 1", floats=True),
        "uniform_signed": Family(meaning="uniform in [-1, 1)", floats=True),
        "uniform_unit": Family(meaning="uniform in [0, 1)", floats=True),
        "uniform": Family(meaning="uniform in [low, high)", floats=True, arguments=("low", "high")),
        "heavy_tail": Family(meaning="Student's t with 3 degrees of freedom", floats=True),
        "large": Family(meaning="normal times 1e4", floats=True),
        "denormal": Family(meaning="random signed subnormal numbers", floats=True),
        "zeros": Family(meaning="0 and -0 at random", floats=True, integers=True),
        "all_equal": Family(
            meaning="one value everywhere", floats=True, integers=True, arguments=("value",)
        ),
        "constant_rows": Family(
            meaning="one normal value for each index of the first axis", floats=True
        ),
        "sparse": Family(meaning="nine in ten are 0, the rest normal", floats=True),
        "mixed": Family(
            meaning="regions of normal, large, tiny, zero and constant at random places",
            floats=True,
        ),
        "magnitudes": Family(
            meaning="random significands and signs, binary exponents uniform in [low, high]",
            floats=True,
            arguments=("low", "high"),
        ),
        "scaled_rows": Family(
            meaning="normal times a random power of two in [2^low, 2^high], one a row",
            floats=True,
            arguments=("low", "high"),
        ),
        "full_rank": Family(
            meaning="normal plus offset, with 4 sqrt(columns) more in one column of each row in "
            "turn: columns far from dependent, even where they are as many as the rows",
            floats=True,
            arguments=("offset",),
        ),
        "bit_patterns": Family(
            meaning="every bit random, with -0, infinities, subnormals and NaNs of any payload",
            floats=True,
        ),
        "spike": Family(
            meaning="one value everywhere, but another in one random place",
            floats=True,
            integers=True,
            arguments=("value",),
        ),
        "outliers": Family(
            meaning="normal, but huge, tiny or zero in a few random places", floats=True
        ),
        "exact_odd_13bit": Family(
            meaning="odd whole numbers in [4099, 8191] with random sign; so many zeros among them "
            "that no sum of an output's terms reaches 2^24",
            floats=True,
        ),
        "exact_odd": Family(
            meaning="odd whole numbers with random sign, of which `terms` add up below 2^24",
            floats=True,
            arguments=("terms",),
        ),
        "first_high": Family(
            meaning="0, but `value` in the first place of each row",
            floats=True,
            arguments=("value",),
        ),
        "landmarks": Family(
            meaning="low, but high where kernels lose or double a term: first, last, where a tail "
            "or a block begins or ends",
            floats=True,
            integers=True,
            arguments=("low", "high"),
        ),
        "exact_signs": Family(meaning="-1, 0 and 1 alike", floats=True),
        "ints_full_range": Family(meaning="every value of the type alike", integers=True),
        "infinities": Family(
            meaning="normal, but one in eight a zero, an infinity or the largest, of either sign",
            floats=True,
        ),
        "ints": Family(
            meaning="uniform whole numbers in [low, high)",
            floats=True,
            integers=True,
            arguments=("low", "high"),
        ),
        "sorted_ints": Family(
            meaning="as `ints`, ascending", floats=True, integers=True, arguments=("low", "high")
        ),
        "nearly_sorted_ints": Family(
            meaning="as `sorted_ints`, but for a few elements",
            floats=True,
            integers=True,
            arguments=("low", "high"),
        ),
        "descending_ints": Family(
            meaning="as `ints`, descending", floats=True, integers=True, arguments=("low", "high")
        ),
        "rare_bins": Family(
            meaning="in [0, count), but for a few elements", integers=True, arguments=("count",)
        ),
        "bins": Family(
            meaning="mostly in [0, count), the rest just and far outside it",
            integers=True,
            arguments=("count",),
        ),
    }
)


MADE = "inputs."
"""Prefix of the spelling of a function of inputs.py."""


def maker_of(text: str) -> str:
    """Return the function of inputs.py that a spelling names; empty for a distribution."""
    return text.removeprefix(MADE) if text.startswith(MADE) else ""


def maker_in(spellings: Iterable[str]) -> str:
    """Return the function of inputs.py that some of the inputs of a call name: they all name the
    same function; empty where none names any."""
    return next(filter(None, map(maker_of, spellings)), "")


@lru_cache(maxsize=1024)
def parse_distribution(text: str) -> Distribution:
    """Split a spelling into name and arguments. Raises TaskError that names the fault."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        node = None
    match node:
        case ast.Attribute(value=ast.Name(id="inputs"), attr=name):
            return Distribution(name=f"{MADE}{name}")
        case ast.Name(id=name):
            found = Distribution(name=name)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            found = Distribution(name=name, arguments=tuple(map(ast.unparse, arguments)))
        case _:
            raise TaskError(
                f"{text!r} is no distribution; expected `name`, `name(argument, ...)` or "
                "`inputs.function`"
            )
    family = FAMILIES.get(found.name)
    if family is None:
        close = difflib.get_close_matches(found.name, FAMILIES, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(FAMILIES)}"
        raise TaskError(f"{found.name} is no known distribution; {hint}")
    if len(found.arguments) != len(family.arguments):
        wanted = f"{found.name}({', '.join(family.arguments)})" if family.arguments else found.name
        raise TaskError(f"{text!r} has {len(found.arguments)} arguments; expected {wanted}")
    return found
