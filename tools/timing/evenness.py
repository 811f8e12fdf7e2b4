"""Whether the first calls of a batch take longer than the rest.

A slope ignores what every batch begins with. A kernel that dawdles in short batches, or at the
start of each, would look faster than it is by just that.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from cuda_llm.tools.timing.comparison import call_us
from cuda_llm.tools.timing.noise import SURE, medians_apart_us
from cuda_llm.tools.timing.slope import MICROSECONDS, Pair, start_us

ALLOWED_SHARE = 0.03
"""Of the time of all calls of a long batch: clocks change while it lasts."""
ALLOWED_US = 60.0
"""Instruction caches fill, and a host clock jitters: on an H200 single batches of one kernel begin
some 15 us apart, and a candidate's 10 us later than a baseline's."""
ALLOWED_WITH_HOST_US = 150.0
"""Where the host's part counts: its caches fill too, and it is held against graphs."""


@dataclass(frozen=True, kw_only=True)
class Uneven:
    """What the starts of a kernel's batches say."""

    beyond_us: float
    """By how much more than is allowed they begin later than any trusted ones; 0 if not."""
    doubt_us: float
    """How much of that may be noise: trusted batches themselves begin so unevenly."""

    @property
    def seems_so(self) -> bool:
        """Whether anything is to be said against the kernel."""
        return self.beyond_us > 0

    @property
    def is_sure(self) -> bool:
        """Whether the machine's noise does not explain it."""
        return self.beyond_us > self.doubt_us


def find_uneven(
    own: Sequence[Pair],
    trusted: Sequence[Sequence[Pair]],
    empty_us: float,
    *,
    allowed_us: float = ALLOWED_US,
) -> Uneven:
    """Hold a kernel's batches against trusted ones. `empty_us` is a step without its call."""
    usual = max(statistics.median(start_us(pair) for pair in pairs) for pairs in trusted)
    excess = statistics.median(start_us(pair) for pair in own) - usual
    calls_us = statistics.median(pair.long * call_us(pair, empty_us) for pair in own)
    noise_us = SURE * max(
        medians_apart_us([start_us(pair) / MICROSECONDS for pair in pairs]) for pairs in trusted
    )
    return Uneven(
        beyond_us=max(0.0, excess - allowed_us - ALLOWED_SHARE * calls_us),
        doubt_us=max(0.0, noise_us - allowed_us),
    )
