"""Enumerates the valid points of a space, or samples them where there are too many."""

import random
from collections.abc import Iterator, Mapping
from functools import lru_cache

from cuda_llm.agents.tunables.tunable import Point, Space
from cuda_llm.errors import TaskError
from cuda_llm.tasks.expressions import evaluate, names_in


def holds(condition: str, point: Point) -> bool:
    """Tells whether `point` meets `condition`; an undefined value (1 / 0) does not."""
    try:
        return bool(evaluate(condition, point))
    except TaskError:
        return False


def valid(space: Space, point: Point) -> bool:
    """Tells whether `point` has an allowed value for each tunable and meets every condition."""
    return (
        point.keys() == space.defaults.keys()
        and all(point[one.name] in one.values for one in space.tunables)
        and all(holds(condition, point) for condition in space.conditions)
    )


def points(space: Space) -> Iterator[dict[str, int]]:
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
