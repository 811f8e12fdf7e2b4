"""Whether the time of a call depends on how many are timed."""

from collections.abc import Sequence

from cuda_llm.outcomes import InfraFailed, Quarantined
from cuda_llm.tools.judge.measured.batches import Rules
from cuda_llm.tools.judge.measured.entrants import Fault, Lanes
from cuda_llm.tools.judge.measured.merging import Looked, find_merging
from cuda_llm.tools.judge.noisy import noisy
from cuda_llm.tools.timing.block import Block, pairs_of
from cuda_llm.tools.timing.comparison import Comparison
from cuda_llm.tools.timing.evenness import ALLOWED_US, ALLOWED_WITH_HOST_US, Uneven, find_uneven
from cuda_llm.tools.timing.slope import usual_slope_us
from cuda_llm.tools.timing.stopping import Rule

FEWEST_BLOCKS = 3
"""A slope from fewer is not known well enough to hold anything against it. Only kernels of
milliseconds have so few: there is nothing to gain in merging them."""

ACCUSING_BLOCKS = 12
"""Outliers of a machine may be most of three blocks, but not of these."""
DOUBTING_BLOCKS = 24
"""Where it is noisy still, more would hardly help."""


def wants_more(kernels: Lanes, blocks: Sequence[Block]) -> bool:
    """Whether somebody seems to dawdle, but too few blocks say so."""
    if len(blocks) >= DOUBTING_BLOCKS:
        return False
    found = [dawdling(kernels, which, blocks) for which in suspects(kernels)]
    few = len(blocks) < ACCUSING_BLOCKS
    return any(one.seems_so and (few or not one.is_sure) for one in found)


async def find_dependence(
    kernels: Lanes, blocks: Sequence[Block], rules: Rules, rule: Rule, comparison: Comparison
) -> Fault | Looked:
    """Short batches against long ones; where the rule asks for it, slopes against calls whose keys
    are handed out step by step.

    `comparison` is of the same blocks.
    """
    for which in suspects(kernels):
        found = dawdling(kernels, which, blocks)
        if found.seems_so:
            verdict_for = uneven if found.is_sure else too_noisy
            return Fault(which=which, verdict=verdict_for(found.beyond_us))
    comparable = [which for which in suspects(kernels) if not kernels.of(which).includes_host]
    if not rule.stepwise or len(blocks) < FEWEST_BLOCKS or not comparable:
        return Looked()
    return await find_merging(kernels, comparable, blocks, rules, rule.stepwise, comparison)


def suspects(kernels: Lanes) -> list[str]:
    """Who is not trusted."""
    both = {"first": kernels.first, "second": kernels.second}
    return [which for which, kernel in both.items() if kernel is not None and not kernel.trusted]


def dawdling(kernels: Lanes, which: str, blocks: Sequence[Block]) -> Uneven:
    """See `find_uneven`."""
    empties = [block.empty for block in blocks]
    trusted = [empties]
    trusted += [[block.second for block in blocks]] if kernels.beside_baseline else []
    allowed_us = ALLOWED_WITH_HOST_US if kernels.of(which).includes_host else ALLOWED_US
    return find_uneven(
        pairs_of(blocks, which), trusted, usual_slope_us(empties), allowed_us=allowed_us
    )


def uneven(beyond_us: float) -> Quarantined:
    """For a person to look at: nothing honest is known to do this."""
    return Quarantined(
        reason="the first calls of a batch take longer than the following ones, by "
        f"{beyond_us:.0f} us more than can be explained: the time of a call depends on how many "
        "are timed"
    )


def too_noisy(beyond_us: float) -> InfraFailed:
    """Nobody can say whether the kernel does that."""
    return noisy(
        f"the first calls of a batch seem to take {beyond_us:.0f} us longer than can be explained, "
        "but other work on this machine holds up trusted batches as much"
    )
