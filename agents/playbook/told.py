"""Turns attempts into the points that a search has tried."""

import math
from collections.abc import Sequence

from cuda_llm.agents.playbook.kernels import Kernels
from cuda_llm.agents.playbook.study import Tried
from cuda_llm.search import Attempt


def tell(kernels: Kernels, attempts: Sequence[Attempt]) -> tuple[Tried, ...]:
    """Returns one entry for each attempt at a point of this space, by round and index.

    An attempt that says nothing about its kernel (our own parts broke, or it was a duplicate) is
    left out.
    """
    ordered = sorted(attempts, key=lambda one: (one.round, one.index))
    points = [(one, kernels.point_of(one.tunables)) for one in ordered if _is_judged(one)]
    return tuple(Tried(point=point, score=_score(one)) for one, point in points if point)


def _is_judged(attempt: Attempt) -> bool:
    return attempt.code != "DUPLICATE" and not attempt.code.startswith("INFRA_")


def _score(attempt: Attempt) -> float | None:
    if not attempt.passed or not attempt.speedup:
        return None
    return math.log(attempt.speedup)
