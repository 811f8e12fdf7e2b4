"""What searches the tunables that candidates declare, without asking a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cuda_llm.agents.situation import Situation
from cuda_llm.search import Attempt, Draft


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A parent with other values of its tunables."""

    parent: str
    draft: Draft


class Tuner(Protocol):
    """Proposes points of the spaces that candidates declare."""

    def propose(
        self, situation: Situation, judged: Sequence[Attempt], count: int
    ) -> tuple[Trial, ...]:
        """At most `count` trials for the best of `judged`, the attempts of this round.

        Empty where nothing that passed declares tunables. The same situation gives the same trials.
        """
        ...
