"""Tunables as values, how a kernel declares them, and which points of their space are valid.

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

from collections.abc import Mapping
from dataclasses import dataclass

from cuda_llm.errors import TaskError
from cuda_llm.tasks.expressions import evaluate

Point = Mapping[str, int]
"""A value for each tunable."""


@dataclass(frozen=True, kw_only=True)
class Tunable:
    """A compile-time parameter of a kernel, with the values that a tuner may try."""

    name: str
    default: int
    values: tuple[int, ...]
    """Values in the order of the declaration; the default is among the values."""


@dataclass(frozen=True, kw_only=True)
class HintPreference:
    """Values to try when a hint of that code is given."""

    code: str
    """Code of a bottleneck or a verdict: `bank_conflicts`, `LAUNCH_FAILED`."""
    values: Point
    """Preferred values of some of the tunables."""


@dataclass(frozen=True, kw_only=True)
class Space:
    """The tunables of one kernel, with conditions and preferences."""

    tunables: tuple[Tunable, ...]
    conditions: tuple[str, ...] = ()
    """Each must hold of a valid point."""
    preferences: tuple[HintPreference, ...] = ()

    @property
    def defaults(self) -> dict[str, int]:
        """Return the point of the defaults, which is valid."""
        return {one.name: one.default for one in self.tunables}


@dataclass(frozen=True, kw_only=True)
class InvalidDeclaration:
    """The reason why a kernel's declarations of tunables cannot be used."""

    line: int
    """Line of the declaration, from 1."""
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


def holds(condition: str, point: Point) -> bool:
    """Return whether `point` meets `condition`; an undefined value (1 / 0) does not."""
    try:
        return bool(evaluate(condition, point))
    except TaskError:
        return False


def is_valid(space: Space, point: Point) -> bool:
    """Return whether `point` has an allowed value for each tunable and meets every condition."""
    return (
        point.keys() == space.defaults.keys()
        and all(point[one.name] in one.values for one in space.tunables)
        and all(holds(condition, point) for condition in space.conditions)
    )
