"""Two kernels at one size, block by block, until the figures are sure enough."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from cuda_llm.tools.device import TimeClass
from cuda_llm.tools.judge.measured.baseline_time import BaselineTime
from cuda_llm.tools.judge.measured.batches import Rules
from cuda_llm.tools.judge.measured.blocks import Watched, run_block
from cuda_llm.tools.judge.measured.clocks import ReadClocks, Reading
from cuda_llm.tools.judge.measured.contents import Recipe
from cuda_llm.tools.judge.measured.entrants import Entrants, Fault, Lanes, lay_out_all
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
from cuda_llm.tools.timing.lengths import Lengths, choose_lengths
from cuda_llm.tools.timing.slope import slope_us
from cuda_llm.tools.timing.stopping import Rule, enough

HOPED = 1.5
"""Times faster than the baseline: what batches are made long enough for beforehand."""
LONGER = 1.5
"""Times as many calls are worth a new start."""
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
    readings: tuple[Reading | None, ...]
    slots: int
    """Calls of the longest batch."""


async def measure_size(
    entrants: Entrants,
    recipe: Recipe,
    rules: Rules,
    rule: Rule,
    baseline: BaselineTime,
    *,
    most: int,
    read_clocks: ReadClocks,
) -> Measured | Fault:
    """Interleave the entrants on at most `most` slots each.

    What is known of the baseline says how long batches have to be; where the first block shows
    that a call is much quicker, it is done again with longer ones. Raises TaskError where the
    baseline is refused.
    """
    begun = time.monotonic()
    lengths = first_lengths(baseline, rule, most)
    lanes = await lay_out_all(entrants, recipe, lengths.slots)
    watched: list[Watched] = []
    while not isinstance(lanes, Fault):
        block = await run_block(
            lanes, lengths, rules, read_clocks, compares_same=rule.compares_same
        )
        if isinstance(block, Fault):
            return block
        watched.append(block)
        longer = lengths_after(block, rule, most)
        if len(watched) == 1 and longer.slots > LONGER * lengths.slots:
            lengths, watched = longer, []
            lanes = await lay_out_all(entrants, recipe, lengths.slots)
        elif is_enough(watched, rule, time.monotonic() - begun) and not wants_more(
            lanes, keep([one.block for one in watched], discard=rule.discard).blocks
        ):
            return await conclude(lanes, watched, rules, rule, baseline)
    return lanes


def first_lengths(baseline: BaselineTime, rule: Rule, most: int) -> Lengths:
    """For a candidate of which nothing is known yet but that it may be somewhat faster."""
    return choose_lengths(
        call_us=baseline.call_us / HOPED,
        overhead_us=baseline.overhead_us,
        aim=rule.aim,
        most=min(most, rule.slots),
    )


def lengths_after(watched: Watched, rule: Rule, most: int) -> Lengths:
    """Batches that suit the faster of the two."""
    empty_us = slope_us(watched.block.empty)
    first, second = (call_us(one, empty_us) for one in (watched.block.first, watched.block.second))
    return choose_lengths(
        call_us=min(first, second),
        overhead_us=max(empty_us, 1.0),
        aim=rule.aim,
        most=min(most, rule.slots),
    )


def is_enough(watched: Sequence[Watched], rule: Rule, spent_s: float) -> bool:
    """Whether to stop; the interval is looked at now and then, for that takes time too."""
    kept = keep([one.block for one in watched], discard=rule.discard).blocks
    late = spent_s >= rule.wall_s or len(kept) >= rule.most
    if len(kept) < rule.fewest or (len(kept) % LOOK_EVERY and not late):
        return False
    return late or enough(rule, compare_blocks(kept, resamples=QUICK_RESAMPLES), spent_s)


async def conclude(
    lanes: Lanes,
    watched: Sequence[Watched],
    rules: Rules,
    rule: Rule,
    baseline: BaselineTime,
) -> Measured | Fault:
    """Replay a slot of each alone, look at the guards, see that calls took alike in every batch."""
    for which, lane in (("first", lanes.first), ("second", lanes.second)):
        if lane is not None and not lane.trusted:
            verdict = await replay_alone(lane, rules) or find_overwritten(lane)
            if verdict is not None:
                return Fault(which=which, verdict=verdict)
    kept = keep([one.block for one in watched], discard=rule.discard)
    floor = SMALLEST_FLOOR if rule.compares_same else FLOOR_FACTOR * baseline.spread
    comparison = compare_blocks(kept.blocks, least_floor=max(SMALLEST_FLOOR, floor))
    fault = await find_dependence(lanes, kept.blocks, rules, rule, comparison)
    if fault is not None:
        return fault
    return Measured(
        comparison=comparison,
        first_class=lanes.first.time_class,
        second_class=(lanes.second or lanes.ground).time_class,
        throttled=kept.throttled,
        readings=tuple(reading for one in watched for reading in one.readings),
        slots=lanes.slots,
    )
