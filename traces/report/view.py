"""What a report shows of a run, as plain values. Python computes every figure; the page draws them.

`RunView` is what the page needs at once; `CandidateView` and the texts it names are unpacked when a
person looks at one. Times are in seconds of work from the first event: pauses between an end and a
resume are left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cuda_llm.outcomes import Passed
from cuda_llm.profile import Objective

VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Row:
    """One candidate in a line: a row of the table, a dot of the plots, a node of the tree."""

    id: str
    round: int
    kind: str
    """Of its brief; empty where that is lost."""
    parent: str | None
    idea: str
    direction: str
    written_by: str
    code: str
    """Of its verdict; empty where it is not judged."""
    summary: str
    speedup: float | None
    objective: Objective
    """How its sizes make `speedup`."""
    times_us: tuple[float, ...]
    versus_parent: float | None
    """Its speed-up over its parent's; None unless both passed."""
    limited_by: str
    predicted_us: float | None
    """What its order should have saved at the largest size."""
    had_us: float | None
    evaluation: int
    """From 1, in the order in which candidates were done."""
    done_s: float | None
    """When its last stage ended."""
    usd: float
    """Spent by the whole run until then, as far as prices are known."""
    tokens: int
    """The same of tokens, in and out."""
    own_usd: float | None
    own_tokens: int
    seconds: Mapping[str, float]
    state: str
    """What a candidate without a verdict is at, in words."""
    outcome: str
    """What the choice after its round said of it: `won`, `tie` ..."""

    @property
    def passed(self) -> bool:
        """Whether it is correct in every check that was made."""
        return self.code == Passed.code

    @property
    def failed(self) -> bool:
        """Whether it was judged, and did not pass."""
        return self.code not in {"", Passed.code}


@dataclass(frozen=True, kw_only=True)
class Step:
    """The kernel to beat changed, or was kept, after a round."""

    round: int
    evaluation: int
    done_s: float
    usd: float
    tokens: int
    candidate: str | None
    speedup: float | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class TimelineSpan:
    """Something that took time."""

    lane: str
    """`model`, `generator`, `compiler`, `device`, `contests`, `waiting`."""
    what: str
    candidate: str
    start_s: float
    end_s: float
    outcome: str = ""
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Share:
    """Where time went: one line of the breakdown."""

    name: str
    busy_s: float
    """Summed over all that ran at once."""
    wall_s: float
    """Of the clock on the wall, in which at least one of it ran."""
    share: float
    """`wall_s` of the whole."""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class RoundTime:
    """Where the time of one round went; 0 is what came before the first."""

    round: int
    wall_s: float
    lanes_s: Mapping[str, float]
    """By lane: time of the clock on the wall in which it was at work."""
    own_s: float
    """In which none was: the search itself."""


@dataclass(frozen=True, kw_only=True)
class Spend:
    """What one agent's calls cost in one round."""

    round: int
    agent: str
    calls: int
    failed: int
    input_tokens: int
    output_tokens: int
    usd: float | None
    lost_usd: float | None
    seconds: float


@dataclass(frozen=True, kw_only=True)
class CallView:
    """One call to a model; its texts lie under `<call>/prompt` and `<call>/reply`."""

    call: str
    round: int
    agent: str
    model: str
    outcome: str
    detail: str
    tries: int
    tokens: str
    usd: float | None
    seconds: float


@dataclass(frozen=True, kw_only=True)
class RoundView:
    """One round: what was chosen and why."""

    round: int
    before: str | None
    incumbent: str | None
    reason: str
    facts: tuple[tuple[str, str, str], ...]
    """Label, id of what it is about or nothing, text: duels, agents, tuner, late candidates."""
    candidates: tuple[str, ...]
    hints: tuple[str, ...]
    tracebacks: tuple[tuple[str, str, str], ...]
    """Of parts that raised: the part, id of the candidate or nothing, the traceback whole."""


@dataclass(frozen=True, kw_only=True)
class HintView:
    """One hint, and the candidates whose brief held the hint."""

    id: str
    channel: str
    round: int
    about: str
    code: str
    cause: str
    by: str
    times: int
    text: str
    evidence: str
    hardware_text: str
    avoid: tuple[str, ...]
    gain: float
    receivers: tuple[str, ...]
    """Ids of the candidates whose brief held the hint."""


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """What no kernel of this task can beat at one timed size."""

    label: str
    flops: float
    bytes: float
    time_us: float
    """At published peaks."""
    attainable_us: float
    """At the bandwidth that a large copy reaches, with one launch."""
    bound: str


@dataclass(frozen=True, kw_only=True)
class RooflinePlot:
    """Peaks of the GPU, and the task's ceiling at each size."""

    hardware: str
    gflops: float
    gb_s: float
    precision: str
    ceilings: tuple[Ceiling, ...]


@dataclass(frozen=True, kw_only=True)
class RunView:
    """A run, without the texts of its candidates."""

    version: int = VERSION
    run_id: str
    spelled: str
    """What commands find it by from where the page was written, quoted for a shell."""
    state: str
    state_text: str
    live: bool
    """Whether the page loads itself again, because it is written anew meanwhile."""
    home: str
    """Address of the list of runs; empty in a file."""
    facts: tuple[tuple[str, str], ...]
    """What was asked for, as labels and texts."""
    task: str
    device: str
    time_source: str
    model: str
    result: str
    best: str | None
    speedup: float | None
    """As remeasured at the end where that was done."""
    baseline: tuple[tuple[str, float], ...]
    missing: tuple[str, ...]
    """What could not be read."""
    rows: tuple[Row, ...]
    steps: tuple[Step, ...]
    spans: tuple[TimelineSpan, ...]
    shares: tuple[Share, ...]
    wall_s: float
    round_starts: tuple[tuple[int, float], ...]
    round_times: tuple[RoundTime, ...]
    spends: tuple[Spend, ...]
    calls: tuple[CallView, ...]
    rounds: tuple[RoundView, ...]
    hints: tuple[HintView, ...]
    records: tuple[tuple[str, str, str, str, str], ...]
    """Of each kind of diagnosis: code, times tried, predicted, had, came true."""
    roofline: RooflinePlot | None
    roofline_note: str
    """Why there is none."""
    comparable: str
    """Runs are drawn on one axis where this is equal: task, device and source of times."""
    settings: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class CandidateView:
    """All of one candidate that is not in its row. `texts` names what its panes show."""

    id: str
    order: str
    hints: tuple[tuple[str, str, str], ...]
    """Id, code and text of each hint in its brief."""
    history: tuple[str, ...]
    answer: str
    verdict: tuple[str, ...]
    checked: str
    times: tuple[Mapping[str, Any], ...] = ()
    profile: Mapping[str, Any] | None = None
    texts: Mapping[str, str] = field(default_factory=dict)
    """By `prompt`, `reply`, `source`, `log`."""
