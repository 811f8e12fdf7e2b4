"""Proposes the points to try next; the same history gives the same points, in the same order.

Points come from three sources: an even filling of the space, the neighbours of the best point with
the values that hints prefer, and Optuna, which models the space from what was tried.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from itertools import chain, cycle, islice
from typing import TYPE_CHECKING

from cuda_llm.agents.playbook.history import History, TriedPoint
from cuda_llm.agents.playbook.kernels import TunableKernel
from cuda_llm.agents.tunables.space import Point, Space, is_valid
from cuda_llm.log import use_our_handler

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution

STARTUP_TRIALS = 5
"""With fewer points tried, a model of the space predicts nothing."""
MAX_KNOWN_SUGGESTIONS = 24
"""Largest number of known kernels that Optuna may suggest in a row."""
FAILURE_WEIGHT = 5
"""Weight of a point that failed, in points that passed."""


class PointSource(Enum):
    """Source of the next point."""

    NEIGHBOUR = 1
    PREFERENCE = 2
    OPTUNA = 3


def propose(kernels: TunableKernel, history: History, seed: str) -> Iterator[dict[str, int]]:
    """Yield points whose kernels are new and all different; end when the space is used up.

    The first points fill the space evenly; later Optuna suggests them. Once something passed, of
    every three points one is a neighbour of the best, one has the values that a hint prefers (or is
    a neighbour too), and one is Optuna's.
    """
    space, rng = kernels.space, random.Random(seed)
    seen = {kernels.sha(one.point) for one in history.tried} | history.seen
    known = kernels.candidates(rng)
    tried = [one.point for one in history.tried]
    evenly = fill_space(space, known, tried)
    neighbours = preferred = iter(list[dict[str, int]]())
    if history.best is not None:
        best = history.best.point
        neighbours = nearest_points(
            best, [*known, *single_changes(space, best, rng)], history.tried
        )
        preferred = preferred_points(space, best, history.preferred, known)
    suggested = suggest_by_optuna(space, history.tried, rng.randrange(2**32))
    for turn in cycle((PointSource.NEIGHBOUR, PointSource.PREFERENCE, PointSource.OPTUNA)):
        sources = [evenly]
        if len(tried) >= STARTUP_TRIALS:
            sources.insert(0, islice(suggested, MAX_KNOWN_SUGGESTIONS))
        if turn != PointSource.OPTUNA:
            sources.insert(0, neighbours)
        if turn == PointSource.PREFERENCE:
            sources.insert(0, preferred)
        point = next(_new(kernels, seen, chain(*sources)), None)
        if point is None:
            return
        yield point


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
    space, rng = kernels.space, random.Random(seed)
    parent = parents[0]
    seen = {kernels.sha(one.point) for one in history.tried} | history.seen
    seen |= {kernels.sha(one) for one in taken}
    known = kernels.candidates(rng)
    mixed = [
        one
        for one in known
        if all(value in {each[name] for each in parents} for name, value in one.items())
    ]
    mixed.sort(key=lambda one: count_differences(one, parent))
    near = nearest_points(parent, [*known, *single_changes(space, parent, rng)], history.tried)
    return _new(kernels, seen, chain(mixed, near))


def count_differences(one: Point, other: Point) -> int:
    """Count the tunables whose values differ."""
    return sum(other[name] != value for name, value in one.items())


def nearest_points(
    best: Point, known: Sequence[dict[str, int]], tried: Sequence[TriedPoint]
) -> Iterator[dict[str, int]]:
    """Yield the points that differ least from the best; among equals, those of rarer values.

    A value is as rare as it was seldom tried; in a point that failed it counts several times.
    """
    uses = Counter[tuple[str, int]]()
    for one in tried:
        for pair in one.point.items():
            uses[pair] += FAILURE_WEIGHT if one.score is None else 1
    left = list(known)
    while left:
        point = min(
            left,
            key=lambda one: (
                count_differences(one, best),
                sum(uses[pair] for pair in one.items() - best.items()),
            ),
        )
        left.remove(point)
        uses.update(point.items())
        yield point


def single_changes(space: Space, point: Point, rng: random.Random) -> list[dict[str, int]]:
    """List every valid point that differs from `point` in one value, in random order."""
    changed = [{**point, one.name: value} for one in space.tunables for value in one.values]
    found = [one for one in changed if one != point and is_valid(space, one)]
    return rng.sample(found, len(found))


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


def fill_space(
    space: Space, candidates: Sequence[dict[str, int]], tried: Sequence[Point]
) -> Iterator[dict[str, int]]:
    """Yield the defaults, then each time a point of the values that were tried least.

    Among equals the first candidate is taken. A structure in which other tunables do nothing, such
    as a naive kernel, has few values and so gets few of the points.
    """
    uses = Counter(pair for point in tried for pair in point.items())
    left = list(candidates)
    point = space.defaults
    while True:
        yield point
        uses.update(point.items())
        left = [one for one in left if one != point]
        if not left:
            return
        point = min(left, key=lambda one: sum(uses[pair] for pair in one.items()))


def suggest_by_optuna(
    space: Space, tried: Sequence[TriedPoint], seed: int
) -> Iterator[dict[str, int]]:
    """Yield valid points without end, perhaps with repeats; equal arguments give equal points.

    The study is rebuilt from `tried`, in its order, and lives in memory. Points that were suggested
    stay open in it, so that the next ones keep away from them; one that breaks a condition counts
    as pruned.
    """
    from optuna.trial import TrialState

    kinds = _kinds(space)
    study = _rebuild(space, tried, seed, kinds)
    while True:
        trial = study.ask(kinds)
        point = {one.name: one.values[trial.params[one.name]] for one in space.tunables}
        if is_valid(space, point):
            yield point
        else:
            study.tell(trial, state=TrialState.PRUNED)


def _rebuild(
    space: Space, tried: Sequence[TriedPoint], seed: int, kinds: "dict[str, BaseDistribution]"
) -> "Study":
    """Make a study of the points in `tried`.

    Failures count as pruned, because TPE ignores trials that failed.

    The sampler was chosen by measurement (docs/playbook.md).
    """
    import optuna
    from optuna.trial import TrialState

    use_our_handler("optuna")
    sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, n_startup_trials=1)
    with _quiet():
        study = optuna.create_study(sampler=sampler, direction="maximize")
    for one in tried:
        params = {each.name: each.values.index(one.point[each.name]) for each in space.tunables}
        state = TrialState.PRUNED if one.score is None else TrialState.COMPLETE
        study.add_trial(
            optuna.create_trial(params=params, distributions=kinds, value=one.score, state=state)
        )
    return study


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the line on stderr with which Optuna announces a study; restore its verbosity."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def _kinds(space: Space) -> "dict[str, BaseDistribution]":
    """Make the distributions of the values' indices; those of the first tunable have no order."""
    from optuna.distributions import CategoricalDistribution, IntDistribution

    structure, *others = space.tunables
    kinds: dict[str, BaseDistribution] = {
        one.name: IntDistribution(0, len(one.values) - 1) for one in others
    }
    return {structure.name: CategoricalDistribution(range(len(structure.values)))} | kinds
