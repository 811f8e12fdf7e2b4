"""How far the median of a few blocks may be from the truth."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 1000


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A median and its interval."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interval."""
        return (self.high - self.low) / 2


def estimate_median(
    values: Sequence[float], *, seed: int = 0, resamples: int = RESAMPLES
) -> Estimate:
    """The median, and the percentile interval of the medians of `resamples` samples drawn with
    replacement (Efron and Tibshirani, An Introduction to the Bootstrap, chapter 13).

    The order of `values` does not matter, and the same seed gives the same interval.
    """
    if not values:
        raise ValueError("no values to estimate from")
    known = np.sort(np.asarray(values, np.float64))
    rng = np.random.Generator(np.random.PCG64(seed))
    drawn = known[rng.integers(0, known.size, (resamples, known.size))]
    medians = np.median(drawn, axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(medians, (tail, 1 - tail))
    middle = float(np.median(known))
    return Estimate(value=middle, low=min(float(low), middle), high=max(float(high), middle))
