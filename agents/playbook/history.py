"""The history of a search of tunables: points that were judged, and values that hints prefer."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cuda_llm.agents.playbook.kernels import TunableKernel
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.tunables.space import Point, Space
from cuda_llm.search import Attempt, Hint


@dataclass(frozen=True, kw_only=True)
class TriedPoint:
    """A point that was judged, and how fast its kernel is."""

    point: Point
    score: float | None
    """Logarithm of the point's speed-up; None for a point that failed."""


@dataclass(frozen=True, kw_only=True)
class History:
    """The points that a search has judged, and the values that hints prefer."""

    tried: tuple[TriedPoint, ...] = ()
    """The points that were judged, in that order."""
    seen: frozenset[str] = frozenset()
    """Hashes of kernels that are not to be proposed again, beside those of `tried`."""
    preferred: tuple[Point, ...] = ()
    """Values for some of the tunables that hints prefer, the most important hint first."""

    @property
    def best(self) -> TriedPoint | None:
        """Return the fastest point; the first of equals."""
        return next(iter(self.fastest(1)), None)

    def fastest(self, count: int) -> tuple[TriedPoint, ...]:
        """Return at most `count` points that passed, the fastest first."""
        passed = [one for one in self.tried if one.score is not None]
        return tuple(sorted(passed, key=lambda one: -(one.score or 0.0))[:count])


def tried_points(kernels: TunableKernel, attempts: Sequence[Attempt]) -> tuple[TriedPoint, ...]:
    """Return one entry for each attempt at a point of this space, by round and index.

    An attempt that says nothing about its kernel (our own parts broke, or it was a duplicate) is
    left out.
    """
    ordered = sorted(attempts, key=lambda one: (one.round, one.index))
    points = [(one, kernels.point_of(one.tunables)) for one in ordered if one.is_about_its_kernel]
    return tuple(TriedPoint(point=point, score=_score(one)) for one, point in points if point)


def _score(attempt: Attempt) -> float | None:
    if not attempt.passed or not attempt.speedup:
        return None
    return math.log(attempt.speedup)


def hint_preferences(space: Space, situation: Situation, best: Point) -> tuple[Point, ...]:
    """Return the preferred values under the newest hints, without those that `best` has.

    Values for bottlenecks come before values for failures.
    """
    answered = {one.code for one in space.preferences}
    codes = [
        *_newest(situation.performance_hints, answered),
        *_newest(situation.error_hints, answered),
    ]
    return tuple(
        preference.values
        for code in dict.fromkeys(codes)
        for preference in space.preferences
        if preference.code == code and not preference.values.items() <= best.items()
    )


def _newest(hints: Sequence[Hint], answered: set[str]) -> list[str]:
    """Return the codes in `answered` that hints of the newest round have."""
    known = [one for one in hints if one.code in answered]
    newest = max((one.round for one in known), default=0)
    return [one.code for one in known if one.round == newest]
