"""Everything that a run records, one frozen value an event; `events.jsonl` holds one a line.

A line holds attempts, briefs and hints by id. Fields are only added, with a default; a new meaning
raises `VERSION`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from cuda_llm.outcomes import Passed, component_of
from cuda_llm.search import Attempt, Brief
from cuda_llm.traces.decisions import AgentDecided as AgentDecided
from cuda_llm.traces.decisions import AgentFailed as AgentFailed
from cuda_llm.traces.decisions import GeneratorFailed as GeneratorFailed
from cuda_llm.traces.decisions import HintGiven as HintGiven
from cuda_llm.traces.decisions import HintsTried as HintsTried
from cuda_llm.traces.decisions import ReviewChange as ReviewChange
from cuda_llm.traces.decisions import RoundReviewed as RoundReviewed
from cuda_llm.traces.decisions import Routed as Routed
from cuda_llm.traces.decisions import RunInterrupted as RunInterrupted
from cuda_llm.traces.decisions import StopCause as StopCause

VERSION = 2


@dataclass(frozen=True, kw_only=True)
class RunStarted:
    """The first line of every run."""

    kind: ClassVar[str] = "run_started"
    run_id: str
    task: str
    device: str
    hardware: str
    time_source: str
    generator: str
    """Its name: `llm`, `playbook` ..."""
    model: str = ""
    strategy: str
    candidates: int
    rounds: int
    seed: int
    versions: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    """What the user should know about how this run was set up, e.g. that no model is configured."""
    l2: str = ""
    """What L2 holds when a timed call begins: `cold` or `warm`; empty where times are modelled."""


@dataclass(frozen=True, kw_only=True)
class RunResumed:
    """The run goes on after it was interrupted or killed."""

    kind: ClassVar[str] = "run_resumed"
    round: int


@dataclass(frozen=True, kw_only=True)
class RunForked:
    """The run began as a copy of another up to and with round `round`."""

    kind: ClassVar[str] = "run_forked"
    of: str
    round: int
    edited_hints: bool = False


@dataclass(frozen=True, kw_only=True)
class BaselineJudged:
    """The denominator of every speed-up."""

    kind: ClassVar[str] = "baseline_judged"
    sizes: tuple[Mapping[str, int], ...]
    times_us: tuple[float, ...]
    seconds: float = 0.0
    isolation: str = ""
    """What keeps runners in on this GPU, and what is missing; empty for an emulated device."""


@dataclass(frozen=True, kw_only=True)
class RoundBegan:
    """The strategy has written its briefs."""

    kind: ClassVar[str] = "round_began"
    round: int
    incumbent: str | None
    briefs: tuple[Brief, ...]


@dataclass(frozen=True, kw_only=True)
class ModelCalled:
    """A call to a chat model ended."""

    kind: ClassVar[str] = "model_called"
    call: str
    agent: str
    model: str
    outcome: str
    """`ok`, or the `kind` of a CallFailed."""
    detail: str = ""
    tries: int = 1
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    usd: float | None = None
    estimated: bool = False
    """The server sent no count of its own."""
    lost_tries: int = 0
    """Requests that were cut off, timed out or cancelled: the server may bill them all the same."""
    lost_tokens: int = 0
    """What the lost tries may have used at most; not part of the counts above."""
    lost_usd: float | None = None
    """What the lost tries may have cost at most; None where the price is unknown."""
    seconds: float = 0.0
    replayed: str = ""
    """From a record, of a prompt in the `same` words or in `other` ones; empty: it was asked."""


@dataclass(frozen=True, kw_only=True)
class ModelRetried:
    """A try failed and another follows; `attempt` counts them from 1."""

    kind: ClassVar[str] = "model_retried"
    call: str
    attempt: int
    reason: str
    wait_s: float


@dataclass(frozen=True, kw_only=True)
class StageEntered:
    """A candidate begins a stage: `generate`, `compile`, `validate`, `profile`."""

    kind: ClassVar[str] = "stage_entered"
    candidate: str
    stage: str
    hints: tuple[str, ...] = ()
    """Of `generate`: ids of the hints in the candidate's brief."""


@dataclass(frozen=True, kw_only=True)
class StageLeft:
    """A candidate has left a stage."""

    kind: ClassVar[str] = "stage_left"
    candidate: str
    stage: str
    outcome: str
    """`ok`, or the code of the verdict that ended it."""
    seconds: float


@dataclass(frozen=True, kw_only=True)
class CandidateLate:
    """The minutes of the run ended while the candidate was at this stage: it has no verdict."""

    kind: ClassVar[str] = "candidate_late"
    candidate: str
    stage: str


@dataclass(frozen=True, kw_only=True)
class AttemptJudged:
    """A candidate has its verdict. Written once, when the verdict is there."""

    kind: ClassVar[str] = "attempt_judged"
    attempt: Attempt


@dataclass(frozen=True, kw_only=True)
class AttemptRepeated:
    """An equal kernel of the round stands before it: its own verdict gave way to `DUPLICATE`."""

    kind: ClassVar[str] = "attempt_repeated"
    attempt: Attempt


@dataclass(frozen=True, kw_only=True)
class TunerSearched:
    """The tuner tried other values of a candidate's tunables, each an attempt of its own."""

    kind: ClassVar[str] = "tuner_searched"
    round: int
    parent: str
    tried: tuple[str, ...]
    best: str | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class ContestHeld:
    """A contender and the incumbent were timed in turn on one GPU, before the choice."""

    kind: ClassVar[str] = "contest_held"
    round: int
    number: int = 1
    """Of the contest in its round, from 1."""
    contender: str
    incumbent: str
    outcome: str
    """`faster`, `slower`, `tie`; empty where it came to no end."""
    speedup: float | None = None
    """The incumbent's time over the contender's; None where a fault ended it."""
    speedup_low: float | None = None
    speedup_high: float | None = None
    """Interval of `speedup`, 95 %."""
    fault: str = ""
    """Code of the verdict that being timed brought on one of the two."""
    detail: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class KernelInspected:
    """A kernel was watched by further tools before it became the incumbent."""

    kind: ClassVar[str] = "kernel_inspected"
    round: int
    attempt: str
    code: str
    """Of the verdict it brought; empty where nothing was found."""
    notes: tuple[str, ...] = ()
    """What was watched, and what could not be."""
    not_inspected: str = ""
    """Why sanitizers and large sizes have not looked at it; empty where they have."""
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class IncumbentChosen:
    """The kernel to beat after a round."""

    kind: ClassVar[str] = "incumbent_chosen"
    round: int
    before: str | None
    incumbent: str | None
    reason: str
    verdicts: Mapping[str, str] = field(default_factory=dict)
    """By attempt that passed: why it won or did not."""


@dataclass(frozen=True, kw_only=True)
class WinnerRemeasured:
    """The winner was judged once more, in a fresh process with new inputs."""

    kind: ClassVar[str] = "winner_remeasured"
    attempt: str
    code: str
    speedup: float | None
    times_us: tuple[float, ...] = ()
    detail: str = ""

    @property
    def stands(self) -> bool:
        """Whether it passed again; where our own parts broke, it stands as it was."""
        return self.code == Passed.code or component_of(self.code) is not None


@dataclass(frozen=True, kw_only=True)
class RunFinished:
    """The run has its result."""

    kind: ClassVar[str] = "run_finished"
    reason: str
    """Why it ended: `rounds`, or the reason that the strategy or a budget gave."""
    best: str | None
    speedup: float | None = None
    written_by: str = ""
    seconds: float = 0.0
    """Of this process; a resumed run adds its own."""
    usage: Mapping[str, Any] = field(default_factory=dict)


Record: TypeAlias = "Callable[[Event], None]"
"""Receives events as they happen."""
Event: TypeAlias = (
    RunStarted
    | RunResumed
    | RunForked
    | AgentDecided
    | AgentFailed
    | GeneratorFailed
    | BaselineJudged
    | RoundBegan
    | ModelCalled
    | ModelRetried
    | StageEntered
    | StageLeft
    | CandidateLate
    | AttemptJudged
    | AttemptRepeated
    | TunerSearched
    | HintGiven
    | HintsTried
    | RoundReviewed
    | ContestHeld
    | KernelInspected
    | IncumbentChosen
    | Routed
    | WinnerRemeasured
    | RunFinished
    | RunInterrupted
)
