"""How much time a measurement may take."""

from enum import StrEnum


class Tier(StrEnum):
    """How sure a figure has to be."""

    SCREEN = "screen"
    """A candidate among many: about 0.3 s for all its sizes together."""
    CONFIRM = "confirm"
    """What may become the incumbent: until the interval is narrow."""
