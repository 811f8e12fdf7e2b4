"""How the timed sizes make the one score that kernels are compared by.

`geomean`: the geometric mean of the speed-ups, in which each size has its weight. `largest`: the
speed-up at the largest size alone. `worst`: the smallest of the speed-ups. Every score of the
project is made here: that of a verdict, of a contest, of a forecast.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from cuda_llm.errors import UsageError
from cuda_llm.profile import Objective
from cuda_llm.tasks.loader import spell_task
from cuda_llm.tasks.task import Task


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """The objective at the sizes that were timed."""

    objective: Objective
    shares: tuple[float, ...]
    """How much each timed size counts in the mean, in their order; their sum is 1. Of `largest` one
    of them is 1; `worst` has no use for them."""

    def score(self, ratios: Sequence[float]) -> float:
        """Return the score of one ratio at each size, speed-ups say; more is better."""
        if self.objective == "worst":
            return min(ratios)
        pairs = zip(self.shares, map(math.log, ratios), strict=True)
        return math.exp(sum(share * log for share, log in pairs))

    def deciding(self, speedups: Sequence[float]) -> tuple[float, ...]:
        """Return how much the score rises with each size, in logarithms: of the worst alone."""
        if self.objective != "worst":
            return self.shares
        worst = min(range(len(speedups)), key=speedups.__getitem__)
        return tuple(float(at == worst) for at in range(len(speedups)))

    @property
    def doubt(self) -> float:
        """Return the doubt of the score where each size has a doubt of 1 of its own."""
        return 1.0 if self.objective == "worst" else math.hypot(*self.shares)


def scoring_of(task: Task, timed: Sequence[Mapping[str, int]]) -> Scoring:
    """Return how the timed sizes, in any order, make the score of the task."""
    if task.objective == "largest":
        largest = _largest(task, timed)
        shares = tuple(float(at == largest) for at in range(len(timed)))
    else:
        weights = _weights_of(task, timed)
        shares = tuple(weight / sum(weights) for weight in weights)
    return Scoring(objective=task.objective, shares=shares)


def _weights_of(task: Task, timed: Sequence[Mapping[str, int]]) -> tuple[float, ...]:
    """Return the weights of the timed sizes: alike where the task does not say."""
    alike = (1.0,) * len(timed)
    if len(task.weights) != len(task.sizes.bench):
        return task.weights if len(task.weights) == len(timed) else alike
    pairs = zip(task.sizes.bench, task.weights, strict=True)
    known = {tuple(sorted(dims.items())): weight for dims, weight in pairs}
    wanted = [tuple(sorted(dims.items())) for dims in timed]
    if known.keys() >= set(wanted):
        return tuple(known[one] for one in wanted)
    return task.weights if len(task.weights) == len(timed) else alike


def _largest(task: Task, timed: Sequence[Mapping[str, int]]) -> int:
    """Return the place of the largest: the last one in the task's own order."""
    order = [dict(dims) for dims in chain(task.sizes.emulated, task.sizes.bench)]
    found = [order.index(dict(dims)) if dict(dims) in order else -1 for dims in timed]
    return max(range(len(timed)), key=lambda at: (found[at], at))


def with_objective(
    task: Task, objective: Objective | None = None, weights: Iterable[float] = ()
) -> Task:
    """Return the task with the objective and weights that a user asks for; without, its own.

    Raises UsageError where weights do not fit the task's sizes or the objective.
    """
    asked = tuple(float(one) for one in weights)
    chosen = objective or ("geomean" if asked else task.objective)
    if asked and chosen != "geomean":
        raise UsageError(f"--weight: counts for --objective geomean alone, not for {chosen}")
    if asked and len(asked) != len(task.sizes.bench):
        raise UsageError(
            f"--weight: {len(asked)} given, but {task.name} has {len(task.sizes.bench)} sizes; "
            f"expected one for each, in their order: cuda-llm tasks show {spell_task(task)}"
        )
    for one in asked:
        if not (one > 0 and math.isfinite(one)):
            raise UsageError(f"--weight {one:g}: expected a number above 0")
    kept = asked or (task.weights if chosen == "geomean" else ())
    return replace(task, objective=chosen, weights=kept)
