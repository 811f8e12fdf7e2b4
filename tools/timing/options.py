"""Options of a measurement: how sure, and what L2 holds."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Literal


class Tier(StrEnum):
    """How narrow the interval of a figure has to be."""

    SCREEN = "screen"
    """A candidate among many: about 0.3 s for all its sizes together."""
    CONFIRM = "confirm"
    """The precision that was chosen, in words: seconds of timed blocks."""
    PRECISE = "precise"
    """Until the interval is narrow: what is published."""


class L2(StrEnum):
    """Contents of the L2 cache when a timed call begins."""

    COLD = "cold"
    """Nothing of the call's data: more than L2 holds was written in between."""
    WARM = "warm"
    """L2 holds what the arrival of the call's inputs left in it."""


Precision = Literal["quick", "normal", "high"]
"""How sure the times of a GPU are to be, as a user asks for it: some 1, 5 or 15 s a kernel."""
PRECISIONS: Mapping[str, Tier] = MappingProxyType(
    {"quick": Tier.SCREEN, "normal": Tier.CONFIRM, "high": Tier.PRECISE}
)
"""By what a user asks for."""


@dataclass(frozen=True, kw_only=True)
class MeasureOptions:
    """Options of a measurement on a GPU; a modelled device ignores them."""

    tier: Tier = Tier.SCREEN
    l2: L2 = L2.COLD
    proved: bool = False
    """Whether a contest has searched this kernel for merged calls: half as many stepwise batches
    then suffice."""
