"""Algorithm 1 of arXiv 2506.09092 to the letter, for comparison.

What the paper leaves open is our choice: N and D are the plan's; rounds of repair count in D; all N
candidates of a round share one prompt; the failed kernel in it is the one that came nearest to
being right; the latency is the weighted geometric mean over the task's sizes; when no candidate of
a round passes, the last winner stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.acceptance import by_speed
from cuda_llm.agents.strategies.briefs import Order, fill_in
from cuda_llm.agents.strategies.failures import distinct_failures
from cuda_llm.agents.strategies.fsr import last_round
from cuda_llm.agents.strategy import Choice
from cuda_llm.search import Attempt, Brief, Components, Kind

LATENCY_ONLY = Components(hints=False, profile=False, baseline=False, diversity=False)


@dataclass(frozen=True)
class FsrPaper:
    """Feeds back latency alone, and returns the last round's winner."""

    name: str = "fsr-paper"
    deduplicate: bool = False
    components: Components = LATENCY_ONLY

    def write_briefs(self, situation: Situation) -> tuple[Brief, ...]:
        """Asks for the same N times."""
        order: Order = (Kind.FIRST, None)
        failures = distinct_failures(last_round(situation))
        if situation.incumbent is not None:
            order = (Kind.IMPROVE, situation.incumbent)
        elif failures:
            order = (Kind.FIX, failures[0])
        return fill_in(situation, [order] * situation.plan.candidates, self.components)

    def choose(self, situation: Situation, judged: Sequence[Attempt]) -> Choice:
        """Chooses the fastest of this round, whatever came before it."""
        before = situation.incumbent
        passed = by_speed(judged)
        if not passed:
            return Choice(
                incumbent=None if before is None else before.id,
                reason="nothing of this round passed",
            )
        first, *others = passed
        return Choice(
            incumbent=first.id,
            reason=f"{first.id} is the fastest of its round, at {first.speedup:.2f}x the baseline",
            verdicts={first.id: "won"} | {one.id: "slower" for one in others},
        )

    def stop(self, situation: Situation) -> str:
        """Never stops before D rounds."""
        return ""
