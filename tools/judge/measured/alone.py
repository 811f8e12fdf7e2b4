"""Calls in batches of their own: what a kernel gains only in company is found out."""

from collections.abc import Mapping

from cuda_llm.outcomes import Verdict
from cuda_llm.tools.judge.measured.batches import Rules, run_batch
from cuda_llm.tools.judge.measured.entrants import Fault, Lanes
from cuda_llm.tools.judge.refusal import refusal

BUDGET_S = 0.3
"""Of calls, for one kernel: of slow ones fewer are made, for the noise is less beside them."""
FEWEST = 6

Alone = Mapping[str, tuple[float, ...]]
"""Seconds of batches of one call, by `first`, `second` and `empty`."""


async def run_alone(
    lanes: Lanes, rules: Rules, rounds: int, longest_call_us: float
) -> Alone | Fault:
    """Every kernel's batches of one call, and empty ones, in random order round by round.

    Each call of a candidate is verified. Raises TaskError or InfrastructureError where the
    baseline is at fault.
    """
    affordable = int(BUDGET_S * 1e6 / max(longest_call_us, 1.0))
    names = ["first", "empty"] + ([] if lanes.second is None else ["second"])
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(min(rounds, max(FEWEST, affordable))):
        for name in rules.rng.permutation(names):
            took = await run_one(lanes, str(name), rules)
            if not isinstance(took, float):
                if trusts(lanes, str(name)):
                    raise refusal(lanes.ground.recipe.task, took)
                return Fault(which=str(name), verdict=took)
            seconds[str(name)].append(took)
    return {name: tuple(of) for name, of in seconds.items()}


async def run_one(lanes: Lanes, name: str, rules: Rules) -> float | Verdict:
    """One batch of one call, or of a step without it."""
    if name == "empty":
        return await run_batch(lanes.ground, 1, rules, solve=False, alike=True)
    lane = lanes.second if name == "second" and lanes.second is not None else lanes.first
    return await run_batch(lane, 1, rules, alike=True)


def trusts(lanes: Lanes, name: str) -> bool:
    """Whether `name` stands for the baseline's own lane."""
    own = {"first": lanes.first, "second": lanes.second}.get(name)
    return own is None or own.trusted
