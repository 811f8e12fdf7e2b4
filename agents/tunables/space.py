"""Tunables as values, how a kernel declares them, and the valid points of their space.

A tunable is a `#define` with its default value and, behind it, the values it may take; words behind
a semicolon stay with the chosen value:

    #define TILE 16     // tunable: 8 16 32; edge of the tile
    #define VARIANT 2   // tunable: 0 1 2 3
    // tunable-if: TILE * TILE <= 1024
    // tunable-if: VARIANT > 0 or TILE == 16
    // tunable-hint: bank_conflicts VARIANT=2 TILE=32

`tunable-if` lines are conditions that a point must meet (`cuda_llm.tasks.expressions`); the
defaults must meet them too. `tunable-hint` lines name the code of a hint and values worth trying
when it is given: advice, never a filter. The first tunable is the kernel's structure. Declarations
stand outside of `#if` blocks, each name once. Choosing a point rewrites the defaults, so that what
is compiled, shown and exported is a plain kernel.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from cuda_llm.errors import TaskError
from cuda_llm.tasks.expressions import evaluate, names_in

Point = Mapping[str, int]
"""A value for each tunable."""


@dataclass(frozen=True, kw_only=True)
class Tunable:
    """One compile-time parameter."""

    name: str
    default: int
    values: tuple[int, ...]
    """In the order declared; holds the default."""


@dataclass(frozen=True, kw_only=True)
class HintPreference:
    """Values to try when a hint of that code is given."""

    code: str
    """Of a bottleneck or a verdict: `bank_conflicts`, `LAUNCH_FAILED`."""
    values: Point
    """For some of the tunables."""


@dataclass(frozen=True, kw_only=True)
class Space:
    """The tunables of one kernel, with conditions and preferences."""

    tunables: tuple[Tunable, ...]
    conditions: tuple[str, ...] = ()
    """Each must hold of a valid point."""
    preferences: tuple[HintPreference, ...] = ()

    @property
    def defaults(self) -> dict[str, int]:
        """Returns the point of the defaults, which is valid."""
        return {one.name: one.default for one in self.tunables}


@dataclass(frozen=True, kw_only=True)
class InvalidDeclaration:
    """Why a kernel's declarations cannot be used."""

    line: int
    """From 1."""
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


def holds(condition: str, point: Point) -> bool:
    """Tells whether `point` meets `condition`; an undefined value (1 / 0) does not."""
    try:
        return bool(evaluate(condition, point))
    except TaskError:
        return False


def is_valid(space: Space, point: Point) -> bool:
    """Tells whether `point` has an allowed value for each tunable and meets every condition."""
    return (
        point.keys() == space.defaults.keys()
        and all(point[one.name] in one.values for one in space.tunables)
        and all(holds(condition, point) for condition in space.conditions)
    )


def valid_points(space: Space) -> Iterator[dict[str, int]]:
    """Yields every valid point, in the order of the declarations.

    Where conditions exclude nearly all points, it ends after `MAX_STEPS` steps.
    """
    values = {one.name: one.values for one in space.tunables}
    return _extend(space, {}, _checks(space), values, _Steps(MAX_STEPS))


def sample_points(space: Space, seed: int) -> Iterator[dict[str, int]]:
    """Yields valid points at random without end, with repeats; equal seeds give equal points.

    Where conditions exclude so much that nothing else is found, it yields the defaults.
    """
    rng = random.Random(seed)
    checks = _checks(space)
    while True:
        shuffled = {
            one.name: tuple(rng.sample(one.values, len(one.values))) for one in space.tunables
        }
        found = _extend(space, {}, checks, shuffled, _Steps(MAX_STEPS // 64))
        yield next(found, space.defaults)


MAX_STEPS = 2**16
"""A kernel from a stranger may declare a space in which a valid point is hard to find."""

Checks = tuple[tuple[str, ...], ...]
"""For each tunable, in order: the conditions that can be checked once it has a value."""


@lru_cache(maxsize=256)
def _checks_of(names: tuple[str, ...], conditions: tuple[str, ...]) -> Checks:
    last = [max((names.index(name) for name in names_in(one)), default=0) for one in conditions]
    return tuple(
        tuple(one for one, at in zip(conditions, last, strict=True) if at == index)
        for index in range(len(names))
    )


def _checks(space: Space) -> Checks:
    return _checks_of(tuple(one.name for one in space.tunables), space.conditions)


class _Steps:
    """Budget of steps that one enumeration may still take."""

    def __init__(self, left: int) -> None:
        self.left = left


def _extend(
    space: Space,
    point: dict[str, int],
    checks: Checks,
    values: Mapping[str, tuple[int, ...]],
    steps: _Steps,
) -> Iterator[dict[str, int]]:
    """Yields valid points that begin with `point`; skips prefixes that break a condition."""
    index = len(point)
    if index == len(space.tunables):
        yield dict(point)
        return
    name = space.tunables[index].name
    for value in values[name]:
        steps.left -= 1
        if steps.left < 0:
            return
        longer = {**point, name: value}
        if all(holds(condition, longer) for condition in checks[index]):
            yield from _extend(space, longer, checks, values, steps)
