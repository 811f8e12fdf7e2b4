"""Feature Search and Reinforcement (arXiv 2506.09092), with changes that the class lists."""

from collections.abc import Sequence
from dataclasses import dataclass

from cuda_llm.agents.limit import at_the_limit
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.acceptance import choose_fastest
from cuda_llm.agents.strategies.briefs import Order, fill_in
from cuda_llm.agents.strategies.failures import distinct_failures
from cuda_llm.agents.strategy import Choice
from cuda_llm.search import EVERYTHING, Attempt, Brief, Components, Kind


@dataclass(frozen=True)
class Fsr:
    """Reinforces correctness until something passes, and performance from then on.

    Unlike the paper's Algorithm 1 (`fsr-paper`) it returns the best of all rounds, keeps the
    incumbent after ties and regressions, judges no duplicate again, feeds the profile back beside
    the latency, and leaves the incumbent's structure after rounds without gain.
    """

    name: str = "fsr"
    deduplicate: bool = True
    components: Components = EVERYTHING

    def write_briefs(self, situation: Situation) -> tuple[Brief, ...]:
        """Asks for first kernels, then for fixes, then for improvements of the incumbent."""
        return fill_in(situation, plan_orders(situation), self.components)

    def choose(self, situation: Situation, judged: Sequence[Attempt]) -> Choice:
        """Chooses the best of all rounds."""
        return choose_fastest(situation, judged)

    def stop(self, situation: Situation) -> str:
        """Stops at the hardware's limit, or after twice `plan.patience` rounds without gain."""
        stale = rounds_without_gain(situation)
        enough = situation.incumbent is not None and stale >= 2 * situation.plan.patience
        return at_the_limit(situation) or (f"{stale} rounds without gain" if enough else "")


def plan_orders(situation: Situation) -> list[Order]:
    """Decides what each of the N candidates is to do."""
    count = situation.plan.candidates
    incumbent = situation.incumbent
    if incumbent is None:
        failures = distinct_failures(last_round(situation)) or distinct_failures(situation.attempts)
        if not failures:
            return [(Kind.FIRST, None)] * count
        return [(Kind.FIX, failures[index % len(failures)]) for index in range(count)]
    departing = count_departing(situation)
    improving: list[Order] = [(Kind.IMPROVE, incumbent)] * (count - departing)
    return improving + [(Kind.DEPART, incumbent)] * departing


def count_departing(situation: Situation) -> int:
    """Counts who leaves the incumbent's structure: none at first, then a third, at least one."""
    if rounds_without_gain(situation) < situation.plan.patience:
        return 0
    return max(1, situation.plan.candidates // 3)


def rounds_without_gain(situation: Situation) -> int:
    """Counts the judged rounds after the one that the incumbent is from."""
    judged = max((one.round for one in situation.attempts), default=0)
    return 0 if situation.incumbent is None else judged - situation.incumbent.round


def last_round(situation: Situation) -> tuple[Attempt, ...]:
    """Returns the attempts of the newest round that was judged."""
    newest = max((one.round for one in situation.attempts), default=0)
    return tuple(one for one in situation.attempts if one.round == newest)
