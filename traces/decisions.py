"""What agents decide, what comes of it, and where the run goes: a part of `traces.events`."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from cuda_llm.critique import CheckedCritique
from cuda_llm.search import Hint


@dataclass(frozen=True, kw_only=True)
class AgentDecided:
    """An agent decided something: the researcher, reflection, or a user's own."""

    kind: ClassVar[str] = "agent_decided"
    agent: str
    round: int
    decisions: tuple[str, ...]
    note: str = ""
    """Text it adds to prompts."""
    critique: CheckedCritique | None = None


@dataclass(frozen=True, kw_only=True)
class AgentFailed:
    """An extra agent raised; the run goes on without it."""

    kind: ClassVar[str] = "agent_failed"
    agent: str
    round: int
    error: str
    traceback: str = ""
    """Whole, where it raised."""


@dataclass(frozen=True, kw_only=True)
class GeneratorFailed:
    """A generator raised, and its candidate has no kernel."""

    kind: ClassVar[str] = "generator_failed"
    candidate: str
    error: str
    traceback: str = ""
    """Whole, where it raised."""


@dataclass(frozen=True, kw_only=True)
class HintGiven:
    """Something learned went into the state."""

    kind: ClassVar[str] = "hint_given"
    channel: str
    """`error_hints` or `performance_hints`."""
    hint: Hint


@dataclass(frozen=True, kw_only=True)
class HintsTried:
    """A candidate whose brief held hints about its parent's speed has its verdict."""

    kind: ClassVar[str] = "hints_tried"
    candidate: str
    parent: str
    predicted: Mapping[str, float]
    """By hint: part of the parent's time, 0 to 1, that following it should save; 0 where it did
    not say."""
    gained: float | None = None
    """Part of it that the candidate saved at the largest size, negative where it is slower; None
    where it did not pass."""


@dataclass(frozen=True, kw_only=True)
class ReviewChange:
    """Something that a reviewer wanted otherwise."""

    id: str
    """Of the hint or the order; empty for a hint of the reviewer's own."""
    part: str
    """`text`, `parent` or `direction` where that was changed; `hint` or `order` where the whole was
    rejected or, of a hint, added."""
    before: str = ""
    after: str = ""


@dataclass(frozen=True, kw_only=True)
class RoundReviewed:
    """A person decided on the orders of a round and on what was learned before it."""

    kind: ClassVar[str] = "round_reviewed"
    round: int
    """That begins with it."""
    by: str
    accepted: tuple[str, ...]
    """Hints and orders that stay as they were."""
    changes: tuple[ReviewChange, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Routed:
    """A round is over, and it is decided what follows."""

    kind: ClassVar[str] = "routed"
    round: int
    to: str
    """`strategy` for another round, or `finish`."""
    reason: str
    """Of the end as in `run_finished`; else how many rounds are left."""


class StopCause(StrEnum):
    """Why a run stopped before its end."""

    REVIEW = "review"
    CANCELLED = "cancelled"
    ERROR = "error"


@dataclass(frozen=True, kw_only=True)
class RunInterrupted:
    """The run stopped before its end and can be resumed."""

    kind: ClassVar[str] = "run_interrupted"
    cause: StopCause = StopCause.ERROR
    """`review`: a person is asked first; `cancelled`, by Ctrl-C for one; `error`."""
    reason: str = ""
    """Words of the error; empty otherwise."""
    round: int
    best: str | None = None
