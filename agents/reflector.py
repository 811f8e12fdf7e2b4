"""What turns verdicts into hints."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cuda_llm.agents.situation import Situation
from cuda_llm.search import Attempt, Hint


@dataclass(frozen=True, kw_only=True)
class Reflected:
    """What a round taught."""

    error_hints: tuple[Hint, ...] = ()
    performance_hints: tuple[Hint, ...] = ()
    decisions: tuple[str, ...] = ()
    """One sentence each, for the trace."""


class Reflector(Protocol):
    """Learns from a round."""

    @property
    def name(self) -> str:
        """As the trace shows it."""
        ...

    async def reflect(self, situation: Situation, judged: Sequence[Attempt]) -> Reflected:
        """What `judged`, the attempts of this round, taught.

        `situation.incumbent` is already the one after this round.
        """
        ...
