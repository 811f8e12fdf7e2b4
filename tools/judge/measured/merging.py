"""Whether a call costs more where nothing is known of it before the one before has ended."""

from collections.abc import Sequence
from dataclasses import dataclass

from cuda_llm.outcomes import InfraFailed, Quarantined
from cuda_llm.tools.judge.measured.apart import NotApart, calls_apart, run_apart
from cuda_llm.tools.judge.measured.batches import Rules
from cuda_llm.tools.judge.measured.entrants import Fault, Lanes
from cuda_llm.tools.judge.measured.verify import find_overwritten
from cuda_llm.tools.judge.noisy import noisy
from cuda_llm.tools.timing.apart import Stepwise, call_apart_us, find_merged
from cuda_llm.tools.timing.block import Block, pairs_of
from cuda_llm.tools.timing.comparison import Comparison
from cuda_llm.tools.timing.lengths import LONGEST_BATCH_US


@dataclass(frozen=True, kw_only=True)
class Looked:
    """No fault."""

    stepwise_us: float | None = None
    """What a call of the first takes of which nothing is known before; None: not looked at."""
    note: str = ""
    """Why not, where it should have been."""


async def find_merging(
    kernels: Lanes,
    whose: Sequence[str],
    blocks: Sequence[Block],
    rules: Rules,
    rounds: int,
    comparison: Comparison,
) -> Fault | Looked:
    """Hold slopes of `whose` against calls whose keys are handed out step by step.

    `comparison` is of `blocks`.
    """
    times_us = {"first": comparison.first_us.value, "second": comparison.second_us.value}
    longest_us = max(times_us[which] for which in whose)
    calls = calls_apart(kernels.slots, longest_us)
    # A slow baseline would leave a quick kernel batches of few calls, which show little.
    quick = calls * times_us["second"] <= 2 * LONGEST_BATCH_US
    usual = kernels.beside_baseline and not kernels.of("second").includes_host
    beside = ["second"] if usual and quick else []
    batches = await run_apart(kernels, [*whose, "empty", *beside], rules, rounds, calls, longest_us)
    if isinstance(batches, Fault):
        return batches
    if isinstance(batches, NotApart):
        return Looked(note=f"merged calls were not looked for: {batches.why}")
    found = {
        which: Stepwise(
            calls=calls,
            own=batches.seconds[which],
            empty=batches.seconds["empty"],
            usual=batches.seconds["second"] if beside else (),
            usual_call_us=times_us["second"],
        )
        for which in whose
    }
    for which, stepwise in found.items():
        verdict = find_overwritten(kernels.of(which)) or merging(stepwise, which, blocks)
        if verdict is not None:
            return Fault(which=which, verdict=verdict)
    return Looked(stepwise_us=call_apart_us(found["first"]) if "first" in found else None)


def merging(
    stepwise: Stepwise, which: str, blocks: Sequence[Block]
) -> Quarantined | InfraFailed | None:
    """What is to be said of one of the two."""
    found = find_merged(stepwise, pairs_of(blocks, which), [block.empty for block in blocks])
    if found.is_sure:
        return dearer_apart(found.beyond_us - found.noise_us)
    return too_noisy(found.beyond_us) if found.is_vague else None


def too_noisy(beyond_us: float) -> InfraFailed:
    """Nobody can say whether the kernel does that."""
    return noisy(
        "a call of which nothing is known before the one before it has ended seems to take "
        f"{beyond_us:.1f} us longer than one of a batch, but other work on this machine makes as "
        "much difference"
    )


def dearer_apart(beyond_us: float) -> Quarantined:
    """For a person to look at: who merges calls does this."""
    return Quarantined(
        reason="a call of which nothing is known before the one before it has ended takes longer "
        f"than one of a batch, by {beyond_us:.1f} us more than noise explains: work of several "
        "calls may be done in one"
    )
