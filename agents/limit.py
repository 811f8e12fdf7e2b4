"""How near a kernel is to the least time its task can take on this hardware."""

import math

from cuda_llm.agents.situation import Situation
from cuda_llm.search import Attempt
from cuda_llm.tasks.least_time import least_time

AT_THE_LIMIT = 0.9
"""From this part of the limit on, the same work has nearly nothing left to gain."""
MARGIN = 1.03
"""Nearer than this to what the hardware can reach, no difference is worth a round."""


def share_of_limit(situation: Situation, attempt: Attempt) -> float | None:
    """Attainable time over the attempt's, 0 to about 1, as a geometric mean over the timed sizes.

    None where there is no time to compare. Above 1 a kernel works from the cache.
    """
    if not attempt.times_us or len(attempt.times_us) != len(situation.sizes):
        return None
    shares = [
        least_time(situation.task, situation.hardware, dims).attainable_us / time_us
        for dims, time_us in zip(situation.sizes, attempt.times_us, strict=True)
    ]
    return math.exp(sum(map(math.log, shares)) / len(shares))


def at_the_limit(situation: Situation) -> str:
    """Why the incumbent cannot become faster, in a few words; empty where it may.

    A kernel faster than the bandwidth of DRAM allows works from the cache: then nothing is known
    about its limit.
    """
    incumbent = situation.incumbent
    share = share_of_limit(situation, incumbent) if incumbent else None
    if incumbent is None or share is None or not 1 / MARGIN <= share <= MARGIN:
        return ""
    return f"{incumbent.id} runs at the hardware's limit"
