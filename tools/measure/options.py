"""Options of a measurement: how sure, and what L2 holds."""

from dataclasses import dataclass
from enum import StrEnum


class Tier(StrEnum):
    """How sure a figure has to be."""

    SCREEN = "screen"
    """A candidate among many: about 0.3 s for all its sizes together."""
    CONFIRM = "confirm"
    """What may become the incumbent: until the interval is narrow."""


class L2(StrEnum):
    """What the second-level cache holds when a timed call begins."""

    COLD = "cold"
    """Nothing of the call's data: more than L2 holds was written in between."""
    WARM = "warm"
    """What the arrival of the call's inputs left there."""


@dataclass(frozen=True, kw_only=True)
class MeasureOptions:
    """How to measure. A modelled device ignores it."""

    tier: Tier = Tier.SCREEN
    l2: L2 = L2.COLD
