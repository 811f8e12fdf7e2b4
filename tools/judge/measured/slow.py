"""Sizes at which the baseline takes milliseconds: the candidate alone, against the kept time."""

import asyncio
import math
from dataclasses import replace

from cuda_llm.tools.judge.measured.baseline_time import SLOW_US, BaselineTime
from cuda_llm.tools.judge.measured.batches import Rules
from cuda_llm.tools.judge.measured.blocks import Watched, run_block
from cuda_llm.tools.judge.measured.contents import Recipe
from cuda_llm.tools.judge.measured.entrants import Entrants, Fault, lay_out_all
from cuda_llm.tools.judge.measured.measure import Measured, lengths_after
from cuda_llm.tools.judge.measured.replay import replay_alone
from cuda_llm.tools.judge.measured.suspicion import find_dependence, wants_more
from cuda_llm.tools.judge.measured.verify import find_overwritten
from cuda_llm.tools.timing.block import keep
from cuda_llm.tools.timing.bootstrap import Estimate
from cuda_llm.tools.timing.comparison import (
    FLOOR_FACTOR,
    SMALLEST_FLOOR,
    Comparison,
    compare_blocks,
)
from cuda_llm.tools.timing.lengths import Apiece, lengths_up_to
from cuda_llm.tools.timing.stopping import Rule, enough

SLOTS = 3
"""Of a candidate that may be as slow as the baseline."""


async def measure_slow(
    sessions: Entrants,
    recipe: Recipe,
    rules: Rules,
    rule: Rule,
    baseline: BaselineTime,
    *,
    most: int,
) -> Measured | Fault:
    """One block of a candidate that is slow too; as many as are needed of one that is not."""
    now_s = asyncio.get_running_loop().time
    begun_s = now_s()
    kernels = await lay_out_all(sessions, recipe, min(SLOTS, most), alone=True)
    if isinstance(kernels, Fault):
        return kernels
    lengths = alike(kernels.slots)
    timed: list[Watched] = []
    while True:
        block = await run_block(kernels, lengths, rules)
        if isinstance(block, Fault):
            return block
        timed.append(block)
        kept = keep([one.block for one in timed], discard=0 if len(timed) == 1 else 1)
        alone = compare_blocks(kept.blocks)
        done = enough(rule, alone, now_s() - begun_s) or alone.first_us.value > SLOW_US
        if done and not wants_more(kernels, kept.blocks):
            break
        if len(timed) == 1:
            lengths = lengths_after(block, rule, most)
            if lengths.longest.slots > kernels.slots:
                kernels = await lay_out_all(sessions, recipe, lengths.longest.slots, alone=True)
                if isinstance(kernels, Fault):
                    return kernels
    verdict = await replay_alone(kernels.first, rules) or find_overwritten(kernels.first)
    if verdict is not None:
        return Fault(which="first", verdict=verdict)
    dependence = await find_dependence(kernels, kept.blocks, rules, rule, alone)
    if isinstance(dependence, Fault):
        return dependence
    return Measured(
        comparison=against_kept(alone, baseline),
        first_class=kernels.first.time_class,
        second_class=kernels.baseline.time_class,
        throttled=kept.throttled,
        readings=tuple(reading for one in timed for reading in one.readings),
        slots=kernels.slots,
        stepwise_us=dependence.stepwise_us,
        note=dependence.note,
    )


def alike(top: int) -> Apiece:
    """Where there is one kernel alone."""
    return Apiece(first=lengths_up_to(top), second=lengths_up_to(top))


def against_kept(alone: Comparison, baseline: BaselineTime) -> Comparison:
    """The same against a time that was measured earlier: both intervals count."""
    first = alone.first_us
    if alone.blocks < 3:
        reach = first.value * SMALLEST_FLOOR
        first = Estimate(value=first.value, low=first.value - reach, high=first.value + reach)
    second = baseline.estimate
    return replace(
        alone,
        first_us=first,
        second_us=second,
        ratio=first.value / second.value,
        low=first.low / second.high,
        high=first.high / second.low,
        floor=max(SMALLEST_FLOOR, math.expm1(FLOOR_FACTOR * baseline.spread)),
    )
