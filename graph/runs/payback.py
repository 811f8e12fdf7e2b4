"""After how many launches of its winner a search has saved as much time as it took."""

from collections.abc import Sequence
from math import ceil
from statistics import geometric_mean


def launches_to_pay(
    spent_s: float, baseline_us: Sequence[float], winner_us: Sequence[float]
) -> int | None:
    """Return the launches after which the winner has made up for the wall time of its search.

    A launch saves the geometric mean of the baseline's times over the sizes less that of the
    winner's. None where it saves nothing, and where a size has no time. Of modelled times the
    number says what would be: a saving that nobody had has paid for nothing.
    """
    if not winner_us or len(baseline_us) != len(winner_us):
        return None
    saved_us = geometric_mean(baseline_us) - geometric_mean(winner_us)
    # Means of equal figures differ in their last digits, which are no launch more.
    return ceil(round(spent_s * 1e6 / saved_us, 3)) if saved_us > 0 else None
