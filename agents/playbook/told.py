"""What a search is told of attempts."""

import math
from collections.abc import Sequence

from cuda_llm.agents.playbook.kernels import Kernels
from cuda_llm.agents.playbook.study import Tried
from cuda_llm.search import Attempt


def tell(kernels: Kernels, attempts: Sequence[Attempt]) -> tuple[Tried, ...]:
    """One entry an attempt at a point of this space, by round and index.

    A kernel that failed is told as failed; where nothing was learned of it (our own parts broke,
    or it was a duplicate), it is left out.
    """
    ordered = sorted(attempts, key=lambda one: (one.round, one.index))
    points = [(one, kernels.own(one.tunables)) for one in ordered if _is_judged(one)]
    return tuple(Tried(point=point, score=_score(one)) for one, point in points if point)


def _is_judged(attempt: Attempt) -> bool:
    return attempt.code != "DUPLICATE" and not attempt.code.startswith("INFRA_")


def _score(attempt: Attempt) -> float | None:
    if not attempt.passed or not attempt.speedup:
        return None
    return math.log(attempt.speedup)
