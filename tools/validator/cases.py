"""The plan of one evaluation: which sizes, on which inputs, watched how closely."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from cuda_llm.tasks.distribution import parse_distribution
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.task import Task, TaskArgument
from cuda_llm.tools.device import Level
from cuda_llm.tools.validator.distributions import REPEATED, SYMMETRIC
from cuda_llm.tools.validator.hidden import draw_hidden
from cuda_llm.tools.validator.layout import Dims, work
from cuda_llm.tools.validator.telling import put_telling_first
from cuda_llm.tools.validator.tolerances import Terms

POISONS = (0xFF, 0x7B)
"""Bytes outputs are filled with: NaN for floats, and a large finite number."""

CLOSE_WATCH_WORK = 2e6
"""Cases with at most this much work run with races and uninitialised reads watched."""

MOST_SCHEDULES = 1 << 31


@dataclass(frozen=True, kw_only=True)
class Case:
    """One set of inputs at one size."""

    group: str
    """`edge`, `emulated`, `hidden` or `bench`."""
    dims: Dims
    distributions: Mapping[str, str]
    """Input argument to distribution, as the task spells it."""
    level: Level
    poison: int = POISONS[0]
    schedule_seed: int = 0
    probe: bool = False
    """Every sum is exact in float32, so the result must be equal."""
    repeat_seed: int = 0
    """Not 0: call again with the same inputs, other poison and this schedule."""
    work: float = 0.0

    @property
    def label(self) -> str:
        """The distributions in few words, e.g. `normal` or `A normal, B sparse`."""
        used = list(self.distributions.values())
        if len(set(used)) == 1:
            return used[0]
        return ", ".join(f"{name} {text}" for name, text in self.distributions.items())


def plan(task: Task, rng: np.random.Generator) -> tuple[Case, ...]:
    """Cases from cheap to dear: every edge size, every row of distributions, hidden sizes, probes.

    The cheapest size begins, with the first row of distributions. Rows go to the sizes of many
    elements first, those with the most work at the head, so that each meets one where it shows
    itself; sizes left over repeat them. Larger emulated sizes are left to the timed calls, which
    are compared just as well.
    """
    sizes = [("edge", dims) for dims in task.sizes.edge]
    sizes += [("hidden", dims) for dims in draw_hidden(task, rng)]
    sizes.sort(key=lambda size: work(task, size[1]))
    rows = distribution_rows(task)
    cases = [_case(task, *sizes[0], rows[0])]
    cases += [
        _case(task, *size, rows[rank % len(rows)])
        for rank, size in enumerate(put_telling_first(task, sizes[1:] or sizes, len(rows)))
    ]
    cases += [_case(task, "emulated", dims, rows[0]) for dims in task.sizes.emulated[:1]]
    cases += _probes(task, cases)
    cases.sort(key=lambda case: case.work)
    return tuple(
        replace(
            case,
            poison=POISONS[number % len(POISONS)],
            schedule_seed=0 if number % 2 == 0 else _schedule(rng),
            repeat_seed=_schedule(rng) if case is _repeated(cases) else 0,
        )
        for number, case in enumerate(cases)
    )


def timed_case(task: Task, dims: Dims, level: Level, group: str = "emulated") -> Case:
    """The inputs a size is timed on: the first row of distributions, blocks in ascending order."""
    return replace(_case(task, group, dims, distribution_rows(task)[0]), level=level)


def distribution_rows(task: Task) -> tuple[Mapping[str, str], ...]:
    """Combinations of distributions: row k takes each input's k-th, starting over when it ends."""
    inputs = inputs_of(task)
    rows = max((len(argument.distributions) for argument in inputs), default=1)
    return tuple(
        {a.name: a.distributions[row % len(a.distributions)] for a in inputs} for row in range(rows)
    )


def inputs_of(task: Task) -> tuple[TaskArgument, ...]:
    """Arguments that arrive filled."""
    return tuple(argument for argument in task.arguments if argument.distributions)


def terms_of(task: Task, case: Case) -> Terms:
    """What is summed into one output element of this case."""
    used = [parse_distribution(text) for text in case.distributions.values()]
    return Terms(
        count=float(evaluate(task.tolerance.terms, case.dims)),
        symmetric=all(
            one.name in SYMMETRIC or (one.name == "uniform" and _is_centred(one.arguments, case))
            for one in used
        ),
        repeated=all(one.name in REPEATED for one in used),
    )


def _is_centred(bounds: tuple[str, ...], case: Case) -> bool:
    low, high = (evaluate(text, case.dims) for text in bounds)
    return low == -high


def _case(task: Task, group: str, dims: Dims, distributions: Mapping[str, str]) -> Case:
    effort = work(task, dims)
    return Case(
        group=group,
        dims=dims,
        distributions=distributions,
        level=Level.FULL if effort <= CLOSE_WATCH_WORK else Level.CHECK,
        work=effort,
    )


def _probes(task: Task, cases: list[Case]) -> list[Case]:
    """Exactness probes at the dearest edge size and at a hidden one of middling work."""
    inputs = inputs_of(task)
    if not task.linear or not inputs or not all(argument.probe for argument in inputs):
        return []
    probes = {argument.name: argument.probe for argument in inputs}
    edge, hidden = (
        sorted((c for c in cases if c.group == group), key=lambda case: case.work)
        for group in ("edge", "hidden")
    )
    chosen = [*edge[-1:], *hidden[len(hidden) // 2 :][:1]]
    return [replace(case, distributions=probes, probe=True) for case in chosen]


def _repeated(cases: list[Case]) -> Case:
    """The case that is called twice: the most work that is still watched closely."""
    watched = [case for case in cases if case.level is Level.FULL]
    return max(watched or cases[:1], key=lambda case: case.work)


def _schedule(rng: np.random.Generator) -> int:
    return int(rng.integers(1, MOST_SCHEDULES))
