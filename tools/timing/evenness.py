"""Whether the first calls of a batch take longer than the rest.

A slope ignores what every batch begins with. A kernel that dawdles in short batches, or at the
start of each, would look faster than it is by just that.
"""

import math
import statistics
from collections.abc import Sequence

from cuda_llm.tools.timing.comparison import call_us
from cuda_llm.tools.timing.singles import MEDIAN_ERROR, SURE, deviation_us
from cuda_llm.tools.timing.slope import MICROSECONDS, Pair, start_us

ALLOWED_SHARE = 0.03
"""Of the time of all calls of a long batch: clocks change while it lasts."""
ALLOWED_US = 60.0
"""Instruction caches fill, and a host clock jitters: on an H200 single batches of one kernel begin
some 15 us apart, and a candidate's 10 us later than a baseline's."""
ALLOWED_WITH_HOST_US = 150.0
"""Where the host's part counts: its caches fill too, and it is held against graphs."""


def uneven_us(
    own: Sequence[Pair],
    trusted: Sequence[Sequence[Pair]],
    empty_us: float,
    *,
    allowed_us: float = ALLOWED_US,
) -> float:
    """By how much more than is allowed a kernel's batches begin slower than any trusted ones do.

    0 where nothing is to be said against it. `empty_us` is a step without its call. On a machine
    whose trusted batches begin so unevenly that what is allowed is not beyond doubt, more is.
    """
    usual = max(statistics.median(start_us(pair) for pair in pairs) for pairs in trusted)
    doubt_us = SURE * max(error_us(pairs) for pairs in trusted)
    excess = statistics.median(start_us(pair) for pair in own) - usual
    calls_us = statistics.median(pair.long * call_us(pair, empty_us) for pair in own)
    return max(0.0, excess - max(allowed_us, doubt_us) - ALLOWED_SHARE * calls_us)


def error_us(pairs: Sequence[Pair]) -> float:
    """Standard error of the difference of two medians of as many starts as noisy as these."""
    starts = [start_us(pair) / MICROSECONDS for pair in pairs]
    return MEDIAN_ERROR * deviation_us(starts) * math.sqrt(2 / len(starts))
