"""A run in one line for comparisons of many: what was asked, what came of it, and its best so far.

Lines are read from the events and kept until the file of events changes.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cuda_llm.errors import UsageError
from cuda_llm.figure_wording import describe_speedup
from cuda_llm.profile import Objective
from cuda_llm.run_config import RunConfig, flag_of, option_of
from cuda_llm.search import Attempt
from cuda_llm.traces.event_log import SkimmedLine, is_being_written, skim_events
from cuda_llm.traces.events import (
    AttemptJudged,
    AttemptRepeated,
    BaselineJudged,
    Event,
    IncumbentChosen,
    ModelCalled,
    RoundBegan,
    RunFinished,
    RunInterrupted,
    RunResumed,
    RunStarted,
)
from cuda_llm.traces.history import history_of
from cuda_llm.traces.report.candidates import harmless
from cuda_llm.traces.report.rows import drawable_speedup
from cuda_llm.traces.report.timeline import seconds_between
from cuda_llm.traces.run_folder import RunFolder
from cuda_llm.traces.summary import final_speedup, state_of, total_calls

SKIMMED = {
    one.kind
    for one in (
        *(RunStarted, RunResumed, RunFinished, RunInterrupted),
        *(BaselineJudged, ModelCalled, IncumbentChosen),
    )
}
"""Events that are decoded; they name no file."""
OWN_COLUMN = {
    *("task", "device", "generator", "model", "strategy", "seed", "candidates", "rounds"),
    *("out", "run_id", "base_url", "review", "replay", "l2", "objective"),
}
"""Options that are no switch: another column has them, or they decide no kernel."""


@dataclass(frozen=True, kw_only=True)
class CoursePoint:
    """What a run had spent when its best kernel was chosen, and that kernel's speed-up."""

    candidates: int
    """Judged until then."""
    calls: int
    tokens: int
    minutes: float
    """Of work; a pause before a resume does not count."""
    usd: float | None
    """None where the price of a call is unknown."""
    speedup: float | None
    """None before the first kernel that passed."""


@dataclass(frozen=True, kw_only=True)
class RunLine:
    """One run among many."""

    run_id: str
    began_at: str = ""
    task: str = ""
    device: str = ""
    time_source: str = ""
    """`measured` or `modelled`."""
    l2: str = ""
    author: str = ""
    """The generator, with the model that it asks."""
    strategy: str = ""
    seed: int | None = None
    search: str = ""
    """Candidates a round and rounds, `3 x 5`."""
    switches: str = ""
    """Options with another value than the default, as on the command line."""
    state: str = ""
    rounds: int = 0
    planned_rounds: int = 0
    candidates: int = 0
    calls: int = 0
    tokens: int = 0
    usd: float | None = None
    """None where no model was asked, or a price is unknown."""
    minutes: float = 0.0
    best: str | None = None
    speedup: float | None = None
    objective: Objective = "geomean"
    score: str = ""
    """The speed-up in words, `3.40x over all sizes`."""
    sizes: tuple[Mapping[str, int], ...] = ()
    baseline_us: tuple[float, ...] = ()
    times_us: tuple[float, ...] = ()
    """Of the best kernel, size by size."""
    course: tuple[CoursePoint, ...] = field(default=(), repr=False)
    """After each choice, and at the last event."""
    problem: str = ""
    """Why the run cannot be read; all else is empty then."""

    @property
    def panel(self) -> str:
        """Runs with this in common share an axis: task, device, source of times, L2, objective."""
        named = (self.task, self.device, self.time_source, self.l2 and f"L2 {self.l2}")
        over = "" if self.objective == "geomean" else f"score: {self.objective}"
        return " · ".join(filter(None, (*named, over)))

    @property
    def setup(self) -> str:
        """All that was asked for but task, device and seed."""
        parts = (self.author, self.strategy, self.search, self.switches)
        return ", ".join(filter(None, parts))


class RunLines:
    """Lines of runs, each read again only where its file of events has changed."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[tuple[object, ...], RunLine]] = {}
        self._turn = threading.Lock()

    def of(self, run: RunFolder) -> RunLine:
        """Return the line of a run; one that cannot be read says why."""
        try:
            about = run.events.stat()
            stamp: tuple[object, ...] = (
                *(about.st_mtime_ns, about.st_size),
                is_being_written(run.events),
            )
        except OSError:
            stamp = ()
        with self._turn:
            kept = self._kept.get(str(run.path))
        if kept is not None and stamp and kept[0] == stamp:
            return kept[1]
        line = read_line(run)
        with self._turn:
            self._kept[str(run.path)] = stamp, line
        return line


def read_line(run: RunFolder) -> RunLine:
    """Read one run. A run that cannot be read is a line that says so."""
    try:
        return _read(run)
    except (UsageError, OSError, ValueError) as error:
        return RunLine(run_id=harmless(run.name), problem=harmless(str(error)))


def _read(run: RunFolder) -> RunLine:
    about = run.read_run()
    skim = _Skim(run)
    history, started = history_of(skim.events), skim.started
    if started is None:
        return RunLine(run_id=harmless(run.name), state=state_of(run, history))
    best = skim.attempt(history.incumbent)
    speedup = best.speedup if best and history.finished is None else final_speedup(history)
    objective = best.objective if best else "geomean"
    spend, baseline = total_calls(history.calls), history.baseline
    return RunLine(
        run_id=harmless(run.name),
        began_at=skim.began_at,
        task=harmless(started.task),
        device=harmless(started.device),
        time_source=started.time_source,
        l2=started.l2,
        author=harmless(f"{started.generator} {started.model}".strip()),
        strategy=harmless(started.strategy),
        seed=started.seed,
        search=f"{started.candidates} x {started.rounds}",
        switches=harmless(describe_switches(about.get("request"))),
        state=state_of(run, history),
        rounds=skim.rounds,
        planned_rounds=started.rounds,
        candidates=len(skim.judged),
        calls=spend.calls,
        tokens=spend.input_tokens + spend.output_tokens,
        usd=spend.usd,
        minutes=skim.course[-1].minutes,
        best=history.incumbent,
        speedup=speedup,
        objective=objective,
        score=describe_speedup(speedup, objective) if speedup else "",
        sizes=tuple(baseline.sizes) if baseline else (),
        baseline_us=tuple(baseline.times_us) if baseline else (),
        times_us=best.times_us if best else (),
        course=tuple(skim.course),
    )


class _Skim:
    """One pass over the events of a run, without the files of its candidates but the best ones'."""

    def __init__(self, run: RunFolder) -> None:
        self.run = run
        self.events: list[tuple[str, Event]] = []
        self.started: RunStarted | None = None
        self.began_at = ""
        self.rounds = 0
        self.judged: set[str] = set()
        self.course: list[CoursePoint] = []
        """After each choice, and at the last event."""
        self._attempts: dict[str, Attempt | None] = {}
        self._work_s, self._before = 0.0, ""
        self._calls = self._tokens = 0
        self._usd: float | None = 0.0
        self._speedup: float | None = None
        for line in skim_events(run.events) if run.events.exists() else ():
            self._add(line)
        self._keep_point()

    def attempt(self, name: str | None) -> Attempt | None:
        """Return an attempt; None where there is none, or its file is gone."""
        if name is not None and name not in self._attempts:
            try:
                self._attempts[name] = self.run.attempt(name)
            except UsageError:
                self._attempts[name] = None
        return self._attempts.get(name or "")

    def _add(self, line: SkimmedLine) -> None:
        self.began_at = self.began_at or line.at
        if self._before and line.kind != RunResumed.kind:
            self._work_s += max(0.0, seconds_between(self._before, line.at))
        self._before = line.at
        if line.kind in (AttemptJudged.kind, AttemptRepeated.kind):
            self.judged.add(str(line.fields.get("attempt")))
        elif line.kind == RoundBegan.kind and isinstance(line.fields.get("round"), int):
            self.rounds = max(self.rounds, line.fields["round"])
        elif line.kind in SKIMMED:
            try:
                event = line.event()
            except ValueError:
                return
            self.events.append((line.at, event))
            self._count(event)

    def _count(self, event: Event) -> None:
        match event:
            case RunStarted():
                self.started = event
            case ModelCalled() as call:
                self._calls += 1
                self._tokens += call.input_tokens + call.output_tokens
                self._usd = None if self._usd is None or call.usd is None else self._usd + call.usd
            case IncumbentChosen(incumbent=name):
                best = self.attempt(name)
                self._speedup = drawable_speedup(best) if best and best.passed else None
                self._keep_point()
            case _:
                pass

    def _keep_point(self) -> None:
        self.course.append(
            CoursePoint(
                candidates=len(self.judged),
                calls=self._calls,
                tokens=self._tokens,
                minutes=self._work_s / 60,
                usd=self._usd,
                speedup=self._speedup,
            )
        )


def describe_switches(request: Any) -> str:
    """Return the options that differ from their defaults: `--without history --tune 2`."""
    if not isinstance(request, Mapping):
        return ""
    parts = []
    for name, known in RunConfig.model_fields.items():
        value = request.get(name)
        plain = list(known.default) if isinstance(known.default, tuple) else known.default
        if name in OWN_COLUMN or option_of(name).ends_run or value in (None, "", plain, [], {}):
            continue
        if isinstance(value, Mapping):
            value = [f"{key}={one}" for key, one in value.items()]
        each = value if isinstance(value, list) else [value]
        parts += [flag_of(name) if one is True else f"{flag_of(name)} {one}" for one in each]
    return " ".join(parts)
