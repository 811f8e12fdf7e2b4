"""Which points to try next. Pure: the same history gives the same points, in the same order."""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain, cycle, islice

from cuda_llm.agents.playbook.kernels import Kernels
from cuda_llm.agents.playbook.spread import spread_out
from cuda_llm.agents.playbook.study import Tried, ask
from cuda_llm.agents.tunables.space import valid
from cuda_llm.agents.tunables.tunable import Point, Space

OPENING = 5
"""Before that many points were tried, a model of the space is worth nothing."""
ASKS = 24
"""How often in a row Optuna may name kernels that are known."""
FAILED_COUNTS = 5
"""How many points that passed a failure outweighs."""


@dataclass(frozen=True, kw_only=True)
class History:
    """What a search knows."""

    tried: tuple[Tried, ...] = ()
    """In the order judged."""
    seen: frozenset[str] = frozenset()
    """Hashes of kernels that are not to be proposed again, beside those of `tried`."""
    wishes: tuple[Point, ...] = ()
    """Values for some of the tunables that hints ask for, most wanted first."""

    @property
    def best(self) -> Tried | None:
        """The fastest; the first of equals."""
        passed = [one for one in self.tried if one.score is not None]
        return max(passed, key=lambda one: one.score or 0.0, default=None)


class Turn(Enum):
    """Whose the next point is."""

    STEP = 1
    WISH = 2
    ASK = 3


def propose(kernels: Kernels, history: History, seed: str) -> Iterator[dict[str, int]]:
    """Points whose kernels are new and all different; ends when the space is used up.

    While little is known, the space is spread over; later Optuna is asked. Once something passed,
    of every three points one is a step away from the best, one meets a hint's wish (or is a step
    too), and one is Optuna's.
    """
    space, rng = kernels.space, random.Random(seed)
    seen = {kernels.sha(one.point) for one in history.tried} | history.seen
    known = kernels.candidates(rng)
    tried = [one.point for one in history.tried]
    spread = spread_out(space, known, tried)
    steps = wished = iter(list[dict[str, int]]())
    if history.best is not None:
        best = history.best.point
        steps = step_away(best, [*known, *changes(space, best, rng)], history.tried)
        wished = wished_points(space, best, history.wishes, known)
    asked = ask(space, history.tried, rng.randrange(2**32))
    for turn in cycle((Turn.STEP, Turn.WISH, Turn.ASK)):
        sources = [spread] if len(tried) < OPENING else [islice(asked, ASKS), spread]
        if turn != Turn.ASK:
            sources.insert(0, steps)
        if turn == Turn.WISH:
            sources.insert(0, wished)
        point = next(_new(kernels, seen, chain(*sources)), None)
        if point is None:
            return
        yield point


def depart(
    kernels: Kernels, history: History, taken: Sequence[Point], seed: str
) -> Iterator[dict[str, int]]:
    """As `propose`, in other structures than the best has: those tried least come first.

    The structure is the first tunable's choice. Within one, what is nearest to the best in the
    other values comes first. `taken` are points that are proposed already.
    """
    space, rng = kernels.space, random.Random(seed)
    name = space.tunables[0].name
    best = history.best.point if history.best else space.defaults
    tried = [one.point[name] for one in history.tried] + [one[name] for one in taken]
    seen = {kernels.sha(one.point) for one in history.tried} | history.seen
    seen |= {kernels.sha(one) for one in taken}
    others = [one for one in kernels.candidates(rng) if one[name] != best[name]]
    others.sort(key=lambda one: (tried.count(one[name]), differences(one, best)))
    return _new(kernels, seen, others)


def differences(one: Point, other: Point) -> int:
    """How many values differ."""
    return sum(other[name] != value for name, value in one.items())


def step_away(
    best: Point, known: Sequence[dict[str, int]], tried: Sequence[Tried]
) -> Iterator[dict[str, int]]:
    """The points that differ least from the best; among equals, in the values shown least.

    A point that failed counts as many: its values come last.
    """
    shown = Counter[tuple[str, int]]()
    for one in tried:
        for pair in one.point.items():
            shown[pair] += FAILED_COUNTS if one.score is None else 1
    left = list(known)
    while left:
        point = min(
            left,
            key=lambda one: (
                differences(one, best),
                sum(shown[pair] for pair in one.items() - best.items()),
            ),
        )
        left.remove(point)
        shown.update(point.items())
        yield point


def changes(space: Space, point: Point, rng: random.Random) -> list[dict[str, int]]:
    """Every valid point that differs from `point` in one value; in random order."""
    changed = [{**point, one.name: value} for one in space.tunables for value in one.values]
    found = [one for one in changed if one != point and valid(space, one)]
    return rng.sample(found, len(found))


def wished_points(
    space: Space, best: Point, wishes: Sequence[Point], known: Sequence[dict[str, int]]
) -> Iterator[dict[str, int]]:
    """For each wish in turn, the next of the points that meet it, nearest to the best first."""
    meeting = []
    for wish in wishes:
        direct = {**best, **wish}
        others = [one for one in known if wish.items() <= one.items()]
        near = sorted(others, key=lambda one: differences(one, best))
        meeting.append([direct, *near] if valid(space, direct) else near)
    for rank in range(max(map(len, meeting), default=0)):
        for points in meeting:
            yield from points[rank : rank + 1]


def _new(
    kernels: Kernels, seen: set[str], proposed: Iterable[dict[str, int]]
) -> Iterator[dict[str, int]]:
    """Those whose kernel is not in `seen`, which grows with them."""
    for point in proposed:
        sha = kernels.sha(point)
        if sha not in seen:
            seen.add(sha)
            yield point
