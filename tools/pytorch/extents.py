"""Finds the dims of a call, and each extent as an expression in them.

A dim is a named whole number that an extent of the arguments follows: of a problem of KernelBench
one at the top level of its file, of a function the extent of an argument. Expressions of other
extents are found by running the call at other values.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np

from cuda_llm.errors import TaskError
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tools.pytorch.trace import Extents, ModuleTrace

Dims = Mapping[str, int]
TraceAt = Callable[[Dims], ModuleTrace]
_STEPS = (1, 2, 3, 4, 5, 8, 11, 16, 23, 37)
"""Lengths added to a dim to find the extents that follow it; shorter dims are tried as well."""
_DIVISORS = range(1, 17)
_JOINT = 10
"""Sizes at which every expression is tried with all dims changed at once."""


@dataclass(frozen=True, kw_only=True)
class Expressed:
    """A problem's extents as expressions in its dims."""

    dims: Dims
    """Value of each dim in the problem, by name."""
    inputs: Mapping[str, tuple[str, ...]]
    """Extents of the tensors among forward's arguments."""
    state: Mapping[str, tuple[str, ...]]
    outputs: tuple[tuple[str, ...], ...]
    terms: str
    flops: str
    """Operations as a product of dims; 0 where they are no product of dims."""
    highs: tuple[str, ...]
    """Exclusive upper limits of the integers among forward's arguments, in order."""


def express(
    numbers: Dims, trace_at: TraceAt, steps: Mapping[str, int], *, of_state: bool = False
) -> Expressed:
    """Find the dims among `numbers` and express all extents in them.

    The values of a number are multiples of its step, or all whole numbers where it has none.

    With `of_state`, a number that extents of the module's own tensors follow is a dim as well. A
    dim that some extent follows by no expression known here stays a constant. Raises TaskError
    where the module cannot run unchanged.
    """
    base = trace_at({})
    found = {n: _follows(n, value, steps.get(n, 1), base, trace_at) for n, value in numbers.items()}
    dims = {
        name: value
        for name, value in numbers.items()
        if found[name] == "inputs" or (of_state and found[name] == "state")
    }
    while True:
        seen = _Seen(dims, base, trace_at, steps)
        fitted = [seen.fit(of) for of in _measures(base)]
        missed = next((one for one in fitted if one.expression is None), None)
        if missed is None:
            break
        given_up = min(missed.follows, key=lambda name: found[name] == "inputs")
        dims = {name: value for name, value in dims.items() if name != given_up}
    expressions = [one.expression or "" for one in fitted]
    shapes = iter(_regroup(base, expressions))
    return Expressed(
        dims=dims,
        inputs={n: next(shapes) for n, one in base.inputs.items() if isinstance(one, Extents)},
        state={name: next(shapes) for name in base.state},
        outputs=tuple(next(shapes) for _ in base.outputs),
        terms=seen.fit(lambda trace: trace.terms).expression or str(base.terms),
        flops=seen.fit_product(lambda trace: trace.flops) or "0",
        highs=tuple(
            seen.fit(lambda trace, n=n: trace.highs[n]).expression or str(high)  # type: ignore[misc]
            for n, high in enumerate(base.highs)
        ),
    )


def _follows(
    name: str, value: int, step: int, base: ModuleTrace, trace_at: TraceAt
) -> Literal["inputs", "state", "nothing"]:
    """Return whose extents follow the number, if it may have other values."""
    followed: Literal["inputs", "state", "nothing"] = "nothing"
    half = max(step, value // step // 2 * step)
    for changed in (*(value + step * more for more in (1, 2, 3)), half):
        try:
            trace = trace_at({name: changed})
        except TaskError:
            return "nothing"
        if not _same_build(trace, base):
            return "nothing"
        if trace.inputs != base.inputs:
            followed = "inputs"
        elif trace.state != base.state and followed == "nothing":
            followed = "state"
    return followed if value >= 1 else "nothing"


def _same_build(trace: ModuleTrace, base: ModuleTrace) -> bool:
    """Return whether two runs have tensors of the same types and numbers of axes, none of them
    empty."""

    def build(one: ModuleTrace) -> list[tuple[str, int]]:
        return [(tensor.dtype, len(tensor.shape)) for tensor in one.tensors]

    return build(trace) == build(base) and all(one.elements for one in trace.tensors)


Measure = Callable[[ModuleTrace], int]


def _measures(base: ModuleTrace) -> list[Measure]:
    """Return a function for each extent of each tensor."""
    return [
        lambda trace, number=number, axis=axis: trace.tensors[number].shape[axis]  # type: ignore[misc]
        for number, tensor in enumerate(base.tensors)
        for axis in range(len(tensor.shape))
    ]


def _regroup(base: ModuleTrace, expressions: Sequence[str]) -> list[tuple[str, ...]]:
    left = iter(expressions)
    return [tuple(next(left) for _ in one.shape) or ("1",) for one in base.tensors]


@dataclass(frozen=True, kw_only=True)
class _Fit:
    expression: str | None
    follows: tuple[str, ...]
    """Dims that the value follows."""


class _Seen:
    """Traces at other values of the dims."""

    def __init__(
        self, dims: Dims, base: ModuleTrace, trace_at: TraceAt, steps: Mapping[str, int]
    ) -> None:
        self._dims = dims
        self._base = base
        self._alone: dict[str, list[tuple[Dims, ModuleTrace]]] = {name: [] for name in dims}
        self._joint: list[tuple[Dims, ModuleTrace]] = []
        for name, value in dims.items():
            step = steps.get(name, 1)
            count = value // step
            shorter = (*range(1, 18), *range(18, count, max(1, count // 7)))
            smaller = {max(1, count - less) for less in shorter}
            for other in (*sorted(smaller), *(count + more for more in _STEPS)):
                self._try(self._alone[name], {**dims, name: other * step}, trace_at)
        rng = np.random.default_rng(0)
        for _ in range(_JOINT if len(dims) > 1 else 0):
            drawn = rng.choice(_STEPS, len(dims))
            changed = {
                name: value + int(more) * steps.get(name, 1)
                for (name, value), more in zip(dims.items(), drawn, strict=True)
            }
            self._try(self._joint, changed, trace_at)

    def _try(self, seen: list[tuple[Dims, ModuleTrace]], dims: Dims, trace_at: TraceAt) -> None:
        try:
            trace = trace_at(dims)
        except TaskError:
            return
        if _same_build(trace, self._base):
            seen.append((dims, trace))

    def fit(self, of: Measure) -> _Fit:
        """Return the expression that all traces agree with, or None."""
        value = of(self._base)
        follows = tuple(n for n in self._dims if any(of(t) != value for _, t in self._alone[n]))
        if not follows:
            candidates = [str(value)]
        elif len(follows) == 1:
            candidates = self._of_one(follows[0], of)
        else:
            candidates = self._of_several(follows, of)
        agreed = (one for one in candidates if self._agrees(one, of))
        return _Fit(expression=next(agreed, None), follows=follows)

    def fit_product(self, of: Measure) -> str | None:
        """Return `of` as a constant times powers of dims, or None."""
        value, powers = of(self._base), {}
        for name, seen in self._alone.items():
            ratios = [
                (math.log(d[name] / self._dims[name]), of(t) / value) for d, t in seen if value
            ]
            if not ratios or ratios[-1][1] <= 0:
                return None
            powers[name] = round(math.log(ratios[-1][1]) / ratios[-1][0])
        whole = math.prod(self._dims[name] ** power for name, power in powers.items())
        factors = [name for name, power in powers.items() for _ in range(power)]
        if any(power < 0 for power in powers.values()) or not value or value % whole:
            return None
        text = " * ".join([str(value // whole), *factors])
        return text if self._agrees(text, of) else None

    def _of_one(self, name: str, of: Measure) -> list[str]:
        """Return the expressions `(a * dim + b) // s` that fit two points on the dim."""
        points = [(dims[name], of(trace)) for dims, trace in self._alone[name]]
        points.append((self._dims[name], of(self._base)))
        (low, at_low), (high, at_high) = min(points), max(points)
        found = []
        for divisor in _DIVISORS:
            slope = round((at_high - at_low) * divisor / (high - low))
            for slack in range(divisor):
                offset = at_low * divisor + slack - slope * low
                found.append(_linear(name, slope, offset, divisor))
        return found

    def _of_several(self, follows: Sequence[str], of: Measure) -> list[str]:
        value = of(self._base)
        whole = math.prod(self._dims[name] for name in follows)
        found = [" * ".join([*follows, *([str(value // whole)] if value > whole else [])])]
        for signs in product((1, -1), repeat=len(follows)):
            pairs = list(zip(signs, follows, strict=True))
            rest = value - sum(sign * self._dims[name] for sign, name in pairs)
            text = " ".join(f"{'+' if sign > 0 else '-'} {name}" for sign, name in pairs)
            found.append(f"{text} + {rest}".removeprefix("+ "))
        return found

    def _agrees(self, expression: str, of: Measure) -> bool:
        seen = [*self._joint, *(one for listed in self._alone.values() for one in listed)]
        seen.append((self._dims, self._base))
        try:
            return all(evaluate(expression, dims) == of(trace) for dims, trace in seen)
        except (TaskError, ZeroDivisionError):
            return False


def _linear(name: str, slope: int, offset: int, divisor: int) -> str:
    text = name if slope == 1 else f"{slope} * {name}"
    if offset:
        text += f" {'+' if offset > 0 else '-'} {abs(offset)}"
    if divisor == 1:
        return text
    return f"({text}) // {divisor}" if offset or slope != 1 else f"{text} // {divisor}"
