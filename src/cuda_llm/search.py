"""The search as values: what a generator is told to try, what became of it, what was learned.

All of them are plain data: `cuda_llm.codec` turns them into JSON and back. Each lies once in the
run's folder; the state of a run and its events name them by id. What is large (sources, full
verdicts) is read through an `Archive`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol

from cuda_llm.components import Components
from cuda_llm.outcomes import Duplicate, Passed, PublishedCheck, Verdict, component_of
from cuda_llm.predictions import Prediction
from cuda_llm.profile import Objective, Outcome

Author = Literal["model", "playbook", "human"]


class Kind(StrEnum):
    """What a brief asks for."""

    FIRST = "first"
    """A kernel from nothing but the task."""
    FIX = "fix"
    """The parent failed: make it right."""
    IMPROVE = "improve"
    """The parent passed: make it faster."""
    DEPART = "depart"
    """The parent passed: beat it with another structure, on purpose."""
    TUNE = "tune"
    """The parent with other values of its tunables; the tuner's, no generator is asked."""
    COMPOSE = "compose"
    """Two kernels behind one `solve` that chooses by size; no generator is asked."""
    START = "start"
    """A kernel that the user brought."""


@dataclass(frozen=True, kw_only=True)
class Hint:
    """Something learned, with its evidence. Never holds hidden test data."""

    id: str = field(default="", compare=False)
    """Given by the run that keeps it, as `hints/<id>.json`: `r1-h2`. Empty before that."""
    round: int
    about: str
    """Id of the attempt it was learned from; empty when it concerns all."""
    code: str
    """Of a verdict or a bottleneck: `WRONG_RESULT`, `bank_conflicts`; `USER` from a person."""
    cause: str = ""
    """Stable name of what lies behind `code`: hints of one code and cause tell the same thing."""
    times: int = 1
    """How many attempts of the run it was learned from so far."""
    text: str
    """What to do and why. Holds no fact of the hardware."""
    evidence: str = ""
    """What was seen: a line, a figure, a message; text from outside, to be quoted as data."""
    hardware_text: str = ""
    """What the hardware adds to `text`; left out unless the hardware context is `full`."""
    hardware_evidence: str = ""
    """What of `evidence` names the hardware; left out like `hardware_text`."""
    avoid: tuple[str, ...] = ()
    """What cannot help, or was tried in vain."""
    rules_out: tuple[str, ...] = ()
    """Aims of techniques, by `agents.techniques.technique.AIMS`, that `avoid` speaks against."""
    change: str = ""
    """The one change that a critique asks for, which `text` holds too; empty in any other hint."""
    brings: tuple[str, ...] = ()
    """What `change` brings, as `agents.techniques.objections.BRINGS` names it."""
    gain: float = 0.0
    """Part of the time, 0 to 1, that `change` is expected to save; 0 where nothing was said."""
    by: str = "diagnosis"
    """`diagnosis`, `critique`, `user` or the name of an agent."""


@dataclass(frozen=True, kw_only=True)
class Brief:
    """One order to a generator: one candidate."""

    id: str
    """Of the attempt it becomes: `r2-c3`; the tuner's are `r2-t5`, the user's own `r0-c1`."""
    round: int
    """From 1; 0 for what the user brought."""
    index: int
    """Within the round, from 1."""
    kind: Kind
    parent: str | None = None
    """Attempt to fix or to improve; of two put together, that for the smaller sizes."""
    second: str | None = None
    """Another attempt that is shown beside the parent, or put together with it."""
    direction: str = ""
    """What this one, of all of its round, is told to try."""
    against: str = ""
    """Code of the bottleneck that the direction relieves; empty where none is known."""
    share: float = 0.0
    """Part of the parent's time, without one or to fix it of the baseline's, 0 to 1, that can be
    saved at most; 0 where that is not known."""
    history: tuple[str, ...] = ()
    """Attempts to tell of, oldest first."""
    error_hints: tuple[Hint, ...] = ()
    performance_hints: tuple[Hint, ...] = ()
    components: Components = field(default_factory=Components)
    """What its prompt may hold: the strategy's choice and the user's together."""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A kernel nobody has judged yet."""

    source: str
    """A whole .cu file with `solve`."""
    idea: str = ""
    """A short name for what it tries."""
    tunables: Mapping[str, int] = field(default_factory=dict)
    """Values of the tunables it was made with, where it was made from any."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One candidate after it was judged, in one line. The state of a run names it by its id."""

    id: str
    round: int
    index: int
    kind: Kind
    parent: str | None = None
    second: str | None = None
    direction: str = ""
    written_by: Author
    idea: str = ""
    """The generator's own short name for it."""
    source_sha: str = ""
    """Of the source as written; empty where there is none."""
    normal_sha: str = ""
    """Of the source without comments and layout: equal for duplicates."""
    tunables: Mapping[str, int] = field(default_factory=dict)
    """Values its tunables have."""
    code: str
    """Of its verdict."""
    failure: str = ""
    """`failure_key` of its verdict: equal where the same went wrong. Empty in older records."""
    summary: str = ""
    """The verdict in one line."""
    speedup: float | None = None
    """The one score over the timed sizes; None unless it passed."""
    objective: Objective = "geomean"
    times_us: tuple[float, ...] = ()
    """One a timed size, in the order of the task."""
    spread: float = 0.0
    """Largest relative half-width of an interval around a time; 0 where times are modelled."""
    limited_by: str = ""
    """Code of the dominating bottleneck."""
    predicted: Prediction | None = None
    """What its order should have saved; None without one, and in older records."""
    published_check: PublishedCheck | None = None
    """Of the task's published check; None where nobody asked."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Wall time by stage: `generate`, `compile`, `validate`, `profile`."""

    @property
    def passed(self) -> bool:
        """Whether it is correct in every check that was made."""
        return self.code == Passed.code

    @property
    def infra_failed(self) -> bool:
        """Whether our own parts broke, which is not held against its kernel."""
        return component_of(self.code) is not None

    @property
    def is_about_its_kernel(self) -> bool:
        """Whether the verdict tells of this kernel: it was judged, and repeats no other."""
        return not self.infra_failed and self.code != Duplicate.code


def predictions_of(attempts: Iterable[Attempt]) -> tuple[Prediction, ...]:
    """Return what their orders should have saved, of those that had a prediction."""
    return tuple(one.predicted for one in attempts if one.predicted is not None)


@dataclass(frozen=True, kw_only=True)
class DuelResult:
    """Two kernels timed in turn on one GPU, the first of them to become the incumbent."""

    contender: str
    """Id of an attempt."""
    incumbent: str
    """Id of the attempt it was timed against."""
    outcome: Outcome
    """Of the contender, beyond the noise of this measurement."""
    speedup: float
    """The incumbent's time over the contender's."""
    speedup_low: float
    speedup_high: float
    """Interval of `speedup`, 95 %."""


class Archive(Protocol):
    """Where the large parts of attempts are read."""

    def source(self, attempt: str) -> str:
        """Return its source; empty where it has none."""
        ...

    def verdict(self, attempt: str) -> Verdict:
        """Return its verdict, whole, with the profile of a kernel that passed."""
        ...
