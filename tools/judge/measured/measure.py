"""Two kernels at one size, block by block, until the figures are sure enough."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cuda_llm.tools.device import ClockReading, TimeClass
from cuda_llm.tools.judge.measured.baseline_time import BaselineTime
from cuda_llm.tools.judge.measured.batches import Rules
from cuda_llm.tools.judge.measured.blocks import Watched, run_block
from cuda_llm.tools.judge.measured.contents import Recipe
from cuda_llm.tools.judge.measured.entrants import Entrants, Fault, Lanes, lay_out_all
from cuda_llm.tools.judge.measured.paces import Paces
from cuda_llm.tools.judge.measured.replay import replay_alone
from cuda_llm.tools.judge.measured.suspicion import find_dependence, wants_more
from cuda_llm.tools.judge.measured.verify import find_overwritten
from cuda_llm.tools.timing.block import keep
from cuda_llm.tools.timing.comparison import (
    FLOOR_FACTOR,
    SMALLEST_FLOOR,
    Comparison,
    call_us,
    compare_blocks,
)
from cuda_llm.tools.timing.lengths import Apiece, choose_lengths
from cuda_llm.tools.timing.slope import slope_us
from cuda_llm.tools.timing.stopping import Rule, enough

OTHERWISE = 1.5
"""Times as many calls, or as few, are worth a change."""
LOOK_EVERY = 4
"""Blocks between two looks at the interval, once there are the fewest."""
QUICK_RESAMPLES = 200


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One size of two kernels."""

    comparison: Comparison
    first_class: TimeClass
    second_class: TimeClass
    throttled: int
    """Blocks dropped because the chip held its clocks down."""
    readings: tuple[ClockReading | None, ...]
    slots: int
    """Calls of the longest batch."""
    stepwise_us: float | None = None
    """See `SizeTime`."""
    note: str = ""
    """What was not looked at, and why."""


async def measure_size(
    sessions: Entrants,
    recipe: Recipe,
    rules: Rules,
    rule: Rule,
    baseline: BaselineTime,
    expected: Paces,
    *,
    most: int,
) -> Measured | Fault:
    """Interleave the sessions on at most `most` slots each.

    `expected` beside the baseline's time say how long batches have to be. Where blocks show that a
    call is much quicker or slower, the next ones have other lengths; where the first one says that
    more slots are needed, it is done again, once. Raises TaskError where the baseline is refused.
    """
    now_s = asyncio.get_running_loop().time
    begun_s = now_s()
    if sessions.against_baseline:
        expected = replace(expected, second=1.0)
    lengths = expected_lengths(baseline, expected, rule, most)
    kernels = await lay_out_all(sessions, recipe, lengths.longest.slots)
    timed: list[Watched] = []
    begins = True
    while not isinstance(kernels, Fault):
        block = await run_block(kernels, lengths, rules, compares_same=rule.compares_same)
        if isinstance(block, Fault):
            return block
        timed.append(block)
        now = lengths_after(block, rule, most if begins else kernels.slots)
        lengths, begins = changed(lengths, now, shorter=begins), False
        if lengths.longest.slots > kernels.slots:
            timed = []
            kernels = await lay_out_all(sessions, recipe, lengths.longest.slots)
        elif is_enough(timed, rule, now_s() - begun_s) and not wants_more(
            kernels, keep([one.block for one in timed], discard=rule.discard).blocks
        ):
            return await conclude(kernels, timed, rules, rule, baseline)
    return kernels


def expected_lengths(baseline: BaselineTime, expected: Paces, rule: Rule, most: int) -> Apiece:
    """Before anything was run at this size."""
    first, second = (baseline.call_us / pace for pace in (expected.first, expected.second))
    return lengths_for(first, second, baseline.overhead_us, rule, most)


def lengths_after(timed: Watched, rule: Rule, most: int) -> Apiece:
    """From what a block shows."""
    empty_us = slope_us(timed.block.empty)
    first, second = (call_us(one, empty_us) for one in (timed.block.first, timed.block.second))
    return lengths_for(first, second, max(empty_us, 1.0), rule, most)


def lengths_for(
    first_us: float, second_us: float, overhead_us: float, rule: Rule, most: int
) -> Apiece:
    """Batches that suit each of two kernels."""
    first, second = (
        choose_lengths(
            call_us=one, overhead_us=overhead_us, aim=rule.aim, most=min(most, rule.slots)
        )
        for one in (first_us, second_us)
    )
    return Apiece(first=first, second=second)


def changed(before: Apiece, now: Apiece, *, shorter: bool) -> Apiece:
    """With the new lengths where they are quite different; `shorter`: also where they are less.

    Who dawdles at first only is not timed in short batches, and so badly, for good.
    """
    first, second = (
        new
        if new.slots > OTHERWISE * old.slots or (shorter and old.slots > OTHERWISE * new.slots)
        else old
        for old, new in ((before.first, now.first), (before.second, now.second))
    )
    return Apiece(first=first, second=second)


def is_enough(timed: Sequence[Watched], rule: Rule, spent_s: float) -> bool:
    """Whether to stop; the interval is looked at now and then, for that takes time too."""
    kept = keep([one.block for one in timed], discard=rule.discard).blocks
    late = spent_s >= rule.wall_s or len(kept) >= rule.most
    if len(kept) < rule.fewest or (len(kept) % LOOK_EVERY and not late):
        return False
    return enough(rule, compare_blocks(kept, resamples=QUICK_RESAMPLES), spent_s)


async def conclude(
    kernels: Lanes,
    timed: Sequence[Watched],
    rules: Rules,
    rule: Rule,
    baseline: BaselineTime,
) -> Measured | Fault:
    """Replay a slot of each alone, look at the guards, see that calls took alike in every batch."""
    for which, kernel in (("first", kernels.first), ("second", kernels.second)):
        if kernel is not None and not kernel.trusted:
            verdict = await replay_alone(kernel, rules) or find_overwritten(kernel)
            if verdict is not None:
                return Fault(which=which, verdict=verdict)
    kept = keep([one.block for one in timed], discard=rule.discard)
    floor = SMALLEST_FLOOR if rule.compares_same else FLOOR_FACTOR * baseline.spread
    comparison = compare_blocks(kept.blocks, least_floor=max(SMALLEST_FLOOR, floor))
    dependence = await find_dependence(kernels, kept.blocks, rules, rule, comparison)
    if isinstance(dependence, Fault):
        return dependence
    return Measured(
        comparison=comparison,
        first_class=kernels.first.time_class,
        second_class=(kernels.second or kernels.baseline).time_class,
        throttled=kept.throttled,
        readings=tuple(reading for one in timed for reading in one.readings),
        slots=kernels.slots,
        stepwise_us=dependence.stepwise_us,
        note=dependence.note,
    )
