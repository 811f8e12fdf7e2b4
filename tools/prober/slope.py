"""Time of one step as the slope between few and many of them: what both have in common goes."""

import statistics
from collections.abc import Callable

REPEATS = 9


def slope_s(seconds_of: Callable[[int], float], few: int, many: int) -> float:
    """Seconds a step takes; `seconds_of(count)` runs `count` steps and says how long they took.

    The median of several slopes, each between neighbours in time. Raises ValueError unless
    `few` is less than `many`.
    """
    if not 0 < few < many:
        raise ValueError(f"no slope between {few} and {many} steps")
    seconds_of(few)
    slopes = [(seconds_of(many) - seconds_of(few)) / (many - few) for _ in range(REPEATS)]
    return statistics.median(slopes)


def steps_for(rough_s: float, wanted_s: float, most: int) -> tuple[int, int]:
    """How few and how many steps: the longer run takes about `wanted_s`, `most` steps at most."""
    many = max(8, min(most, int(wanted_s / max(rough_s, 1e-9))))
    return max(1, many // 8), many
