"""How far figures of a few batches may be off, from how they scatter."""

import math
from collections.abc import Sequence

import numpy as np

from cuda_llm.tools.timing.slope import MICROSECONDS

SURE = 4.0
"""Standard errors: the estimate of the error is uncertain too."""
MEDIAN_ERROR = 1.2533
"""sqrt(pi / 2): times sigma / sqrt(n), the standard error of the median of n normal values."""
QUARTILES_APART = 1.349
"""Standard deviations between the quartiles of normal values."""
LEAST_DEVIATION_US = 1.0
"""No clock of a host is better."""


def deviation_us(seconds: Sequence[float]) -> float:
    """The standard deviation by the quartiles, which outliers do not reach."""
    if len(seconds) < 2:
        return LEAST_DEVIATION_US
    first, third = np.quantile(seconds, (0.25, 0.75))
    return max(LEAST_DEVIATION_US, float(third - first) / QUARTILES_APART * MICROSECONDS)


def medians_apart_us(seconds: Sequence[float]) -> float:
    """Standard error of the difference of two medians of as many values that scatter as these."""
    return MEDIAN_ERROR * deviation_us(seconds) * math.sqrt(2 / len(seconds))
