"""Whether a call costs more where nothing is known of it before the one before has ended."""

from collections.abc import Sequence
from dataclasses import dataclass

from cuda_llm.outcomes import Quarantined
from cuda_llm.tools.device import TimeClass
from cuda_llm.tools.judge.measured.apart import Apart, run_apart
from cuda_llm.tools.judge.measured.batches import Rules
from cuda_llm.tools.judge.measured.entrants import Fault, Lanes
from cuda_llm.tools.judge.measured.lane import Lane
from cuda_llm.tools.timing.apart import Stepwise, call_apart_us, merged_us
from cuda_llm.tools.timing.block import Block
from cuda_llm.tools.timing.comparison import Comparison


@dataclass(frozen=True, kw_only=True)
class Looked:
    """No fault."""

    stepwise_us: float | None = None
    """What a call of the first takes of which nothing is known before; None: not looked at."""
    note: str = ""
    """Why not, where it should have been."""


async def find_merging(
    lanes: Lanes,
    whose: Sequence[str],
    blocks: Sequence[Block],
    rules: Rules,
    rounds: int,
    comparison: Comparison,
) -> Fault | Looked:
    """Hold slopes of `whose` against calls whose keys are handed out step by step.

    `comparison` is of `blocks`.
    """
    longest_us = max(comparison.first_us.value, comparison.second_us.value)
    beside = ["second"] if is_usual(lanes.second) else []
    apart = await run_apart(lanes, [*whose, "empty", *beside], rules, rounds, longest_us)
    if isinstance(apart, Fault):
        return apart
    if apart.why_not:
        return Looked(note=f"merged calls were not looked for: {apart.why_not}")
    empties = [block.empty for block in blocks]
    found = {
        which: stepwise_of(lanes.second, which, apart, comparison.second_us.value)
        for which in whose
    }
    for which, stepwise in found.items():
        own = [block.first if which == "first" else block.second for block in blocks]
        more_us = merged_us(stepwise, own, empties)
        if more_us > 0:
            return Fault(which=which, verdict=dearer_apart(more_us))
    return Looked(stepwise_us=call_apart_us(found["first"]) if "first" in found else None)


def stepwise_of(second: Lane | None, which: str, apart: Apart, second_us: float) -> Stepwise:
    """What was measured of one of the two."""
    return Stepwise(
        calls=apart.calls,
        own=apart.seconds[which],
        empty=apart.seconds["empty"],
        usual=apart.seconds["second"] if is_usual(second) else (),
        usual_call_us=second_us,
    )


def is_usual(second: Lane | None) -> bool:
    """Whether its calls tell what an honest kernel takes apart."""
    return (
        second is not None and second.trusted and second.time_class is not TimeClass.HOST_INCLUSIVE
    )


def dearer_apart(beyond_us: float) -> Quarantined:
    """For a person to look at: who merges calls does this."""
    return Quarantined(
        reason="a call of which nothing is known before the one before it has ended takes longer "
        f"than one of a batch, by {beyond_us:.1f} us more than noise explains: work of several "
        "calls may be done in one"
    )
