"""Proposes the points to try next; the same history gives the same points, in the same order.

The first points fill the space evenly. Then a forecast of all points, fitted to those that were
tried, names the point of the largest expected gain; between, points have the values that hints
prefer.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from cuda_llm.agents.playbook.forecast import Forecast
from cuda_llm.agents.playbook.history import History
from cuda_llm.agents.playbook.kernels import TunableKernel
from cuda_llm.agents.playbook.point_table import PointTable, tabulate
from cuda_llm.agents.tunables.space import Point, Space, is_valid

OPENING = 8
"""With fewer points tried, a forecast predicts nothing."""
PREFERENCE_TURN = 3
"""Of so many points one, the second, has values that a hint prefers."""
CLIMBED = 8
"""Number of the fastest points whose single changes join the sample of a large space."""
MAX_TAKEN_IN = 256
"""Largest number of points, open or known by their kernels, that a forecast takes in one by one."""


def propose(kernels: TunableKernel, history: History, seed: str) -> Iterator[dict[str, int]]:
    """Yield points whose kernels are new and all different; end when the space is used up.

    Until a kernel passed and `OPENING` points were tried, they fill the space. Every third point
    has values that a hint prefers, as soon as a kernel passed.
    """
    rng = random.Random(seed)
    seen = {kernels.sha(one.point) for one in history.tried} | history.seen
    table = kernels.table(rng, [one.point for one in history.fastest(CLIMBED)])
    best = history.best.point if history.best else None
    if best is None or len(history.tried) < OPENING:
        ranked = fill_space(table, kernels.space, history, rng)
    else:
        ranked = _most_promising(kernels, table, history)
    preferred = iter(list[dict[str, int]]())
    if best is not None and history.preferred:
        preferred = preferred_points(kernels.space, best, history.preferred, list(table.points()))
    turn = 0
    while True:
        turn += 1
        sources = (preferred, ranked) if turn % PREFERENCE_TURN == 2 else (ranked, preferred)
        point = next((one for source in sources for one in _new(kernels, seen, source)), None)
        if point is None:
            return
        yield point


def _most_promising(
    kernels: TunableKernel, table: PointTable, history: History
) -> Iterator[dict[str, int]]:
    """Yield each time the point of the largest expected gain, as if those before it were open.

    A point whose kernel was tried at another point is no news: the forecast takes in its score.
    """
    forecast = Forecast(table, history.tried)
    scores = {kernels.sha(one.point): one.score for one in history.tried}
    gains = forecast.gains()
    left = np.ones(len(gains), dtype=bool)
    for count in range(len(gains)):
        at = int(np.argmax(np.where(left, gains, -np.inf)))
        left[at] = False
        point = table.point(at)
        yield point
        if count < MAX_TAKEN_IN:
            forecast.learn(at, scores.get(kernels.sha(point)))
            gains = forecast.gains()


def fill_space(
    table: PointTable, space: Space, history: History, rng: random.Random
) -> Iterator[dict[str, int]]:
    """Yield the defaults, then each time a point of the values that were tried least.

    Which of equals comes first is random. A structure in which other tunables do nothing, such
    as a naive kernel, has few values and so gets few of the points.
    """
    yield space.defaults
    tried = tabulate(space, [*(one.point for one in history.tried), space.defaults]).rows
    uses = np.random.default_rng(rng.randrange(2**32)).random(len(table.rows))
    for row in tried:
        uses += (table.rows == row).sum(axis=1)
    for _ in range(len(uses)):
        at = int(np.argmin(uses))
        yield table.point(at)
        uses += (table.rows == table.rows[at]).sum(axis=1)
        uses[at] = np.inf


def propose_other_structures(
    kernels: TunableKernel, history: History, taken: Sequence[Point], seed: str
) -> Iterator[dict[str, int]]:
    """Yield new points of other structures than the best has; those tried least come first.

    The structure is the value of the first tunable. Within one, the points that share most other
    values with the best come first. `taken` are points that are proposed already.
    """
    space, rng = kernels.space, random.Random(seed)
    name = space.tunables[0].name
    best = history.best.point if history.best else space.defaults
    tried = [one.point[name] for one in history.tried] + [one[name] for one in taken]
    seen = {kernels.sha(one.point) for one in history.tried} | history.seen
    seen |= {kernels.sha(one) for one in taken}
    others = [one for one in kernels.candidates(rng) if one[name] != best[name]]
    others.sort(key=lambda one: (tried.count(one[name]), count_differences(one, best)))
    return _new(kernels, seen, others)


def propose_near(
    kernels: TunableKernel,
    history: History,
    taken: Sequence[Point],
    seed: str,
    parents: Sequence[Point],
) -> Iterator[dict[str, int]]:
    """Yield new points near the first of `parents`; of two, first those that take values of both.

    `taken` are points that are proposed already.
    """
    rng, parent = random.Random(seed), parents[0]
    seen = {kernels.sha(one.point) for one in history.tried} | history.seen
    seen |= {kernels.sha(one) for one in taken}
    near = kernels.candidates(rng, [parent])
    near.sort(key=lambda one: count_differences(one, parent))
    mixed = [
        one
        for one in near
        if all(value in {each[name] for each in parents} for name, value in one.items())
    ]
    return _new(kernels, seen, chain(mixed, near))


def count_differences(one: Point, other: Point) -> int:
    """Count the tunables whose values differ."""
    return sum(other[name] != value for name, value in one.items())


def preferred_points(
    space: Space, best: Point, preferences: Sequence[Point], known: Sequence[dict[str, int]]
) -> Iterator[dict[str, int]]:
    """Yield for each preference in turn the next point that has its values.

    The points that share most other values with the best come first.
    """
    meeting = []
    for preference in preferences:
        direct = {**best, **preference}
        others = [one for one in known if preference.items() <= one.items()]
        near = sorted(others, key=lambda one: count_differences(one, best))
        meeting.append([direct, *near] if is_valid(space, direct) else near)
    for rank in range(max(map(len, meeting), default=0)):
        for points in meeting:
            yield from points[rank : rank + 1]


def _new(
    kernels: TunableKernel, seen: set[str], proposed: Iterable[dict[str, int]]
) -> Iterator[dict[str, int]]:
    """Yield the points whose kernel is not in `seen`, and add each kernel to `seen`."""
    for point in proposed:
        sha = kernels.sha(point)
        if sha not in seen:
            seen.add(sha)
            yield point
