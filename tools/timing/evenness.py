"""Whether the first calls of a batch take longer than the rest.

A slope ignores what every batch begins with. A kernel that dawdles in short batches, or at the
start of each, would look faster than it is by just that.
"""

import statistics
from collections.abc import Sequence

from cuda_llm.tools.timing.block import Block
from cuda_llm.tools.timing.comparison import call_us
from cuda_llm.tools.timing.slope import start_us

ALLOWED_SHARE = 0.10
"""Of the time of all calls of a long batch."""
ALLOWED_US = 60.0
"""Instruction caches fill, clocks rise, and a host clock jitters."""


def uneven_us(blocks: Sequence[Block], empty_us: float) -> float:
    """By how much the first kernel's batches begin slower than the second's, above what is allowed.

    0 where nothing is to be said against it.
    """
    excess = statistics.median(start_us(one.first) - start_us(one.second) for one in blocks)
    calls_us = statistics.median(one.first.long * call_us(one.first, empty_us) for one in blocks)
    beyond = excess - ALLOWED_US - ALLOWED_SHARE * calls_us
    return max(0.0, beyond)
