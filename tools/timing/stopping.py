"""When enough blocks have been measured."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from cuda_llm.tools.timing.comparison import (
    FLOOR_FACTOR,
    QUICK_RESAMPLES,
    RESOLUTION_US,
    SMALLEST_FLOOR,
    Comparison,
    compare_blocks,
)
from cuda_llm.tools.timing.options import Tier
from cuda_llm.tools.timing.slope import BatchBlock

LOW_FLOOR = 1.25 * SMALLEST_FLOOR
"""A noise floor that more blocks would hardly lower."""
CLEAR_FACTOR = 3.0
"""Times the floor: beyond it a lower floor would make a difference no surer."""
VAGUE_WIDTH = 0.1
"""Relative half-width beyond which a time decides nothing: a busy host can hold up every batch of
the few blocks of a screen."""
VAGUE_US = 0.5
"""Half-width in microseconds below which a time of few microseconds still decides."""
VAGUE_FACTOR = 5.0
"""Times the wall time, for figures that are vague."""
BLOCKS_SHARE = 0.6
"""Share of a measurement's limit that blocks may take: memory is laid out before blocks, and single
calls are verified after them."""

CHECK_EVERY = 4
"""Blocks between two checks of the interval, which take time too, once there are the fewest."""


@dataclass(frozen=True, kw_only=True)
class StoppingRule:
    """When one size has been measured well enough."""

    discard: int
    """First blocks that do not count: clocks rise in them."""
    compares_same: bool
    """Whether the second kernel is timed twice a block, to learn by how much equal kernels differ.
    """
    aim: float
    """Relative error of one slope, which gives the length of batches."""
    slots: int
    """Calls of a batch at most."""
    fewest: int
    """Least number of blocks that count."""
    most: int
    half_width: float
    """Relative half-width of the ratio's and the first kernel's interval at which no more blocks
    are needed, once the floor is low or far from the difference."""
    wall_s: float
    """After this no block is begun, once there are the fewest and the figures are not vague."""
    longest_s: float
    """Longest seconds of a contest whose figures decide nothing."""
    stepwise: int = 0
    """Batches of each kernel afterwards whose keys are released step by step."""


RULES: Mapping[Tier, StoppingRule] = MappingProxyType(
    {
        Tier.SCREEN: StoppingRule(
            discard=0,
            compares_same=False,
            aim=0.01,
            slots=64,
            fewest=3,
            most=24,
            half_width=0.01,
            wall_s=0.3,
            longest_s=0.3 * VAGUE_FACTOR,
        ),
        Tier.CONFIRM: StoppingRule(
            discard=1,
            compares_same=True,
            aim=0.002,
            slots=256,
            fewest=6,
            most=60,
            half_width=0.01,
            wall_s=1.5,
            longest_s=1.5 * VAGUE_FACTOR,
            stepwise=12,
        ),
        Tier.PRECISE: StoppingRule(
            discard=1,
            compares_same=True,
            aim=0.002,
            slots=256,
            fewest=12,
            most=120,
            half_width=0.005,
            wall_s=12.0,
            longest_s=12.0 * VAGUE_FACTOR,
            stepwise=12,
        ),
    }
)
"""For a task with a single size; several share the wall time."""


def rule_for(
    tier: Tier, sizes: int, limit_s: float = math.inf, *, proved: bool = False
) -> StoppingRule:
    """Return the rule of each of `sizes` sizes, all of which are measured within `limit_s`."""
    whole, share = RULES[tier], 1 / max(1, sizes)
    longest_s = min(whole.longest_s, BLOCKS_SHARE * limit_s) * share
    return replace(
        whole,
        wall_s=min(whole.wall_s * share, longest_s),
        longest_s=longest_s,
        stepwise=whole.stepwise // 2 if proved else whole.stepwise,
    )


def has_enough(
    rule: StoppingRule,
    blocks: Sequence[BatchBlock],
    spent_s: float,
    *,
    check_every: int = CHECK_EVERY,
) -> bool:
    """Tell whether these blocks are enough; where time is up, or there are the most, they are
    checked at once."""
    late = spent_s >= rule.wall_s or len(blocks) >= rule.most
    if len(blocks) < rule.fewest or (len(blocks) % check_every and not late):
        return False
    return is_enough(rule, compare_blocks(blocks, resamples=QUICK_RESAMPLES), spent_s)


def is_enough(rule: StoppingRule, comparison: Comparison, spent_s: float) -> bool:
    """Tell whether the blocks so far are enough."""
    if comparison.blocks < rule.fewest:
        return False
    first = comparison.first_us
    widest = max(comparison.half_width, first.half_width / first.value)
    finest = RESOLUTION_US / first.value
    if comparison.blocks >= rule.most or spent_s >= rule.longest_s:
        return True
    if max(widest, comparison.empty.half_width / first.value) > max(
        VAGUE_WIDTH, VAGUE_US / first.value
    ):
        return False
    narrow = widest <= max(rule.half_width, finest)
    quiet = comparison.floor <= max(LOW_FLOOR, FLOOR_FACTOR * finest)
    clear = abs(math.log(comparison.ratio)) > CLEAR_FACTOR * math.log1p(comparison.floor)
    return (narrow and (quiet or clear)) or spent_s >= rule.wall_s


@dataclass(frozen=True, kw_only=True)
class ContestRule:
    """How a contest is measured."""

    aim: float = 0.002
    """Relative error of one slope, which gives the length of batches."""
    slots: int = 256
    first_blocks: int = 3
    """At each size, before the first look."""
    proof_blocks: int = 6
    """At each size, of a contender that is faster and not clearly honest by fewer."""
    wall_s: float = 2.6
    """After this it is decided by what is known, unless that is vague."""
    longest_s: float = 20.0
    """The same, however vague it is."""


def contest_rule(limit_s: float = math.inf) -> ContestRule:
    """Return the rule of a contest that ends within `limit_s`."""
    rule = ContestRule()
    longest_s = min(rule.longest_s, BLOCKS_SHARE * limit_s)
    return replace(rule, wall_s=min(rule.wall_s, longest_s), longest_s=longest_s)
