"""The search as values: briefs, drafts, attempts, duels and hints.

All are plain data, which `cuda_llm.codec` turns into JSON and back. The run's folder holds each
value once; the state of a run holds ids. Sources and whole verdicts are read by an `Archive`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol

from cuda_llm.components import Components
from cuda_llm.outcomes import Duplicate, Passed, PublishedCheck, Verdict, component_of
from cuda_llm.predictions import Prediction, Withdrawal
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
    """A lesson for the next prompts, with its evidence. Never holds hidden test data."""

    id: str = field(default="", compare=False)
    """Id of the hint in its run, which keeps the hint as `hints/<id>.json`: `r1-h2`. Empty before
    the run has written the hint."""
    round: int
    about: str
    """Id of the attempt that the hint is about; empty where the hint concerns all attempts."""
    code: str
    """Code of a verdict or a bottleneck: `WRONG_RESULT`, `bank_conflicts`; `USER` from a person."""
    cause: str = ""
    """Stable name of the cause of `code`: hints with the same code and cause say the same."""
    times: int = 1
    """Number of attempts of the run that showed this cause so far."""
    text: str
    """Remedy with its reason. Holds no fact of the hardware."""
    evidence: str = ""
    """Line of source, figure or message that shows the cause; text from outside, to be quoted as
    data."""
    hardware_text: str = ""
    """Facts of the hardware that belong to `text`; left out unless the hardware context is
    `full`."""
    hardware_evidence: str = ""
    """Facts of the hardware that belong to `evidence`; left out like `hardware_text`."""
    avoid: tuple[str, ...] = ()
    """Changes that cannot help, or were tried without gain."""
    rules_out: tuple[str, ...] = ()
    """Aims of techniques, by `agents.techniques.technique.AIMS`, that `avoid` rules out."""
    change: str = ""
    """The one change that a critique asks for, which `text` holds too; empty in any other hint."""
    refused: str = ""
    """Reason why nobody is ordered to make `change`, in a few words; the hint is then for the next
    critique alone. Empty in any other hint."""
    brings: tuple[str, ...] = ()
    """Techniques that `change` adds, as `agents.techniques.objections.BRINGS` names them."""
    gain: float = 0.0
    """Expected saving of `change`, as a part of the kernel's time, 0 to 1; 0 where not known."""
    by: str = "diagnosis"
    """Author of the hint: `diagnosis`, `critique`, `user` or the name of an agent."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The place of one candidate in its run, and the order that the candidate is made for: the part
    of a brief that its attempt keeps."""

    id: str
    """Id of the candidate: `r2-c3`; of a trial of the tuner `r2-t5`, of the user's own kernel
    `r0-c1`."""
    round: int
    """Round of the candidate, from 1; 0 for the user's own kernel."""
    index: int
    """Place of the candidate within the round, from 1."""
    kind: Kind
    parent: str | None = None
    """Id of the attempt to fix or to improve; of two kernels put together, the attempt for the
    smaller sizes."""
    second: str | None = None
    """Id of the attempt that is shown beside the parent, or put together with the parent."""
    direction: str = ""
    """Technique that this candidate, of all candidates of the round, is ordered to try."""


@dataclass(frozen=True, kw_only=True)
class Brief(Origin):
    """An order to a generator for one candidate."""

    against: str = ""
    """Code of the bottleneck that the direction relieves; empty where none is known."""
    share: float = 0.0
    """Largest saving, 0 to 1: a part of the parent's time over all sizes, as the score combines
    them, or of the baseline's without a parent or with a parent that failed; 0 where not known."""
    sizes: tuple[int, ...] = ()
    """Indices of the timed sizes at which the direction can gain; empty where it can at all, or
    where that is not known."""
    withdrawn: tuple[Withdrawal, ...] = ()
    """Savings that the parent's profile promises and attempts have refuted: no direction names
    them."""
    history: tuple[str, ...] = ()
    """Ids of the attempts that the prompt may describe, oldest first."""
    error_hints: tuple[Hint, ...] = ()
    performance_hints: tuple[Hint, ...] = ()
    components: Components = field(default_factory=Components)
    """Parts that the prompt may hold: allowed by the strategy and by the user."""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A kernel before it is judged."""

    source: str
    """A whole .cu file with `solve`."""
    idea: str = ""
    """Short name for the technique that the kernel tries."""
    tunables: Mapping[str, int] = field(default_factory=dict)
    """Values of the tunables of the generator, by name; empty without tunables."""


@dataclass(frozen=True, kw_only=True)
class Attempt(Origin):
    """A candidate after it was judged, without source and profile, which an `Archive` reads."""

    written_by: Author
    idea: str = ""
    """The generator's short name for the kernel."""
    source_sha: str = ""
    """SHA-256 of the source as written; empty without a source."""
    normal_sha: str = ""
    """SHA-256 of the source without comments and layout: equal for duplicates."""
    tunables: Mapping[str, int] = field(default_factory=dict)
    """Values of the kernel's tunables, by name."""
    code: str
    """Code of the verdict."""
    failure: str = ""
    """`failure_key` of the verdict: equal where two kernels failed in the same way. Empty in older
    records."""
    summary: str = ""
    """The verdict in one line."""
    speedup: float | None = None
    """Score over the timed sizes by `objective`; None unless the kernel passed."""
    objective: Objective = "geomean"
    times_us: tuple[float, ...] = ()
    """Time of the kernel at each timed size, in the order of the task."""
    spread: float = 0.0
    """Largest relative half-width of an interval around a time; modelled, where some blocks stood
    for all."""
    limited_by: str = ""
    """Code of what limits it at the largest timed size (`profile.limiter`); empty if unknown."""
    predicted: Prediction | None = None
    """Saving that the order of the brief predicted; None without a prediction."""
    published_check: PublishedCheck | None = None
    """Result of the check that is published with the task; None where that check was not made."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Wall time by stage: `generate`, `compile`, `validate`, `profile`."""

    @property
    def passed(self) -> bool:
        """Whether the kernel is correct in every check that was made."""
        return self.code == Passed.code

    @property
    def infra_failed(self) -> bool:
        """Whether a part of cuda-llm broke, which says nothing about the kernel."""
        return component_of(self.code) is not None

    @property
    def is_about_its_kernel(self) -> bool:
        """Whether the verdict is about this kernel: the kernel was judged and repeats no other
        kernel."""
        return not self.infra_failed and self.code != Duplicate.code


def predictions_of(attempts: Iterable[Attempt]) -> tuple[Prediction, ...]:
    """Return the predictions of the attempts that have a prediction."""
    return tuple(one.predicted for one in attempts if one.predicted is not None)


@dataclass(frozen=True, kw_only=True)
class DuelResult:
    """Two kernels timed in turn on one GPU, the first of them to become the incumbent."""

    contender: str
    """Id of an attempt."""
    incumbent: str
    """Id of the attempt that the contender was timed against."""
    outcome: Outcome
    """Outcome for the contender, beyond the noise of this measurement."""
    speedup: float
    """Time of the incumbent over time of the contender."""
    speedup_low: float
    speedup_high: float
    """Interval of `speedup`, 95 %."""


class Archive(Protocol):
    """Reads the sources and the whole verdicts of attempts."""

    def source(self, attempt: str) -> str:
        """Return the source of the attempt with that id; empty where the attempt has none."""
        ...

    def verdict(self, attempt: str) -> Verdict:
        """Return the verdict of the attempt with that id; a Passed with the kernel's profile."""
        ...
