"""Batches whose keys are handed out step by step: what a kernel gains only in company shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cuda_llm.outcomes import Verdict
from cuda_llm.tools.judge.measured.batches import Rules, run_batch
from cuda_llm.tools.judge.measured.entrants import Fault, Lanes
from cuda_llm.tools.judge.measured.lane import Lane
from cuda_llm.tools.judge.refusal import refusal
from cuda_llm.tools.timing.lengths import LONGEST_BATCH_US

BUDGET_S = 0.3
"""Of calls, for one kernel: of slow ones fewer are made, for the noise is less beside them."""
MOST_CALLS = 64
"""Of a batch: what batches differ by is shared by so many."""
FEWEST = 6


@dataclass(frozen=True, kw_only=True)
class Apart:
    """Seconds of batches of so many calls, by name."""

    calls: int
    seconds: Mapping[str, tuple[float, ...]]
    why_not: str = ""
    """Why there are none."""


async def run_apart(
    lanes: Lanes, names: Sequence[str], rules: Rules, rounds: int, longest_call_us: float
) -> Apart | Fault:
    """Batches of each of `names`, in random order round by round; those of `empty` have no calls.

    Each call of a candidate is verified. Raises TaskError or InfrastructureError where the
    baseline is at fault.
    """
    call_us = max(longest_call_us, 1.0)
    calls = max(1, min(MOST_CALLS, lanes.slots, int(LONGEST_BATCH_US / call_us)))
    rounds = min(rounds, max(FEWEST, int(BUDGET_S * 1e6 / (calls * call_us))))
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in rules.rng.permutation(names):
            lane = lane_of(lanes, str(name))
            took = await run_batch(lane, calls, rules, solve=name != "empty", stepwise=True)
            if not isinstance(took, float):
                if lane.session.not_stepwise:
                    return Apart(calls=calls, seconds={}, why_not=lane.session.not_stepwise)
                return blamed(lanes, str(name), took)
            seconds[str(name)].append(took)
    return Apart(calls=calls, seconds={name: tuple(of) for name, of in seconds.items()})


def lane_of(lanes: Lanes, name: str) -> Lane:
    """Where the batches called `name` are run."""
    if name == "first":
        return lanes.first
    return lanes.second if name == "second" and lanes.second is not None else lanes.ground


def blamed(lanes: Lanes, name: str, verdict: Verdict) -> Fault:
    """Whose it is. Raises where it is the baseline's."""
    if lane_of(lanes, name).trusted:
        raise refusal(lanes.ground.recipe.task, verdict)
    return Fault(which=name, verdict=verdict)
