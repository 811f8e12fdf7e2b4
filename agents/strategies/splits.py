"""Finds two kernels that together are faster than any single kernel, and the sizes at which each
runs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cuda_llm.agents.composition import LARGE, SMALL, CompositionRefused, compose
from cuda_llm.agents.protocols import Trial
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.acceptance import noise_margin, passed_by_speed
from cuda_llm.agents.strategies.partners import single_kernels
from cuda_llm.figure_wording import name_sizes
from cuda_llm.search import Attempt, Draft
from cuda_llm.tasks.element_types import element_type
from cuda_llm.tasks.objective import scoring_of
from cuda_llm.tasks.signature import signature
from cuda_llm.tasks.task import ArgumentRole, Task


@dataclass(frozen=True, kw_only=True)
class Split:
    """Two kernels, with the sizes at which each of them runs."""

    small: Attempt
    large: Attempt
    order: tuple[int, ...]
    """Indices of the timed sizes, smallest first."""
    count: int
    """Number of sizes, from the smallest, at which the first kernel runs."""
    condition: str
    """C++ condition that is true at the sizes at which the first kernel runs."""
    speedup: float
    """Predicted speed-up over the baseline, from the times of both kernels."""

    @property
    def times_us(self) -> tuple[float, ...]:
        """Return the time at each timed size, as predicted."""
        mine = set(self.order[: self.count])
        pairs = enumerate(zip(self.small.times_us, self.large.times_us, strict=True))
        return tuple(small if index in mine else large for index, (small, large) in pairs)


def best_split(
    situation: Situation, kernels: Sequence[Attempt]
) -> Split | CompositionRefused | None:
    """Return the two of `kernels` and the threshold with the best predicted score.

    None unless it beats every attempt by more than a tie; refused where no argument of `solve`
    tells the sizes apart.
    """
    sizes, baseline_us = situation.sizes, situation.baseline_us
    if len(kernels) < 2 or len(sizes) < 2 or len(baseline_us) != len(sizes):
        return None
    telling = _telling_scalars(situation.task, sizes)
    extents = [math.prod(dims[name] for name in telling.values()) for dims in sizes]
    order = sorted(range(len(sizes)), key=extents.__getitem__)
    scoring = scoring_of(situation.task, sizes)
    join = min if scoring.objective == "worst" else sum
    weights = (1.0,) * len(sizes) if scoring.objective == "worst" else scoring.shares
    scores = [
        [weights[at] * math.log(baseline_us[at] / one.times_us[at]) for at in order]
        for one in kernels
    ]
    found = []
    for count in range(1, len(order)):
        low, high = extents[order[count - 1]], extents[order[count]]
        if low < high:
            before, behind = ([join(row[piece]) for row in scores] for piece in _pieces(count))
            small, large = before.index(max(before)), behind.index(max(behind))
            made = Split(
                small=kernels[small],
                large=kernels[large],
                order=tuple(order),
                count=count,
                condition=_condition(telling, low, high),
                speedup=math.exp(join((before[small], behind[large]))),
            )
            found.append(made)
    if not found:
        return CompositionRefused("no_size_argument")
    best = max(found, key=lambda one: one.speedup)
    return best if best.small != best.large and _is_worth(situation, best) else None


def _pieces(count: int) -> tuple[slice, slice]:
    return slice(None, count), slice(count, None)


def _is_worth(situation: Situation, split: Split) -> bool:
    """Return whether the split beats every attempt by more than a tie."""
    fastest = passed_by_speed(situation.attempts)[0]
    margin = max(noise_margin(situation, one, fastest) for one in (split.small, split.large))
    return split.speedup > (1 + margin) * (fastest.speedup or 0.0)


def _telling_scalars(task: Task, sizes: Sequence[Mapping[str, int]]) -> dict[str, str]:
    """Return by argument of `solve` the dim that it is, of dims in which the sizes differ."""
    return {
        one.name: one.value
        for one in task.arguments
        if one.role == ArgumentRole.SCALAR
        and element_type(one.dtype).kind == "int"
        and len({dims.get(one.value) for dims in sizes} - {None}) > 1
        and all(one.value in dims for dims in sizes)
    }


def _condition(telling: Mapping[str, str], low: int, high: int) -> str:
    """Return C++ that holds up to the geometric mean of two products of extents."""
    product = " * ".join(telling)
    return f"(long long){product} < {max(low + 1, math.isqrt(low * high))}LL"


def propose_composition(situation: Situation) -> Trial | CompositionRefused | None:
    """Return the kernel of `best_split`, or why its two cannot be put together.

    Where one of the two does not fit into a composition, the next best without it is proposed.
    None where no two are worth a try, or were tried at that threshold.
    """
    kernels, refused = single_kernels(situation), None
    while True:
        split = best_split(situation, kernels)
        if split is None or isinstance(split, CompositionRefused):
            return refused or split
        source = _source_of(situation, split)
        if isinstance(source, str):
            return _as_trial(situation, split, source)
        at_fault = {SMALL: split.small, LARGE: split.large}.get(source.part)
        refused = refused or replace(source, attempts=(split.small.id, split.large.id))
        if at_fault is None:
            return refused
        kernels = [one for one in kernels if one != at_fault]


def _source_of(situation: Situation, split: Split) -> str | CompositionRefused:
    task, archive = situation.task, situation.archive
    return compose(
        archive.source(split.small.id),
        archive.source(split.large.id),
        signature=signature(task),
        arguments=[one.name for one in task.arguments],
        condition=split.condition,
        defined=task.capabilities.defines,
    )


def _as_trial(situation: Situation, split: Split, source: str) -> Trial | None:
    idea = describe_split(situation, split)
    made = (split.small.id, split.large.id, idea)
    if made in {(one.parent, one.second, one.idea) for one in situation.attempts}:
        return None
    return Trial(parent=made[0], second=made[1], draft=Draft(source=source, idea=idea))


def describe_split(situation: Situation, split: Split) -> str:
    """Render `r1-c2 up to M = 4,096, r2-c1 beyond`."""
    last = name_sizes(situation.sizes)[split.order[split.count - 1]]
    return f"{split.small.id} up to {last}, {split.large.id} beyond"
