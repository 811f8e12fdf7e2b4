"""Whether a call costs more where nothing is known of it before the call before has ended.

A kernel that finds the key of its batch can do the work of several calls in one launch, which pays
where a call leaves most of the chip idle. Where the key of each call is handed out when the one
before it is over and its outputs are tagged, there is nothing to merge: a call takes its true time
t there (docs/measuring.md says what is left). The slope says s < t, and t - s is what a call gains
by merging, or by dawdling in short batches, for there are none here.

`find_merged` takes the lower quartile of n calls handed out step by step, less that of batches as
long without calls, n X = n t + e with e what one process's batches take longer than another's, and
asks whether n (X - s) is beyond B + n (A + S s) + max(0, that of the baseline) + Z E: the
allowances, and the standard error E of all the figures taken. A kernel can only add to its own
batches, for a question takes as long whenever it is answered, and E comes from trusted batches
alone: noise of its making buys it nothing. Where noise would explain what is beyond the allowances,
and is more than they are, nobody can tell.

With R batches of standard deviation d, E is about sqrt(3) 1.36 d / sqrt(R): 20 us for R = 12 and
the 30 us that handing out adds. It is shared by n calls, as B is: with n = 64, what can be hidden a
call is A + S s and some 2 us.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cuda_llm.tools.timing.comparison import call_us
from cuda_llm.tools.timing.noise import SURE, deviation_us, medians_apart_us
from cuda_llm.tools.timing.slope import MICROSECONDS, Pair, slope_us, usual_slope_us

BATCH_US = 12.0
"""First calls of a kernel with more code or memory than the baseline's, and processes that answer
a little later than others."""
ALLOWED_US = 2.0
ALLOWED_SHARE = 0.05
"""Of a call, which comes after a wait here: on an H200 that made up to three quarters of this
(`benchmarks/results/h200_apart.json`)."""
QUARTILE_ERROR = 1.363
"""sqrt(p (1 - p)) / density, p = 1/4: times sigma / sqrt(n), the standard error of the lower
quartile of n normal values (Kendall and Stuart, The Advanced Theory of Statistics, 10.11)."""


@dataclass(frozen=True, kw_only=True)
class Stepwise:
    """Batches whose keys were handed out step by step, interleaved, as seconds."""

    calls: int
    """Of each."""
    own: tuple[float, ...]
    """Of the kernel in question."""
    empty: tuple[float, ...]
    """Without the calls, in the trusted runner."""
    usual: tuple[float, ...] = ()
    """Of the trusted kernel; nothing where it is not timed."""
    usual_call_us: float = 0.0
    """What the slope says of that."""


@dataclass(frozen=True, kw_only=True)
class Merged:
    """By how much a call takes longer apart than the slope says."""

    beyond_us: float
    """More than is allowed of any kernel."""
    allowed_us: float
    noise_us: float
    """What more the machine explains, as trusted batches show it."""

    @property
    def is_sure(self) -> bool:
        """Whether noise does not explain it."""
        return self.beyond_us > self.noise_us

    @property
    def is_vague(self) -> bool:
        """Whether noise explains it that is more than is allowed itself."""
        return 0 < self.beyond_us <= self.noise_us and self.noise_us > self.allowed_us


def find_merged(stepwise: Stepwise, own: Sequence[Pair], empties: Sequence[Pair]) -> Merged:
    """`own` and `empties` are the pairs of batches that the slope is taken from."""
    step_us = usual_slope_us(empties)
    slope = float(np.median([call_us(pair, step_us) for pair in own]))
    calls, usual = stepwise.calls, 0.0
    if stepwise.usual:
        quiet = low_us(stepwise.empty)
        usual = (low_us(stepwise.usual) - quiet) / calls - stepwise.usual_call_us
    allowed_us = BATCH_US / calls + ALLOWED_US + ALLOWED_SHARE * slope
    return Merged(
        beyond_us=call_apart_us(stepwise) - slope - allowed_us,
        allowed_us=allowed_us,
        noise_us=max(0.0, usual) + SURE * error_us(stepwise, empties) / calls,
    )


def call_apart_us(stepwise: Stepwise) -> float:
    """What a call takes apart."""
    return (low_us(stepwise.own) - low_us(stepwise.empty)) / stepwise.calls


def error_us(stepwise: Stepwise, empties: Sequence[Pair]) -> float:
    """Standard error of the excess, from trusted batches."""
    one = max(deviation_us(stepwise.empty), deviation_us(stepwise.usual))
    of_quartiles = QUARTILE_ERROR * one * math.sqrt(3 / len(stepwise.own))
    apart = float(np.median([pair.long - pair.short for pair in empties]))
    spans = [slope_us(pair) * apart / MICROSECONDS for pair in empties]
    of_spans = medians_apart_us(spans) if len(spans) > 1 else 0.0
    return math.hypot(of_quartiles, of_spans * stepwise.calls / apart)


def low_us(seconds: Sequence[float]) -> float:
    """The lower quartile: what disturbs a batch makes it longer."""
    return float(np.quantile(seconds, 0.25)) * MICROSECONDS
