"""The protocol of strategies: parents, briefs, the incumbent, and the end of a search."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cuda_llm.agents.situation import Situation
from cuda_llm.search import Attempt, Brief, Components


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Who is the incumbent after a round, and why."""

    incumbent: str | None
    """Id of an attempt that passed; None while there is none."""
    reason: str
    """One sentence for the trace."""
    verdicts: Mapping[str, str] = field(default_factory=dict)
    """By attempt that passed: `won`, `tie`, `slower`, `regression: ...`."""


class Strategy(Protocol):
    """Pure decisions: the same situation gives the same answer."""

    @property
    def name(self) -> str:
        """`fsr`, `fsr-paper`, `best-of-n` or the user's own."""
        ...

    @property
    def deduplicate(self) -> bool:
        """Whether a kernel judged before becomes a DUPLICATE instead of being judged again."""
        ...

    @property
    def components(self) -> Components:
        """What its prompts may hold at most; the user may take more away."""
        ...

    def write_briefs(self, situation: Situation) -> tuple[Brief, ...]:
        """The orders of round `situation.round`: ids `r<round>-c<index>`, index from 1."""
        ...

    def choose(self, situation: Situation, judged: Sequence[Attempt]) -> Choice:
        """The incumbent after `judged`, the attempts of this round, in order of their index.

        `situation.incumbent` is the one before; `situation.attempts` holds `judged` already. The
        last choice of a run is its result.
        """
        ...

    def stop(self, situation: Situation) -> str:
        """Why the search should end before its last round, in a few words; empty to go on."""
        ...
