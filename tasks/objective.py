"""Makes the single score of a kernel from its speed-ups at the timed sizes.

`geomean`: the geometric mean of the speed-ups, weighted by size. `largest`: the speed-up at the
largest size alone. `worst`: the smallest of the speed-ups. Every score of the project is made here:
scores of verdicts, contests and forecasts.
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
    """The objective and the weights of the timed sizes."""

    objective: Objective
    shares: tuple[float, ...]
    """Weight of each timed size in the geometric mean, in order of the sizes, adding up to 1. For
    `largest` a single weight is 1; `worst` ignores the weights."""

    def score(self, ratios: Sequence[float]) -> float:
        """Return the score of the ratios (such as speed-ups) at all sizes; larger is better."""
        if self.objective == "worst":
            return min(ratios)
        pairs = zip(self.shares, map(math.log, ratios), strict=True)
        return math.exp(sum(share * log for share, log in pairs))

    def deciding(self, speedups: Sequence[float]) -> tuple[float, ...]:
        """Return d log(score) / d log(speed-up) of each size: for `worst`, 1 at its size alone."""
        if self.objective != "worst":
            return self.shares
        worst = min(range(len(speedups)), key=speedups.__getitem__)
        return tuple(float(at == worst) for at in range(len(speedups)))

    def doubt(self, doubts: Sequence[float]) -> float:
        """Return the relative half-width of the score's interval, from the independent ones of the
        sizes; for `worst`, the widest."""
        if self.objective == "worst":
            return max(doubts)
        return math.hypot(*(share * one for share, one in zip(self.shares, doubts, strict=True)))


def scoring_of(task: Task, timed: Sequence[Mapping[str, int]]) -> Scoring:
    """Return the Scoring of the task at the timed sizes, which may come in any order."""
    if task.objective == "largest":
        largest = _largest(task, timed)
        shares = tuple(float(at == largest) for at in range(len(timed)))
    else:
        weights = _weights_of(task, timed)
        shares = tuple(weight / sum(weights) for weight in weights)
    return Scoring(objective=task.objective, shares=shares)


def _weights_of(task: Task, timed: Sequence[Mapping[str, int]]) -> tuple[float, ...]:
    """Return the weights of the timed sizes; equal weights where the task sets none."""
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
    """Return the index of the largest timed size, which is the last in the order of the task's
    file."""
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
