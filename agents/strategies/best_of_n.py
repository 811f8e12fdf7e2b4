"""Strategy without feedback: every candidate is independent of all others."""

from collections.abc import Sequence
from dataclasses import dataclass

from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.acceptance import choose_fastest
from cuda_llm.agents.strategies.briefs import Order, fill_in
from cuda_llm.agents.strategy import Choice
from cuda_llm.search import Attempt, Brief, Components, Kind

NO_FEEDBACK = Components(history=False, hints=False, profile=False)


@dataclass(frozen=True)
class BestOfN:
    """Starts every candidate from the task alone. Other strategies are compared with it."""

    name: str = "best-of-n"
    deduplicate: bool = True
    components: Components = NO_FEEDBACK

    def write_briefs(self, situation: Situation) -> tuple[Brief, ...]:
        """Asks for N first kernels in every round."""
        orders: list[Order] = [(Kind.FIRST, None)] * situation.plan.candidates
        return fill_in(situation, orders, self.components)

    def choose(self, situation: Situation, judged: Sequence[Attempt]) -> Choice:
        """Chooses the best of all rounds."""
        return choose_fastest(situation, judged)

    def stop(self, situation: Situation) -> str:
        """Never stops early, so that budgets stay comparable."""
        return ""
