"""What verdicts know beyond their kind."""

from dataclasses import dataclass
from typing import Literal

ReplayOutcome = Literal["located", "nothing-found", "other-verdict", "not-finished", "not-run"]


@dataclass(frozen=True, kw_only=True)
class Replay:
    """What came of executing a case on the emulated device that a GPU gave an error code for."""

    outcome: ReplayOutcome
    """`located`: the place in this verdict is what the emulated device shows."""
    limit_s: float | None = None
    code: str | None = None
    """Of the other verdict that it came to."""
    detail: str = ""
    """Why it was not run."""
