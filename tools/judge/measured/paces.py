"""How fast kernels are expected to be at a size, from the sizes before it."""

from dataclasses import dataclass

from cuda_llm.tools.judge.measured.baseline_time import BaselineTime
from cuda_llm.tools.timing.comparison import Comparison

HOPED = 1.5
"""Of a candidate of which nothing is known yet."""


@dataclass(frozen=True, kw_only=True)
class Paces:
    """Times as fast as the baseline: what batches are made long enough for beforehand."""

    first: float = HOPED
    second: float = HOPED


def paces_seen(comparison: Comparison, baseline: BaselineTime) -> Paces:
    """What one size tells of the next."""
    return Paces(
        first=baseline.call_us / comparison.first_us.value,
        second=baseline.call_us / comparison.second_us.value,
    )
