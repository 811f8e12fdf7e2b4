"""Feature Search and Reinforcement (arXiv 2506.09092), with its weak spots mended."""

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
    """Correctness Reinforcement until something passes, then Performance Reinforcement.

    Unlike the paper's Algorithm 1 (`fsr-paper`): the best ever is returned, ties and regressions
    are not crowned, duplicates are not judged again, the profile is fed back beside the latency,
    and a search that stands still leaves its local optimum on purpose.
    """

    name: str = "fsr"
    deduplicate: bool = True
    components: Components = EVERYTHING

    def write_briefs(self, situation: Situation) -> tuple[Brief, ...]:
        """First kernels, then mends, then improvements of the incumbent."""
        return fill_in(situation, plan_orders(situation), self.components)

    def choose(self, situation: Situation, judged: Sequence[Attempt]) -> Choice:
        """The best ever."""
        return choose_fastest(situation, judged)

    def stop(self, situation: Situation) -> str:
        """At the hardware's limit, or after twice `plan.patience` rounds without gain."""
        stale = rounds_without_gain(situation)
        enough = situation.incumbent is not None and stale >= 2 * situation.plan.patience
        return at_the_limit(situation) or (f"{stale} rounds without gain" if enough else "")


def plan_orders(situation: Situation) -> list[Order]:
    """What each of the N is to do."""
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
    """How many leave the incumbent's structure: none, then a third, at least one."""
    if rounds_without_gain(situation) < situation.plan.patience:
        return 0
    return max(1, situation.plan.candidates // 3)


def rounds_without_gain(situation: Situation) -> int:
    """Judged rounds since the one that the incumbent is from."""
    judged = max((one.round for one in situation.attempts), default=0)
    return 0 if situation.incumbent is None else judged - situation.incumbent.round


def last_round(situation: Situation) -> tuple[Attempt, ...]:
    """The attempts of the newest round that was judged."""
    newest = max((one.round for one in situation.attempts), default=0)
    return tuple(one for one in situation.attempts if one.round == newest)
