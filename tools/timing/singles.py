"""Whether a call costs more in a batch of its own than in company.

A kernel that finds the key of its batch can do the work of several calls in one launch, which pays
where a call leaves most of the chip idle. In a batch of one call there is nothing to merge, so
there it takes its true time t. The slope says s < t, and t - s is what merging gains a call.

`merged_us` takes the lower quartile of such batches less that of empty ones, X = t + e with e what
a first call takes more for cold instruction caches and address translation, and asks whether
X - s is beyond A + S s + max(0, e of the baseline) + Z E: the allowance, and the standard error E
of all the figures taken. A kernel can only add to its own batches, never hide below t, and E comes
from trusted batches alone: noise of its making buys it nothing.

With R batches of one call, of standard deviation d each, and b blocks, E is about
sqrt(3) 1.36 d / sqrt(R): 2.5 us for d = 6 us and R = 32. So what can be hidden a call is about
A + 5 % of s + (Z + 1.6) E, or 28 us, where 95 % of all attempts are to be found out. Simulated with
that noise, merging two calls in the time of one is found out at 95 % where t is 70 us or more (s of
35 us), and none of 12,000 honest kernels is accused; where t is below some 25 us, any merging stays
unseen. All of it grows with d: at 12 us, 28 becomes 42, and 70 becomes 100.

`bent_us` holds the starts of pairs against the same batches: who dawdles in short batches, but not
in batches of one, bends the line.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cuda_llm.tools.timing.comparison import call_us
from cuda_llm.tools.timing.noise import SURE, deviation_us, medians_apart_us
from cuda_llm.tools.timing.slope import MICROSECONDS, Pair, slope_us, start_us

ALLOWED_US = 12.0
"""First calls of a kernel with more code or memory than the baseline's, and processes that answer
a little later than others."""
ALLOWED_SHARE = 0.05
"""Of a call."""
BENT_US = 25.0
"""A median of skewed noise lies above its quartile, and a second call may differ from a first."""
BENT_SHARE = 0.02
"""Of the calls of a long batch: clocks change while it lasts."""
QUARTILE_ERROR = 1.363
"""sqrt(p (1 - p)) / density, p = 1/4: times sigma / sqrt(n), the standard error of the lower
quartile of n normal values (Kendall and Stuart, The Advanced Theory of Statistics, 10.11)."""


@dataclass(frozen=True, kw_only=True)
class Singles:
    """Batches of one call, interleaved, as seconds."""

    own: tuple[float, ...]
    """Of the kernel in question."""
    empty: tuple[float, ...]
    """Without the call, in the trusted runner."""
    usual: tuple[float, ...] = ()
    """Of the trusted kernel; nothing where it is not timed."""
    usual_call_us: float = 0.0
    """What the slope says of that."""


def merged_us(singles: Singles, own: Sequence[Pair], empties: Sequence[Pair]) -> float:
    """By how much more than can be explained a call alone takes longer than in company; 0 if not.

    `own` and `empties` are the pairs of batches that the slope is taken from.
    """
    slope = float(np.median([call_us(pair, empty_slope_us(empties)) for pair in own]))
    quiet = low_us(singles.empty)
    excess = low_us(singles.own) - quiet - slope
    usual = low_us(singles.usual) - quiet - singles.usual_call_us if singles.usual else 0.0
    explained = ALLOWED_US + ALLOWED_SHARE * slope + max(0.0, usual)
    return max(0.0, excess - explained - SURE * error_us(singles, empties))


def bent_us(singles: Singles, own: Sequence[Pair], empties: Sequence[Pair]) -> float:
    """By how much more than can be explained batches of several calls begin later than those of
    one; 0 if not. The constant of the kernel's own process cancels.
    """
    step = float(np.median([slope_us(pair) for pair in own]))
    start = float(np.median([start_us(pair) for pair in own]))
    calls = float(np.median([pair.long for pair in own])) * (step - empty_slope_us(empties))
    excess = start - (low_us(singles.own) - step)
    explained = BENT_US + BENT_SHARE * max(0.0, calls)
    return max(0.0, excess - explained - SURE * error_us(singles, empties))


def empty_slope_us(empties: Sequence[Pair]) -> float:
    """Everything in a step but its call."""
    return float(np.median([slope_us(pair) for pair in empties]))


def error_us(singles: Singles, empties: Sequence[Pair]) -> float:
    """Standard error of the excess, from trusted batches."""
    one = max(deviation_us(singles.empty), deviation_us(singles.usual))
    of_quartiles = QUARTILE_ERROR * one * math.sqrt(3 / len(singles.own))
    slopes = [slope_us(pair) / MICROSECONDS for pair in empties]
    return math.hypot(of_quartiles, medians_apart_us(slopes) if len(slopes) > 1 else 0.0)


def low_us(seconds: Sequence[float]) -> float:
    """The lower quartile: what disturbs a batch makes it longer."""
    return float(np.quantile(seconds, 0.25)) * MICROSECONDS
