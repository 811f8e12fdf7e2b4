"""A candidate timed beside the baseline, block by block, until the figures are sure; or alone."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cuda_llm.tools.device import ClockReading, TimeClass
from cuda_llm.tools.timing.baseline_time import SLOW_US, BaselineTime
from cuda_llm.tools.timing.batch_room import BatchRoom
from cuda_llm.tools.timing.blocks import (
    BatchRules,
    ComparedKernels,
    ComparedSessions,
    MeasurementFault,
    TimedBlock,
    prepare_kernels,
    run_block,
    verify_single_calls,
)
from cuda_llm.tools.timing.cheating import find_cheating, needs_more_blocks
from cuda_llm.tools.timing.comparison import (
    FLOOR_FACTOR,
    SMALLEST_FLOOR,
    Comparison,
    call_us,
    compare_blocks,
)
from cuda_llm.tools.timing.estimate import Estimate
from cuda_llm.tools.timing.slope import (
    BatchBlock,
    PairLengths,
    choose_lengths,
    lengths_up_to,
    slope_us,
)
from cuda_llm.tools.timing.slots import InputPlan
from cuda_llm.tools.timing.stopping import StoppingRule, is_enough
from cuda_llm.tools.timing.verify import find_overwritten


@dataclass(frozen=True, kw_only=True)
class CountedBlocks:
    """The blocks that count."""

    blocks: tuple[BatchBlock, ...]
    throttled: int = 0
    """Number of throttled blocks, which are left out unless all are."""


def count_blocks(blocks: Sequence[BatchBlock], *, discard: int = 0) -> CountedBlocks:
    """Return the blocks without the first `discard`, in which clocks rise, and without throttled
    blocks."""
    settled = tuple(blocks[discard:])
    calm = tuple(block for block in settled if not block.throttled)
    return CountedBlocks(blocks=calm or settled, throttled=len(settled) - len(calm))


ASSUMED_SPEEDUP = 1.5
"""Assumed of a candidate that was not timed yet."""


CHANGE_FACTOR = 1.5
"""Other batch lengths are worth a change where they differ by this factor."""
CHECK_EVERY = 4
"""Blocks between two checks of the interval, once there are the fewest."""
QUICK_RESAMPLES = 200


@dataclass(frozen=True, kw_only=True)
class MeasuredSize:
    """Times of a candidate and the baseline at one size."""

    comparison: Comparison
    first_class: TimeClass
    second_class: TimeClass
    throttled: int
    """Blocks dropped because the chip held its clocks down."""
    readings: tuple[ClockReading | None, ...]
    slots: int
    """Calls of the longest batch."""
    stepwise_us: float | None = None
    """Microseconds of a call whose key is released when the call before is over."""
    note: str = ""
    """Checks that were not made, and why."""


async def measure_size(
    sessions: ComparedSessions,
    input_plan: InputPlan,
    rules: BatchRules,
    rule: StoppingRule,
    baseline: BaselineTime,
    pace: float,
    *,
    room: BatchRoom,
) -> MeasuredSize | MeasurementFault:
    """Interleave candidate and baseline in batches that have `room`. Raises TaskError for a refused
    baseline.

    `pace`, the expected speed-up, gives the length of the first batches. Where blocks show that a
    call is much quicker or slower, the next batches have other lengths; where the first block shows
    that more slots are needed, the slots are laid out again, once.
    """
    now_s = asyncio.get_running_loop().time
    begun_s = now_s()
    expected_us = baseline.call_us / pace
    lengths = lengths_for(expected_us, baseline.call_us, baseline.overhead_us, rule, room.calls)
    slots = room.slots_for(lengths.longest.slots)
    kernels = await prepare_kernels(sessions, input_plan, slots)
    timed: list[TimedBlock] = []
    is_first = True
    while not isinstance(kernels, MeasurementFault):
        block = await run_block(kernels, lengths, rules, compares_same=rule.compares_same)
        if isinstance(block, MeasurementFault):
            return block
        timed.append(block)
        most = room.calls if is_first else min(room.calls, kernels.slots)
        now = lengths_after(block, rule, most)
        lengths, is_first = changed_lengths(lengths, now, shorter=is_first), False
        if lengths.longest.slots > kernels.slots:
            timed = []
            slots = room.slots_for(lengths.longest.slots)
            kernels = await prepare_kernels(sessions, input_plan, slots)
        elif has_enough_blocks(timed, rule, now_s() - begun_s) and not needs_more_blocks(
            kernels, count_blocks([one.block for one in timed], discard=rule.discard).blocks
        ):
            return await conclude_size(kernels, timed, rules, rule, baseline)
    return kernels


def lengths_after(timed: TimedBlock, rule: StoppingRule, most: int) -> PairLengths:
    """Return the batch lengths that a block suggests."""
    block = timed.block
    empty_us = slope_us(block.empty)
    first = call_us(block.first, empty_us)
    second = call_us(block.second, slope_us(block.second_empty or block.empty))
    return lengths_for(first, second, max(empty_us, 1.0), rule, most)


def lengths_for(
    first_us: float, second_us: float, overhead_us: float, rule: StoppingRule, most: int
) -> PairLengths:
    """Return the batch lengths that suit each of two kernels."""
    first, second = (
        choose_lengths(
            call_us=one, overhead_us=overhead_us, aim=rule.aim, most=min(most, rule.slots)
        )
        for one in (first_us, second_us)
    )
    return PairLengths(first=first, second=second)


def changed_lengths(before: PairLengths, now: PairLengths, *, shorter: bool) -> PairLengths:
    """Return the new lengths where they differ much; with `shorter`, also where they are shorter.

    So a kernel that is slow at first only is not timed in short batches, and badly, for good.
    """
    first, second = (
        new
        if new.slots > CHANGE_FACTOR * old.slots
        or (shorter and old.slots > CHANGE_FACTOR * new.slots)
        else old
        for old, new in ((before.first, now.first), (before.second, now.second))
    )
    return PairLengths(first=first, second=second)


def has_enough_blocks(timed: Sequence[TimedBlock], rule: StoppingRule, spent_s: float) -> bool:
    """Tell whether to stop. The interval is computed only now and then, for that takes time too."""
    counted = count_blocks([one.block for one in timed], discard=rule.discard).blocks
    late = spent_s >= rule.wall_s or len(counted) >= rule.most
    if len(counted) < rule.fewest or (len(counted) % CHECK_EVERY and not late):
        return False
    return is_enough(rule, compare_blocks(counted, resamples=QUICK_RESAMPLES), spent_s)


async def conclude_size(
    kernels: ComparedKernels,
    timed: Sequence[TimedBlock],
    rules: BatchRules,
    rule: StoppingRule,
    baseline: BaselineTime,
) -> MeasuredSize | MeasurementFault:
    """Verify single calls, the guards, and that calls took alike in all batches."""
    verdict = await verify_single_calls(kernels.first, rules) or find_overwritten(kernels.first)
    if verdict is not None:
        return MeasurementFault(which="first", verdict=verdict)
    counted = count_blocks([one.block for one in timed], discard=rule.discard)
    floor = SMALLEST_FLOOR if rule.compares_same else FLOOR_FACTOR * baseline.spread
    comparison = compare_blocks(counted.blocks, least_floor=max(SMALLEST_FLOOR, floor))
    dependence = await find_cheating(kernels, counted.blocks, rules, rule, comparison)
    if isinstance(dependence, MeasurementFault):
        return dependence
    return MeasuredSize(
        comparison=comparison,
        first_class=kernels.first.time_class,
        second_class=kernels.baseline.time_class,
        throttled=counted.throttled,
        readings=tuple(reading for one in timed for reading in one.readings),
        slots=kernels.slots,
        stepwise_us=dependence.stepwise_us,
        note=dependence.note,
    )


SLOW_SLOTS = 3
"""Slots of a candidate that may be as slow as the baseline."""


async def measure_alone(
    sessions: ComparedSessions,
    input_plan: InputPlan,
    rules: BatchRules,
    rule: StoppingRule,
    baseline: BaselineTime,
    *,
    room: BatchRoom,
) -> MeasuredSize | MeasurementFault:
    """Time a candidate without the baseline: one block of a slow candidate, as many as needed of a
    quick one."""
    now_s = asyncio.get_running_loop().time
    begun_s = now_s()
    kernels = await prepare_kernels(sessions, input_plan, min(SLOW_SLOTS, room.calls), alone=True)
    if isinstance(kernels, MeasurementFault):
        return kernels
    lengths = equal_lengths(kernels.slots)
    timed: list[TimedBlock] = []
    while True:
        block = await run_block(kernels, lengths, rules)
        if isinstance(block, MeasurementFault):
            return block
        timed.append(block)
        counted = count_blocks([one.block for one in timed], discard=0 if len(timed) == 1 else 1)
        alone = compare_blocks(counted.blocks)
        done = is_enough(rule, alone, now_s() - begun_s) or alone.first_us.value > SLOW_US
        if done and not needs_more_blocks(kernels, counted.blocks):
            break
        if len(timed) == 1:
            lengths = lengths_after(block, rule, room.calls)
            if lengths.longest.slots > kernels.slots:
                kernels = await prepare_kernels(
                    sessions, input_plan, lengths.longest.slots, alone=True
                )
                if isinstance(kernels, MeasurementFault):
                    return kernels
    verdict = await verify_single_calls(kernels.first, rules) or find_overwritten(kernels.first)
    if verdict is not None:
        return MeasurementFault(which="first", verdict=verdict)
    dependence = await find_cheating(kernels, counted.blocks, rules, rule, alone)
    if isinstance(dependence, MeasurementFault):
        return dependence
    return MeasuredSize(
        comparison=against_cached_time(alone, baseline),
        first_class=kernels.first.time_class,
        second_class=kernels.baseline.time_class,
        throttled=counted.throttled,
        readings=tuple(reading for one in timed for reading in one.readings),
        slots=kernels.slots,
        stepwise_us=dependence.stepwise_us,
        note=dependence.note,
    )


def equal_lengths(top: int) -> PairLengths:
    """Return equal batch lengths for both kernels, where one kernel is timed alone."""
    return PairLengths(first=lengths_up_to(top), second=lengths_up_to(top))


def against_cached_time(alone: Comparison, baseline: BaselineTime) -> Comparison:
    """Compare with a cached time of the baseline: both intervals count."""
    first = alone.first_us
    if alone.blocks < 3:
        first = within(first.value, SMALLEST_FLOOR)
    second = within(baseline.call_us, baseline.spread)
    return replace(
        alone,
        first_us=first,
        second_us=second,
        ratio=first.value / second.value,
        low=first.low / second.high,
        high=first.high / second.low,
        floor=max(SMALLEST_FLOOR, math.expm1(FLOOR_FACTOR * baseline.spread)),
    )


def within(value: float, share: float) -> Estimate:
    """Return an estimate whose interval reaches as far as this share of it on either side."""
    return Estimate(value=value, low=value - value * share, high=value + value * share)
