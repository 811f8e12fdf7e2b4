"""How exact a result must be, how far off approximate instructions are, and what is timed."""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from cuda_llm.agents.situation import Situation
from cuda_llm.tasks.distribution import FAMILIES, maker_of, parse_distribution
from cuda_llm.tasks.element_types import FORMATS
from cuda_llm.tasks.made_inputs import describe_made
from cuda_llm.tasks.task import SummationOrder, Task, Tolerance, ToleranceClass
from cuda_llm.tasks.tolerances import ROUNDING_UNIT, Terms, limits

_SCALE = {
    ToleranceClass.ELEMENTWISE: "the size of the element itself",
    ToleranceClass.REDUCTION: "the sum of the magnitudes of its terms",
    ToleranceClass.DOT: "the sum of the magnitudes of its products",
}
_SUMS = (ToleranceClass.REDUCTION, ToleranceClass.DOT)


@dataclass(frozen=True, kw_only=True)
class Approximation:
    """An instruction that computes a function approximately."""

    name: str
    functions: tuple[str, ...]
    """Functions of a reference that the instruction serves, by their names in NumPy."""
    error: float
    """Largest relative error, as the PTX ISA (9.0) states it."""
    more: str = ""
    """Error that its argument adds, in rounding units of fp32."""


APPROXIMATIONS = (
    Approximation(
        name="ex2.approx",
        functions=("exp",),
        error=2.0**-22.5,
        # x * log2(e) is rounded to 2^-24 of itself, as is log2(e): 1.3 |x| (tasks/sigmoid).
        more=" (as `__expf(x)` 1.3 |x| more)",
    ),
    Approximation(name="ex2.approx.f16x2", functions=("exp",), error=2.0**-9.9),
    Approximation(name="tanh.approx", functions=("exp", "tanh"), error=2.0**-11),
    Approximation(name="rsqrt.approx", functions=("sqrt",), error=2.0**-22.9),
)
"""Of functions without a zero: relative to a zero, the errors of others have no limit."""
NEGLIGIBLE = 0.1
"""Part of a rounding from which on an error is worth words."""


def describe_tolerance(task: Task) -> str:
    """Describe when a result counts as right, and which approximate instructions fit."""
    tolerance = task.tolerance
    if task.comparator:
        return "The task's own rule judges the result."
    if tolerance.kind == ToleranceClass.EXACT:
        return "Every element of the outputs must be exactly right, bit for bit."
    rule = f"An element may be off by {_allowed(tolerance)}, relative to {_SCALE[tolerance.kind]}"
    orders = {
        SummationOrder.ANY: "Terms may be added in any order.",
        SummationOrder.TREE: "Partial sums must be combined pairwise, as a tree.",
    }
    order = orders[tolerance.order] if tolerance.kind in _SUMS else ""
    parts = (f"{rule}.", _of_parts(task), _beyond_range(task), order, describe_approximations(task))
    return " ".join(filter(None, parts))


def _of_parts(task: Task) -> str:
    is_complex = any(
        task.element_types[one.name].is_complex for one in task.arguments if one.is_output
    )
    return "So may each part of a complex one, relative to the same." if is_complex else ""


def _beyond_range(task: Task) -> str:
    """Say what results are that the outputs' type cannot hold, where conversions saturate."""
    formats = {task.element_types[one.name].format for one in task.arguments if one.is_output}
    return " ".join(
        f"Beyond the range of {one.name} a result is the largest number, {one.largest:g}"
        + (", or infinite." if one.has_infinity else "; there is no infinity.")
        for one in FORMATS.values()
        if one.saturates and one in formats
    )


def _allowed(tolerance: Tolerance) -> str:
    """Render `8 roundings in fp32 (2^-24 each), 4 in the mean square`, as `limits` has them."""
    precision = FORMATS[tolerance.precision]
    unit = f"{precision.name} (2^-{precision.significand_bits} each)"
    sums = tolerance.kind in _SUMS and not tolerance.max_units
    if sums and precision.significand_bits < 24:
        what = "its operands" if tolerance.precision == "tf32" else "the result"
        return f"the rounding of {what} to {unit} after sums in fp32"
    own = limits(tolerance, Terms(symmetric=True))
    some = f"{own.max_units:g} roundings in {unit}, {own.rms_units:g} in the mean square"
    grows = sums and tolerance.order is SummationOrder.ANY
    return f"{some} (2 sqrt(t) and sqrt(t), if more, for t terms of one sign)" if grows else some


def describe_approximations(task: Task) -> str:
    """Describe the errors of instructions that could serve the task's functions, in the roundings
    of its tolerance; empty where there are none."""
    functions, own = functions_of(task), limits(task.tolerance, Terms(symmetric=True))
    parts = [
        f"{one.name} {_count(one.error / own.unit)}{one.more}"
        + (", too many" if one.error > own.max_units * own.unit else "")
        for one in APPROXIMATIONS
        if functions & {*one.functions} and _matters(one, task.tolerance)
    ]
    return f"In roundings are off: {'; '.join(parts)}." if parts else ""


def _matters(one: Approximation, tolerance: Tolerance) -> bool:
    """Return whether the error is worth words, and not that of a shorter type than results have."""
    shorter = "f16" in one.name and tolerance.precision != "fp16"
    return one.error >= NEGLIGIBLE * ROUNDING_UNIT[tolerance.precision] and not shorter


def _count(units: float) -> str:
    return f"{units:,.0f}" if units >= 10 else f"{units:.2g}"


def functions_of(task: Task) -> frozenset[str]:
    """Return the functions of NumPy that the task's reference computes its results with."""
    return _functions_in(task.reference.read_text()) if task.reference else frozenset()


@lru_cache(maxsize=64)
def _functions_in(source: str) -> frozenset[str]:
    """Return what `reference`, and what it calls, take from `xp`."""
    bodies = {one.name: one for one in ast.parse(source).body if isinstance(one, ast.FunctionDef)}
    found, waiting = set[str](), ["reference"]
    while waiting:
        body = bodies.pop(waiting.pop(), None)
        for node in ast.walk(body) if body else ():
            match node:
                case ast.Attribute(value=ast.Name(id="xp"), attr=name):
                    found.add(name)
                case ast.Call(func=ast.Name(id=name)):
                    waiting.append(name)
    return frozenset(found)


def describe_timed_inputs(situation: Situation) -> str:
    """Describe what timed calls begin with: `cold caches, x normal, mean 0, variance 1`."""
    drawn: dict[str, list[str]] = {}
    for one in situation.task.arguments:
        if one.distributions:
            drawn.setdefault(one.distributions[0], []).append(one.name)
    made_by = situation.task.inputs
    inputs = (
        f"{', '.join(names)} {describe_made(made_by, maker_of(text))}"
        if made_by and maker_of(text)
        else f"{', '.join(names)} {_meaning(text)}"
        for text, names in drawn.items()
    )
    # A modelled call is always cold.
    warm = situation.capabilities.sets_l2 and situation.config.l2 == "warm"
    caches = "caches as the arrival of inputs left them" if warm else "cold caches"
    return "; ".join((caches, *inputs))


def _meaning(text: str) -> str:
    """Return what a distribution is, with its own arguments: `uniform in [-5, 5)`."""
    one = parse_distribution(text)
    family = FAMILIES[one.name]
    given: Mapping[str, str] = dict(zip(family.arguments, one.arguments, strict=True))
    meaning = re.sub(r"\w+", lambda word: given.get(word[0], word[0]), family.meaning)
    return meaning if not given or meaning != family.meaning else text
