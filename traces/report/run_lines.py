"""A run in one line for comparisons of many: what was asked, what came of it, and its best so far.

Lines are read from the events and kept until the file of events changes.
"""

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cuda_llm.errors import UsageError
from cuda_llm.figure_wording import describe_speedup
from cuda_llm.outcomes import Passed
from cuda_llm.profile import Objective
from cuda_llm.run_config import RunConfig, flag_of, option_of
from cuda_llm.traces.event_log import Trace, is_being_written
from cuda_llm.traces.events import AttemptJudged, IncumbentChosen, ModelCalled
from cuda_llm.traces.history import RunHistory, read_history
from cuda_llm.traces.report.candidates import harmless
from cuda_llm.traces.report.rows import drawable_speedup
from cuda_llm.traces.report.timeline import work_seconds
from cuda_llm.traces.run_folder import RunFolder
from cuda_llm.traces.summary import final_speedup, state_of, total_calls

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
        about = run.read_run()
        history, trace = read_history(run)
    except (UsageError, OSError, ValueError) as error:
        return RunLine(run_id=harmless(run.name), problem=harmless(str(error)))
    started, spend = history.started, total_calls(history.calls)
    if started is None:
        return RunLine(run_id=harmless(run.name), state=state_of(run, history))
    best = history.attempts.get(history.incumbent or "")
    course = tuple(_course(history, trace))
    speedup = final_speedup(history)
    objective = best.objective if best else "geomean"
    baseline = history.baseline
    return RunLine(
        run_id=harmless(run.name),
        began_at=history.began_at,
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
        rounds=max(history.rounds, default=0),
        planned_rounds=started.rounds,
        candidates=len(history.attempts),
        calls=spend.calls,
        tokens=spend.input_tokens + spend.output_tokens,
        usd=spend.usd,
        minutes=course[-1].minutes if course else 0.0,
        best=history.incumbent,
        speedup=speedup,
        objective=objective,
        score=describe_speedup(speedup, objective) if speedup else "",
        sizes=tuple(baseline.sizes) if baseline else (),
        baseline_us=tuple(baseline.times_us) if baseline else (),
        times_us=best.times_us if best else (),
        course=course,
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


def _course(history: RunHistory, trace: Trace) -> Iterator[CoursePoint]:
    """Yield the course of the best, from the events in their order."""
    judged: dict[str, None] = {}
    calls, tokens, speedup = 0, 0, None
    usd: float | None = 0.0
    at_s = 0.0
    for second, one in zip(work_seconds(trace.events), trace.events, strict=True):
        at_s = second
        match one.event:
            case AttemptJudged(attempt=attempt):
                judged[attempt.id] = None
                continue
            case ModelCalled() as call:
                calls, tokens = calls + 1, tokens + call.input_tokens + call.output_tokens
                usd = None if usd is None or call.usd is None else usd + call.usd
                continue
            case IncumbentChosen(incumbent=name):
                best = history.attempts.get(name or "")
                passed = best is not None and best.code == Passed.code
                speedup = drawable_speedup(best) if passed else None
            case _:
                continue
        yield CoursePoint(
            candidates=len(judged),
            calls=calls,
            tokens=tokens,
            minutes=at_s / 60,
            usd=usd,
            speedup=speedup,
        )
    yield CoursePoint(
        candidates=len(judged),
        calls=calls,
        tokens=tokens,
        minutes=at_s / 60,
        usd=usd,
        speedup=speedup,
    )
