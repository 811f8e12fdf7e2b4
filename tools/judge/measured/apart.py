"""Batches whose keys are handed out step by step: what a kernel gains only in company shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cuda_llm.outcomes import Verdict
from cuda_llm.tools.judge.measured.batches import Rules, run_batch
from cuda_llm.tools.judge.measured.blocks import blame
from cuda_llm.tools.judge.measured.clocks import held_down
from cuda_llm.tools.judge.measured.entrants import Fault, Lanes
from cuda_llm.tools.timing.lengths import LONGEST_BATCH_US

BUDGET_S = 0.3
"""Of calls, for one kernel: of slow ones fewer batches are made, for the noise is less beside
them."""
MOST_CALLS = 64
"""Of a batch: what batches differ by is shared by so many."""
FEWEST = 6


@dataclass(frozen=True, kw_only=True)
class Apart:
    """Seconds of batches of so many calls, by name."""

    calls: int
    seconds: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, kw_only=True)
class Round:
    """One batch of each."""

    seconds: Mapping[str, float]
    throttled: bool


@dataclass(frozen=True, kw_only=True)
class NotApart:
    """Keys cannot be handed out on this machine."""

    why: str


def calls_apart(slots: int, call_us: float) -> int:
    """Of one batch, where a call takes so long."""
    return max(1, min(MOST_CALLS, slots, int(LONGEST_BATCH_US / max(call_us, 1.0))))


async def run_apart(
    kernels: Lanes, names: Sequence[str], rules: Rules, rounds: int, calls: int, call_us: float
) -> Apart | NotApart | Fault:
    """Batches of each of `names`, in random order round by round; those of `empty` have no calls.

    Each call of a candidate is verified. Raises TaskError or InfrastructureError where the
    baseline is at fault.
    """
    first = await run_one(kernels, "empty", calls, rules)
    if not isinstance(first, float):
        # What a candidate's own process says of that is no reason to believe it.
        why = kernels.baseline.session.not_stepwise
        return NotApart(why=why) if why else blame(kernels, "empty", first)
    rounds = min(rounds, max(FEWEST, int(BUDGET_S * 1e6 / (calls * max(call_us, 1.0)))))
    done: list[Round] = []
    for _ in range(rounds):
        one = await run_round(kernels, names, calls, rules)
        if isinstance(one, Fault):
            return one
        done.append(one)
    calm = [one for one in done if not one.throttled] or done
    return Apart(
        calls=calls, seconds={name: tuple(one.seconds[name] for one in calm) for name in names}
    )


async def run_round(
    kernels: Lanes, names: Sequence[str], calls: int, rules: Rules
) -> Round | Fault:
    """Each once, in random order."""
    before = rules.read_clocks()
    seconds: dict[str, float] = {}
    for name in rules.rng.permutation(list(names)):
        took = await run_one(kernels, str(name), calls, rules)
        if not isinstance(took, float):
            return blame(kernels, str(name), took)
        seconds[str(name)] = took
    return Round(seconds=seconds, throttled=held_down(before, rules.read_clocks()))


async def run_one(kernels: Lanes, name: str, calls: int, rules: Rules) -> float | Verdict:
    """One batch."""
    return await run_batch(kernels.of(name), calls, rules, solve=name != "empty", stepwise=True)
