"""A median and its interval, estimated from few values: the bootstrap, widened as by Student."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

CONFIDENCE = 0.95
RESAMPLES = 1000
STUDENT_FACTORS = {2: 6.48, 3: 2.20, 4: 1.62, 5: 1.42, 6: 1.31, 7: 1.25, 8: 1.21, 9: 1.18, 10: 1.15}
"""By number of values: the 97.5 % point of Student's t over that of the normal distribution."""

STUDENT_FACTOR_BEYOND = 1.75
"""Over more values n, the same is about 1 + 1.75 / (n + 1)."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A median and its interval."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Return half the width of the interval."""
        return (self.high - self.low) / 2


def estimate_median(
    values: Sequence[float], *, seed: int = 0, resamples: int = RESAMPLES
) -> Estimate:
    """Return the median with the percentile interval of medians of `resamples` bootstrap samples.

    The interval (Efron and Tibshirani, An Introduction to the Bootstrap, chapter 13) is widened for
    few values as Student's t is. The order of `values` does not matter, and the same seed gives the
    same interval.
    """
    if not values:
        raise ValueError("no values to estimate from")
    known = np.sort(np.asarray(values, np.float64))
    lower, upper = _middle_places(known.size, seed, resamples)
    medians = (known[lower] + known[upper]) / 2
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(medians, (tail, 1 - tail))
    middle = float(np.median(known))
    factor = student_factor(known.size)
    return Estimate(
        value=middle,
        low=middle - factor * max(0.0, middle - float(low)),
        high=middle + factor * max(0.0, float(high) - middle),
    )


@lru_cache(maxsize=512)
def _middle_places(
    count: int, seed: int, resamples: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return where the two middle values of each sample stand among `count` sorted values.

    Which are drawn does not depend on the values: estimates of as many share the work.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    drawn = np.sort(rng.integers(0, count, (resamples, count)), axis=1)
    return drawn[:, (count - 1) // 2].copy(), drawn[:, count // 2].copy()


def student_factor(count: int) -> float:
    """Return the factor by which an interval from so many values is widened."""
    return STUDENT_FACTORS.get(count, 1 + STUDENT_FACTOR_BEYOND / (count + 1)) if count > 1 else 1.0
