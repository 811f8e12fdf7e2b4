"""What a run looks like at this moment, kept up by its events. Plain values; views show them."""

import time
from dataclasses import dataclass, field

from cuda_llm.search import Attempt
from cuda_llm.traces.events import (
    AttemptJudged,
    BaselineJudged,
    CandidateLate,
    ContestHeld,
    Event,
    IncumbentChosen,
    ModelCalled,
    RoundBegan,
    RunStarted,
    StageEntered,
    StageLeft,
    WinnerRemeasured,
)
from cuda_llm.traces.figures import tokens, us
from cuda_llm.wording import printable

WORDS = {
    "generate": "generating",
    "compile": "compiling",
    "validate": "validating",
    "profile": "profiling",
}


@dataclass
class Board:
    """The state of a run, kept up by calling it with each event."""

    rounds: int = 0
    round: int = 0
    doing: str = "starting"
    """What the run does while no candidate is at work."""
    rows: dict[str, str] = field(default_factory=dict)
    """This round's candidates and where each of them is."""
    attempts: dict[str, Attempt] = field(default_factory=dict)
    best: Attempt | None = None
    tokens: int = 0
    usd: float | None = 0.0
    """None as soon as one price is unknown."""
    calls: int = 0
    started_s: float = field(default_factory=time.monotonic)

    def __call__(self, event: Event) -> None:
        """Update the state by one event."""
        match event:
            case RunStarted(rounds=rounds):
                self.rounds = rounds
                self.doing = "timing the baseline"
            case BaselineJudged():
                self.doing = "writing briefs"
            case RoundBegan(round=number, briefs=briefs, late=late):
                self.round = number
                self.rows = {name: "late" for name in late}
                self.rows |= {brief.id: "waiting" for brief in briefs}
            case StageEntered(candidate=name, stage=stage):
                self.rows[name] = WORDS.get(stage, stage)
            case StageLeft(candidate=name, outcome=outcome) if outcome not in {"ok", "PASSED"}:
                self.rows[name] = outcome
            case CandidateLate(candidate=name):
                self.rows[name] = "late, joins the next round"
            case AttemptJudged(attempt=attempt):
                self.attempts[attempt.id] = attempt
                self.rows[attempt.id] = result(attempt)
            case ContestHeld(contender=name, incumbent=before):
                self.rows[name] = f"timed beside {before}"
            case IncumbentChosen(incumbent=incumbent):
                self.best = self.attempts.get(incumbent or "", self.best)
            case ModelCalled():
                self.count(event)
            case WinnerRemeasured():
                self.doing = "finishing"
            case _:
                pass

    def count(self, event: ModelCalled) -> None:
        """Add what one call cost."""
        self.calls += 1
        self.tokens += event.input_tokens + event.output_tokens
        unknown = self.usd is None or (event.usd is None and event.outcome == "ok")
        self.usd = None if unknown else (self.usd or 0.0) + (event.usd or 0.0)

    @property
    def headline(self) -> str:
        """Round, best so far and spend, in one line."""
        where = f"round {self.round}/{self.rounds}" if self.round else self.doing
        return f"{where}  {best(self.best)}  spent {self.spent}"

    @property
    def spent(self) -> str:
        """Tokens and money where a model was asked, and time."""
        parts = []
        if self.calls:
            money = "price unknown" if self.usd is None else f"${self.usd:.2f}"
            parts += [f"{tokens(self.tokens)} tokens", money]
        return ", ".join([*parts, duration(time.monotonic() - self.started_s)])


def best(attempt: Attempt | None) -> str:
    """Describe the fastest kernel so far beside the baseline."""
    if attempt is None or not attempt.times_us:
        return "no kernel has passed yet"
    return f"best {times(attempt)} = {attempt.speedup or 0:.2f}x baseline ({attempt.id})"


def result(attempt: Attempt) -> str:
    """Describe a candidate's outcome in a few words."""
    if not attempt.passed:
        return attempt.code
    return f"{times(attempt)}, {attempt.speedup or 0:.2f}x"


def times(attempt: Attempt) -> str:
    """Return the time at the largest size, with its unit."""
    return us(attempt.times_us[-1])


def duration(seconds: float) -> str:
    """Spell seconds: `12 s`, `2 min 10 s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def told(attempt: Attempt) -> str:
    """Describe a candidate in one line of a log."""
    what = attempt.idea or attempt.direction or str(attempt.kind)
    why = "" if attempt.passed or not attempt.summary else f": {attempt.summary}"
    return printable(f"{attempt.id}  {result(attempt)}{why}  ({what})")
