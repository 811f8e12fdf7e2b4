"""When enough blocks have been measured."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from cuda_llm.tools.timing.comparison import SMALLEST_FLOOR, Comparison
from cuda_llm.tools.timing.tier import Tier

LOW_FLOOR = 1.25 * SMALLEST_FLOOR
"""A noise floor that more blocks would hardly lower."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """For one size."""

    fewest: int
    """Blocks that count, whatever they say."""
    most: int
    half_width: float
    """Relative; a narrower interval needs no more blocks, once the floor is low too."""
    wall_s: float
    """After this no block is begun, once there are the fewest."""


WHOLE: Mapping[Tier, Rule] = MappingProxyType(
    {
        Tier.SCREEN: Rule(fewest=3, most=24, half_width=0.01, wall_s=0.3),
        Tier.CONFIRM: Rule(fewest=12, most=120, half_width=0.005, wall_s=20.0),
    }
)
"""For a task with a single size; several share the wall time."""


def rule_for(tier: Tier, sizes: int) -> Rule:
    """The rule of each of `sizes` sizes."""
    whole = WHOLE[tier]
    return Rule(
        fewest=whole.fewest,
        most=whole.most,
        half_width=whole.half_width,
        wall_s=whole.wall_s / max(1, sizes),
    )


def enough(rule: Rule, comparison: Comparison, spent_s: float) -> bool:
    """Whether the blocks so far will do."""
    if comparison.blocks < rule.fewest:
        return False
    narrow = comparison.half_width <= rule.half_width and comparison.floor <= LOW_FLOOR
    return narrow or comparison.blocks >= rule.most or spent_s >= rule.wall_s
