"""Options of a measurement: how sure, and what L2 holds."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Tier(StrEnum):
    """How sure a figure has to be."""

    SCREEN = "screen"
    """A candidate among many: about 0.3 s for all its sizes together."""
    CONFIRM = "confirm"
    """What was chosen, for a person: some seconds."""
    PRECISE = "precise"
    """Until the interval is narrow: what is published."""


class L2(StrEnum):
    """What the second-level cache holds when a timed call begins."""

    COLD = "cold"
    """Nothing of the call's data: more than L2 holds was written in between."""
    WARM = "warm"
    """What the arrival of the call's inputs left there."""


PRECISIONS: Mapping[str, Tier] = MappingProxyType(
    {"quick": Tier.SCREEN, "normal": Tier.CONFIRM, "high": Tier.PRECISE}
)
"""By what a user asks for."""


@dataclass(frozen=True, kw_only=True)
class MeasureOptions:
    """How to measure. A modelled device ignores it."""

    tier: Tier = Tier.SCREEN
    l2: L2 = L2.COLD
    proved: bool = False
    """Whether a contest has looked for merged calls in this kernel: half as many batches, whose
    keys are released step by step, then show it."""
