"""In which order calls come, and which of them are made again, and how.

No process can tell by its calls whether it is validated or timed, and none may answer from what it
kept of an earlier call.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from cuda_llm.tasks.distribution import parse_distribution
from cuda_llm.tasks.reference import Dims
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Level
from cuda_llm.tools.device.buffers import Array, Arrays, Random
from cuda_llm.tools.validator.cases import (
    MOST_SCHEDULES,
    Case,
    generator,
    inputs_of,
    plan,
    timed_case,
    timed_checks,
    work,
)
from cuda_llm.tools.validator.distributions import draw, spellings_in

FEWEST_CHEAP = 4
MOST_REPEATED_SHARE = 0.25
"""Share of the work of all cases up to which any case may be the one that is called again."""

EXTRA_CALLS = 60
EXTRA_CALLS_ON_GPU = 4
"""Calls on the same inputs, of a very cheap case, and up to half as many more: few where the calls
that are timed come by the hundred."""

LATE_SHARE = 0.7
"""Share of evaluations in which the many extra calls come after most other cases."""

MOST_CHANGED = 3
"""Inputs of the dearest case that may be, each of which has an element changed."""

MOST_REPEATED_WORK = 1e5
"""Largest operations and bytes of a case that is called again between timed sizes."""

MOST_WATCHED_WORK = 2e7
"""Operations and bytes of the smallest timed size at which races are looked for: 0.2 s."""
MOST_WATCHED_AGAIN = 5e6
"""Largest operations and bytes of another case that is watched for races between timed sizes."""

MOST_OPENING_WORK = 2e10
"""Operations and bytes of the timed size with which a validation on a GPU may begin."""

ELEMENTWISE = frozenset(
    {
        *("normal", "uniform", "uniform_signed", "uniform_unit", "heavy_tail", "large", "denormal"),
        *("sparse", "mixed", "zeros", "all_equal", "constant_rows", "ints_full_range", "ints"),
        *("bins", "rare_bins", "magnitudes", "bit_patterns", "exact_odd_13bit", "exact_signs"),
    }
)
"""Distributions of which any element may take the place of another of the same index."""

TIMED_GROUPS = ("emulated", "bench")


class Repeat(StrEnum):
    """How a call is repeated."""

    ONE_CHANGED = "one-changed"
    """Same buffers in the same place, with one element of one input changed."""
    PERMUTED = "permuted"
    """Same place, with the elements of one input in another order: sums of them stay the same."""
    FRESH = "fresh"
    """Same place, all contents new."""


@dataclass(frozen=True, kw_only=True)
class CallPlan:
    """Where the buffers of a case lie, and how often the case is called."""

    seed: int = 0
    """Seed of everything that is drawn for the case."""
    repeats: tuple[Repeat, ...] = ()
    changed_input: int = 0
    """Position of the input of which an element changes; the next repeat changes the next input."""
    elsewhere: bool = False
    """Then the same contents in other places, with other poison."""
    extra_calls: int = 0
    """Number of calls on the same contents in the same place before the other repeats."""

    def generator(self) -> np.random.Generator:
        """Return what is drawn from on the host."""
        return np.random.default_rng(self.seed)


ONCE = CallPlan()
SURE = 0.95


def calls_of(case: Case, calls: CallPlan) -> int:
    """Return how often a case is called where every call is right."""
    again = case.repeat_seed != 0 or calls.elsewhere
    return 1 + calls.extra_calls + len(calls.repeats) + again


def share_that_shows(calls: int) -> float:
    """Return the share p of wrong calls that `calls` calls show with the probability SURE.

    (1 - p) ** calls = 1 - SURE, for a kernel that is wrong at random, whatever it is called on.
    """
    return 1.0 - math.pow(1.0 - SURE, 1.0 / calls)


REPETITIONS = (
    ONCE,
    CallPlan(repeats=(Repeat.ONE_CHANGED,)),
    CallPlan(repeats=(Repeat.ONE_CHANGED,)),
    CallPlan(repeats=(Repeat.PERMUTED,)),
    CallPlan(repeats=(Repeat.FRESH,)),
    CallPlan(elsewhere=True),
)
"""Ways of repeating, dealt in shuffled order to cheap cases: each case is repeated in one way, to
save time."""


def begins_small(nonce: bytes) -> bool:
    """Return whether the validation of this nonce begins with a cheap case.

    It is for the process that is timed to begin in the other way: then each candidate is seen in
    both, and cannot tell by its first call which of the two it is in.
    """
    return bool(generator(nonce, "", "begins small", 0).integers(2))


def draw_timed(task: Task, rng: np.random.Generator) -> Case:
    """Draw a size that a GPU times, of those that are checked in some hundredths of a second."""
    affordable = [dims for dims in task.sizes.bench if work(task, dims) <= MOST_OPENING_WORK]
    sizes = affordable or task.sizes.bench[:1]
    return timed_case(task, sizes[int(rng.integers(len(sizes)))], Level.CHECK, "bench")


def order_cases(cases: Sequence[Case], rng: np.random.Generator, *, small: bool) -> tuple[int, ...]:
    """Return the positions of the cases in the order of their calls; a cheap case or a timed size
    is first."""
    dearest_last = _by_work(cases)
    timed = [number for number in dearest_last if cases[number].group in TIMED_GROUPS]
    first = draw_cheap(cases, rng) if small else (timed or dearest_last)[-1]
    others = [int(one) for one in rng.permutation(len(cases)) if one != first]
    return (first, *others)


def draw_cheap(cases: Sequence[Case], rng: np.random.Generator) -> int:
    """Draw the position of one of the cheapest cases."""
    return int(rng.choice(_by_work(cases)[: max(FEWEST_CHEAP, len(cases) // 3)]))


def _by_work(cases: Sequence[Case]) -> list[int]:
    return sorted(range(len(cases)), key=lambda number: cases[number].work)


def plan_calls(
    cases: Sequence[Case], order: Sequence[int], rng: np.random.Generator, *, on_host: bool
) -> tuple[CallPlan, ...]:
    """Plan what is repeated: the dearest case that may be, and most of the cheap ones.

    Most often the many extra calls come late in the `order`: before them, those of small sizes are
    as few as where sizes are timed.
    """
    dearest = max((case.work for case in cases if case.repeat_seed), default=0.0)
    changed = int(rng.integers(len(cases)))
    plans = [CallPlan(seed=_seed(rng)) for _ in cases]
    by_work = sorted(range(len(cases)), key=lambda number: -cases[number].work)
    deck: list[CallPlan] = []
    for number in by_work:
        case = cases[number]
        if case.repeat_seed:
            inputs = min(MOST_CHANGED, len(case.distributions))
            drawn = CallPlan(repeats=(Repeat.ONE_CHANGED,) * inputs)
        elif case.level is Level.FULL and case.work <= MOST_REPEATED_SHARE * dearest:
            deck = deck or [REPETITIONS[int(k)] for k in rng.permutation(len(REPETITIONS))]
            drawn = deck.pop()
        else:
            continue
        changed += len(drawn.repeats)
        plans[number] = replace(drawn, seed=plans[number].seed, changed_input=changed)
    fewest = EXTRA_CALLS if on_host else EXTRA_CALLS_ON_GPU
    extra = fewest + int(rng.integers(fewest // 2 + 1))
    cheapest = by_work[-FEWEST_CHEAP:]
    late = rng.random() < LATE_SHARE
    counted = max(cheapest, key=order.index) if late else int(rng.choice(cheapest))
    plans[counted] = replace(plans[counted], extra_calls=extra)
    return tuple(plans)


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(1, MOST_SCHEDULES))


@dataclass(frozen=True, kw_only=True)
class TimedStep:
    """One call of the process that is timed."""

    case: Case
    plan: CallPlan = ONCE
    timed: int | None = None
    """Position of the timed size; None: it is checked alone."""


def order_timed_calls(
    task: Task, sizes: Sequence[Dims], nonce: bytes, *, checks: bool, small: bool = True
) -> tuple[TimedStep, ...]:
    """Return the calls of a process that is timed, its sizes in any order.

    With `checks`, small cases of the validation come between, the first one at the beginning where
    `small` says so, and calls at the sizes themselves on other inputs: some where races are looked
    for.
    """
    rng = generator(nonce, task.name, "timed order", 0)
    steps = [
        TimedStep(case=timed_case(task, dims, Level.ACCOUNT), timed=position)
        for position, dims in enumerate(sizes)
    ]
    if not checks:
        return _shuffled(steps, rng)
    planned = plan(task, generator(nonce, task.name, "plan", 0))
    usual = [replace(case, repeat_seed=0) for case in planned if case.level is Level.FULL]
    usual = usual or [replace(planned[0], repeat_seed=0)]
    opening = usual[draw_cheap(usual, rng)]
    between = rng.integers(len(usual), size=int(rng.integers(1, len(sizes) + 2)))
    further = [case for dims in sizes for case in timed_checks(task, dims, rng, "emulated")]
    checked = [*(usual[int(number)] for number in between), *_watch_some(further, rng)]
    begin = [TimedStep(case=opening)] if small else [steps.pop(int(rng.integers(len(steps))))]
    steps += [TimedStep(case=case) for case in checked]
    return tuple(
        replace(step, plan=_plan_step(step, rng)) for step in (*begin, *_shuffled(steps, rng))
    )


def _shuffled(steps: Sequence[TimedStep], rng: np.random.Generator) -> tuple[TimedStep, ...]:
    return tuple(steps[int(k)] for k in rng.permutation(len(steps)))


def _watch_some(cases: Sequence[Case], rng: np.random.Generator) -> list[Case]:
    """Search for races in a case of least work and in another, where that takes little time."""
    least = min((case.work for case in cases), default=0.0)
    smallest, larger = [], []
    for number, case in enumerate(cases):
        if case.work == least and case.work <= MOST_WATCHED_WORK:
            smallest.append(number)
        elif case.work <= MOST_WATCHED_AGAIN:
            larger.append(number)
    watched = list(cases)
    for some in filter(None, (smallest, larger)):
        number = int(rng.choice(some))
        watched[number] = replace(cases[number], level=Level.FULL, schedule_seed=_seed(rng))
    return watched


def _plan_step(step: TimedStep, rng: np.random.Generator) -> CallPlan:
    drawn = REPETITIONS[int(rng.integers(len(REPETITIONS)))]
    repeated = step.timed is None and step.case.work <= MOST_REPEATED_WORK
    return replace(drawn if repeated else ONCE, seed=_seed(rng))


def change_one(
    task: Task,
    case: Case,
    inputs: Mapping[str, Array],
    rng: Random,
    choices: np.random.Generator,
    arrays: Arrays,
    begin: int = 0,
) -> dict[str, Array] | None:
    """Return the inputs with one element of one of them changed, to another that may be drawn.

    `begin` is the position of the input tried first. None where there is no such element: inputs
    are empty, or right only as a whole.
    """
    names = [name for name in case.distributions if inputs[name].size]
    types = {argument.name: argument.dtype for argument in task.arguments}
    for position in range(len(names)):
        name = names[(begin + position) % len(names)]
        old, dtype = inputs[name].reshape(-1), types[name]
        index = _draw_index(old.size, choices)
        before = arrays.to_host(old[index : index + 1])
        for spelling in _spellings(task, case, name, choices):
            fresh = draw(spelling, rng, inputs[name].shape, dtype, case.dims, arrays=arrays)
            new = fresh.reshape(-1)[index : index + 1]
            if arrays.to_host(new).tobytes() != before.tobytes():
                changed = inputs[name].copy()
                changed.reshape(-1)[index : index + 1] = new
                return {**inputs, name: changed}
    return None


def permute_one(
    case: Case,
    inputs: Mapping[str, Array],
    choices: np.random.Generator,
    arrays: Arrays,
    begin: int = 0,
) -> dict[str, Array] | None:
    """Return the inputs with the elements of one of them in another order.

    `begin` is the position of the input tried first. None where no input may be reordered, or none
    has elements that differ.
    """
    names = list(case.distributions)
    for position in range(len(names)):
        name = names[(begin + position) % len(names)]
        text = case.distributions[name]
        flat = inputs[name].reshape(-1)
        if not all(parse_distribution(one).name in ELEMENTWISE for one in spellings_in(text)):
            continue
        if flat.size < 2 or bool(arrays.number((flat == flat[0]).all())):
            continue
        order = arrays.xp.asarray(choices.permutation(flat.size))
        return {**inputs, name: arrays.xp.take(flat, order).reshape(inputs[name].shape)}
    return None


def _draw_index(size: int, choices: np.random.Generator) -> int:
    """Draw an index, more often inside: who looks at samples looks at both ends."""
    inside = size > 2 and choices.random() < 0.75
    return int(choices.integers(1, size - 1) if inside else choices.integers(size))


def _spellings(task: Task, case: Case, name: str, choices: np.random.Generator) -> list[str]:
    """Return the distribution of the case, then the others of the argument; a probe's alone."""
    own = next(one.distributions for one in inputs_of(task) if one.name == name)
    others = [] if case.probe else [own[int(k)] for k in choices.permutation(len(own))]
    every = (case.distributions[name], *others)
    return [
        text
        for text in every
        if all(parse_distribution(one).name in ELEMENTWISE for one in spellings_in(text))
    ]
