"""How much longer calls take than a slope says: at the start of a batch, or step by step.

A slope ignores what every batch begins with: a kernel that is slow in short batches, or at the
start of each, would look faster than it is by just that (`find_uneven_start`).

A kernel that learns the key of its batch can do the work of several calls in one launch, which pays
where a call leaves most of the chip idle. Where the key of each call is released when the one
before it is over and its outputs are tagged, there is nothing to merge: a call takes its true time
t there (docs/measuring.md says what is left). The slope says s < t, and t - s is what a call gains
by merging, or by being slow in short batches, for there are none here.

`find_merged_calls` takes the lower quartile of n calls run step by step, less that of batches as
long without calls, n X = n t + e with e what one process's batches take longer than another's, and
asks whether n (X - s) is beyond B + n (A + S s) + max(0, that of the baseline) + Z E: the
allowances, and the standard error E of all the figures taken. A kernel can only add to its own
batches, for a question takes as long whenever it is answered, and E comes from trusted batches
alone: noise of its making buys it nothing. Where noise would explain what is beyond the allowances,
and is more than they are, it cannot be decided.

With R batches of standard deviation d, E is about sqrt(3) 1.36 d / sqrt(R): 20 us for R = 12 and
the 30 us that releasing keys adds. It is shared by n calls, as B is: with n = 64, what can be
hidden a call is A + S s and some 2 us.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cuda_llm.tools.timing.comparison import call_us
from cuda_llm.tools.timing.slope import MICROSECONDS, BatchPair, slope_us, start_us, usual_slope_us

SURE_ERRORS = 4.0
"""Standard errors: the estimate of the error is uncertain too."""
MEDIAN_ERROR = 1.2533
"""sqrt(pi / 2): times sigma / sqrt(n), the standard error of the median of n normal values."""
QUARTILES_APART = 1.349
"""Standard deviations between the quartiles of normal values."""
LEAST_DEVIATION_US = 1.0
"""No clock of a host is better."""

ALLOWED_START_SHARE = 0.03
"""Share of the time of all calls of a long batch: clocks change during a batch."""
ALLOWED_START_US = 60.0
"""Microseconds: instruction caches fill, and a host clock jitters. On an H200 batches of one kernel
begin some 15 us apart, and a candidate's batch 10 us later than a baseline's."""
ALLOWED_START_WITH_HOST_US = 150.0
"""Microseconds where times include the host: host caches fill too, and the comparison is with
graphs."""
ALLOWED_BATCH_US = 12.0
"""For first calls of a kernel with more code or memory than the baseline, and for processes that
answer a little later than others."""
ALLOWED_CALL_US = 2.0
ALLOWED_CALL_SHARE = 0.05
"""Share of a call, which follows a wait here: honest kernels on an H200 took up to three quarters
of the allowance (docs/evidence.md)."""
QUARTILE_ERROR = 1.363
"""sqrt(p (1 - p)) / density, p = 1/4: times sigma / sqrt(n), the standard error of the lower
quartile of n normal values (Kendall and Stuart, The Advanced Theory of Statistics, 10.11)."""


def deviation_us(seconds: Sequence[float]) -> float:
    """Return the standard deviation estimated by the quartiles, which outliers do not reach."""
    if len(seconds) < 2:
        return LEAST_DEVIATION_US
    first, third = np.quantile(seconds, (0.25, 0.75))
    return max(LEAST_DEVIATION_US, float(third - first) / QUARTILES_APART * MICROSECONDS)


def medians_apart_us(seconds: Sequence[float]) -> float:
    """Return the standard error of the difference of two medians of such values."""
    return MEDIAN_ERROR * deviation_us(seconds) * math.sqrt(2 / len(seconds))


@dataclass(frozen=True, kw_only=True)
class UnevenStart:
    """Delay of the start of a kernel's batches against trusted batches."""

    beyond_us: float
    """Microseconds beyond what is allowed; 0 where they do not start later."""
    noise_us: float
    """Microseconds of the delay that may be noise, as trusted batches show it."""

    @property
    def seems_so(self) -> bool:
        """Whether batches start later than is allowed."""
        return self.beyond_us > 0

    @property
    def is_sure(self) -> bool:
        """Whether the delay exceeds what noise explains."""
        return self.beyond_us > self.noise_us


def find_uneven_start(
    own: Sequence[BatchPair],
    trusted: Sequence[Sequence[BatchPair]],
    empty_us: float,
    *,
    allowed_us: float = ALLOWED_START_US,
) -> UnevenStart:
    """Compare a kernel's batches with trusted batches. `empty_us` is a step without its call."""
    usual = max(statistics.median(start_us(pair) for pair in pairs) for pairs in trusted)
    excess = statistics.median(start_us(pair) for pair in own) - usual
    calls_us = statistics.median(pair.long * call_us(pair, empty_us) for pair in own)
    noise_us = SURE_ERRORS * max(
        medians_apart_us([start_us(pair) / MICROSECONDS for pair in pairs]) for pairs in trusted
    )
    return UnevenStart(
        beyond_us=max(0.0, excess - allowed_us - ALLOWED_START_SHARE * calls_us),
        noise_us=max(0.0, noise_us - allowed_us),
    )


@dataclass(frozen=True, kw_only=True)
class StepwiseBatches:
    """Seconds of interleaved batches whose keys were released step by step."""

    calls: int
    """Calls of each batch."""
    own: tuple[float, ...]
    """Times of the kernel that is checked."""
    empty: tuple[float, ...]
    """Times of batches without calls, in the trusted runner."""
    usual: tuple[float, ...] = ()
    """Times of the trusted kernel; empty where the trusted kernel is not timed."""
    usual_call_us: float = 0.0
    """Time of a call of the trusted kernel by its slope."""


@dataclass(frozen=True, kw_only=True)
class MergedCalls:
    """Difference between a stepwise call and the slope."""

    beyond_us: float
    """Microseconds beyond what is allowed of any kernel."""
    allowed_us: float
    noise_us: float
    """Microseconds of the difference that noise explains, as trusted batches show it."""

    @property
    def is_sure(self) -> bool:
        """Whether the difference exceeds what noise explains."""
        return self.beyond_us > self.noise_us

    @property
    def is_vague(self) -> bool:
        """Whether noise explains the difference, and noise itself exceeds the allowance."""
        return 0 < self.beyond_us <= self.noise_us and self.noise_us > self.allowed_us

    @property
    def is_clear(self) -> bool:
        """Whether the call takes no longer than allowed, by a standard error and more, so that
        further batches would not change the answer."""
        return self.beyond_us < -self.noise_us / SURE_ERRORS


def find_merged_calls(
    stepwise: StepwiseBatches, own: Sequence[BatchPair], empties: Sequence[BatchPair]
) -> MergedCalls:
    """Compare a kernel's stepwise calls with the slope of its batches `own` and of `empties`."""
    step_us = usual_slope_us(empties)
    slope = float(np.median([call_us(pair, step_us) for pair in own]))
    calls, usual = stepwise.calls, 0.0
    if stepwise.usual:
        quiet = lower_quartile_us(stepwise.empty)
        usual = (lower_quartile_us(stepwise.usual) - quiet) / calls - stepwise.usual_call_us
    allowed_us = ALLOWED_BATCH_US / calls + ALLOWED_CALL_US + ALLOWED_CALL_SHARE * slope
    return MergedCalls(
        beyond_us=stepwise_call_us(stepwise) - slope - allowed_us,
        allowed_us=allowed_us,
        noise_us=max(0.0, usual) + SURE_ERRORS * excess_error_us(stepwise, empties) / calls,
    )


def stepwise_call_us(stepwise: StepwiseBatches) -> float:
    """Return the time of a call run step by step."""
    return (lower_quartile_us(stepwise.own) - lower_quartile_us(stepwise.empty)) / stepwise.calls


def excess_error_us(stepwise: StepwiseBatches, empties: Sequence[BatchPair]) -> float:
    """Return the standard error of the excess, from trusted batches."""
    one = max(deviation_us(stepwise.empty), deviation_us(stepwise.usual))
    of_quartiles = QUARTILE_ERROR * one * math.sqrt(3 / len(stepwise.own))
    length_difference = float(np.median([pair.long - pair.short for pair in empties]))
    spans = [slope_us(pair) * length_difference / MICROSECONDS for pair in empties]
    of_spans = medians_apart_us(spans) if len(spans) > 1 else 0.0
    return math.hypot(of_quartiles, of_spans * stepwise.calls / length_difference)


def lower_quartile_us(seconds: Sequence[float]) -> float:
    """Return the lower quartile: what disturbs a batch makes it longer."""
    return float(np.quantile(seconds, 0.25)) * MICROSECONDS
