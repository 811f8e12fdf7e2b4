"""The valid points of a space of tunables, and the kernels that its source becomes at them."""

import random
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain, islice

from cuda_llm.agents.playbook.point_table import PointTable, tabulate
from cuda_llm.agents.tunables.space import Point, Space, Tunable, holds, is_valid
from cuda_llm.agents.tunables.write import write_point
from cuda_llm.search import Attempt
from cuda_llm.source_tokens import normal_sha
from cuda_llm.tasks.expressions import names_in

MAX_STEPS = 2**17
"""Largest number of steps of a search for valid points: a user's kernel may declare a space that
has hardly any."""
MAX_ENUMERATED = 2**15
"""Largest number of valid points of a space that is searched whole; of a larger space a sample
is searched."""
SAMPLE_SIZE = 1024


def describe_point(point: Point) -> str:
    """Return the values in one line."""
    return ", ".join(f"{name} {value}" for name, value in point.items())


class TunableKernel:
    """Writes the kernel at a point, and caches the hashes that show which points are equal."""

    def __init__(self, source: str, space: Space, *, keep_declarations: bool = False) -> None:
        self.space = space
        self._source = source
        self._keep_declarations = keep_declarations
        self._shas: dict[tuple[int, ...], str] = {}

    def write(self, point: Point) -> str:
        """Return the source at a valid point: specialised, unless the declarations are kept."""
        return write_point(self._source, point, keep_declarations=self._keep_declarations)

    def describe(self, point: Point) -> str:
        """Return the idea of the kernel at a point, in one line."""
        return describe_point(point)

    def within(self, space: Space) -> "TunableKernel":
        """Return the kernel searched in a part of its space."""
        return TunableKernel(self._source, space, keep_declarations=self._keep_declarations)

    def specialise(self, point: Point) -> str:
        """Return the source at a valid point, without declarations."""
        return write_point(self._source, point)

    def sha(self, point: Point) -> str:
        """Return a hash that is equal for points that specialise to the same kernel."""
        key = tuple(point[one.name] for one in self.space.tunables)
        if key not in self._shas:
            self._shas[key] = normal_sha(self.specialise(point))
        return self._shas[key]

    def point_of(self, tunables: Mapping[str, int]) -> dict[str, int] | None:
        """Return the point of an attempt; None for an attempt that is not of this space."""
        point = {name: tunables[name] for name in self.space.defaults if name in tunables}
        return point if is_valid(self.space, point) else None

    def shas(self, attempts: Iterable[Attempt]) -> frozenset[str]:
        """Return the hashes of the attempts at points of this space."""
        points = (self.point_of(one.tunables) for one in attempts)
        return frozenset(self.sha(point) for point in points if point)

    def table(self, rng: random.Random, near: Iterable[Point] = ()) -> PointTable:
        """Return all valid points, or a sample where there are very many.

        The valid single changes of the points in `near` join a sample.
        """
        whole = _tabulate_whole(self.space.tunables, self.space.conditions)
        if whole is not None:
            return whole
        sampled = list(islice(sample_points(self.space, rng.randrange(2**32)), SAMPLE_SIZE))
        changed = chain.from_iterable(single_changes(self.space, one) for one in near)
        found = {tuple(one.items()): one for one in chain(sampled, changed)}
        return tabulate(self.space, list(found.values()))

    def candidates(self, rng: random.Random, near: Iterable[Point] = ()) -> list[dict[str, int]]:
        """Return the points of the table in random order."""
        points = list(self.table(rng, near).points())
        return rng.sample(points, len(points))


@lru_cache(maxsize=16)
def _tabulate_whole(
    tunables: tuple[Tunable, ...], conditions: tuple[str, ...]
) -> PointTable | None:
    """Return all valid points; None where these are too many, or too few to be found soon."""
    space = Space(tunables=tunables, conditions=conditions)
    steps = _Steps(MAX_STEPS)
    values = {one.name: one.values for one in tunables}
    found = _extend(space, {}, _checks(space), values, steps)
    points = list(islice(found, MAX_ENUMERATED + 1))
    if len(points) > MAX_ENUMERATED or steps.left < 0:
        return None
    return tabulate(space, points)


def single_changes(space: Space, point: Point) -> Iterator[dict[str, int]]:
    """Yield every valid point that differs from `point` in one value."""
    changed = ({**point, one.name: value} for one in space.tunables for value in one.values)
    return (one for one in changed if one != point and is_valid(space, one))


def valid_points(space: Space) -> Iterator[dict[str, int]]:
    """Yield every valid point, in the order of the declarations.

    Where conditions exclude nearly all points, it ends after `MAX_STEPS` steps.
    """
    values = {one.name: one.values for one in space.tunables}
    return _extend(space, {}, _checks(space), values, _Steps(MAX_STEPS))


def sample_points(space: Space, seed: int) -> Iterator[dict[str, int]]:
    """Yield valid points at random without end, with repeats; equal seeds give equal points.

    Where conditions exclude so much that nothing else is found, it yields the defaults.
    """
    rng = random.Random(seed)
    checks = _checks(space)
    while True:
        shuffled = {
            one.name: tuple(rng.sample(one.values, len(one.values))) for one in space.tunables
        }
        found = _extend(space, {}, checks, shuffled, _Steps(MAX_STEPS // 128))
        yield next(found, space.defaults)


Checks = tuple[tuple[str, ...], ...]
"""Conditions that can be checked once a tunable has a value, for each tunable in order."""


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
    """Yield valid points that begin with `point`; skip prefixes that break a condition."""
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
