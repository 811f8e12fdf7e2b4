"""When what was at work: spans in lanes, waiting between them, and where the time went.

All of it is derived from the events. A stage has a beginning and an end; a call, a contest and a
look at a kernel are recorded when they end, with their seconds.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from cuda_llm.traces.event_log import Recorded
from cuda_llm.traces.events import (
    AttemptJudged,
    BaselineJudged,
    ContestHeld,
    KernelInspected,
    ModelCalled,
    RoundBegan,
    RunResumed,
    StageEntered,
    StageLeft,
    WinnerRemeasured,
)
from cuda_llm.traces.report.view import RoundTime, Share, TimelineSpan

LANES = {"generate": "generator", "compile": "compiler", "validate": "device", "profile": "device"}
"""By stage."""
WORK = ("model", "generator", "compiler", "device", "contests")
"""Lanes in which something is done."""
LEAST_WAIT_S = 0.02
"""Shorter gaps are the steps of the graph, not waiting."""


@dataclass(kw_only=True)
class Timeline:
    """What a run spent its time on."""

    at_s: list[float] = field(default_factory=list)
    """Seconds of work until each event."""
    spans: list[TimelineSpan] = field(default_factory=list)
    round_starts: list[tuple[int, float]] = field(default_factory=list)
    ready_s: dict[str, float] = field(default_factory=dict)
    """When each candidate had left its last stage, or was judged where it had none."""

    @property
    def wall_s(self) -> float:
        """Seconds of work until the last event."""
        return self.at_s[-1] if self.at_s else 0.0


def work_seconds(events: Sequence[Recorded]) -> list[float]:
    """Return the seconds of work until each event: a pause before a resume does not count."""
    seconds, before = 0.0, ""
    found = []
    for one in events:
        if before and not isinstance(one.event, RunResumed):
            seconds += max(0.0, seconds_between(before, one.at))
        before = one.at
        found.append(seconds)
    return found


def seconds_between(before: str, after: str) -> float:
    """Return the seconds from one time of an event to another, UTC where they name no zone."""
    start, end = (datetime.fromisoformat(one) for one in (before, after))
    start, end = (one if one.tzinfo else one.replace(tzinfo=UTC) for one in (start, end))
    return (end - start).total_seconds()


def draw_timeline(events: Sequence[Recorded]) -> Timeline:
    """Return the spans of a run, in order of their ends."""
    line = Timeline(at_s=work_seconds(events))
    asks_models = any(isinstance(one.event, ModelCalled) for one in events)
    entered: dict[tuple[str, str], float] = {}
    free_since: dict[str, float] = {}
    """When a candidate had left a stage, or its round had begun, and waits for the next."""
    for index, (at_s, one) in enumerate(zip(line.at_s, events, strict=True)):
        match one.event:
            case RoundBegan(round=number, briefs=briefs):
                line.round_starts.append((number, at_s))
                free_since |= {brief.id: at_s for brief in briefs}
            case StageEntered(candidate=name, stage=stage):
                entered[name, stage] = at_s
                began = free_since.pop(name, at_s)
                _wait(line, name, f"before {stage}", began, at_s)
            case StageLeft(candidate=name, stage=stage, outcome=outcome, seconds=seconds):
                free_since[name] = line.ready_s[name] = at_s
                began = max(entered.pop((name, stage), 0.0), at_s - seconds)
                if not (asks_models and stage == "generate"):
                    lane = LANES.get(stage, "generator")
                    line.spans.append(_span(lane, stage, name, began, at_s, outcome))
            case ModelCalled(seconds=seconds):
                line.spans.append(_call(one.event, at_s - seconds, at_s))
            case ContestHeld(contender=name, incumbent=other, outcome=outcome, seconds=seconds):
                what = f"{name} against {other}"
                line.spans.append(
                    _span("contests", what, name, at_s - seconds, at_s, outcome or one.event.fault)
                )
            case KernelInspected(attempt=name, seconds=seconds):
                line.spans.append(_span("device", "inspect", name, at_s - seconds, at_s))
            case BaselineJudged(seconds=seconds):
                line.spans.append(_span("device", "baseline", "", at_s - seconds, at_s))
            case WinnerRemeasured(attempt=name, code=code):
                # Its seconds are not recorded: nothing else happens since the event before.
                began = line.at_s[index - 1] if index else at_s
                line.spans.append(_span("device", "last check", name, began, at_s, code))
            case AttemptJudged(attempt=attempt):
                line.ready_s.setdefault(attempt.id, at_s)
                free_since.pop(attempt.id, None)
            case _:
                pass
    for (name, stage), at_s in entered.items():
        lane = "model" if asks_models and stage == "generate" else LANES.get(stage, "generator")
        line.spans.append(_span(lane, stage, name, at_s, line.wall_s, "not ended"))
    return line


def _span(
    lane: str, what: str, candidate: str, start_s: float, end_s: float, outcome: str = ""
) -> TimelineSpan:
    start_s = min(max(0.0, start_s), end_s)
    return TimelineSpan(
        lane=lane, what=what, candidate=candidate, start_s=start_s, end_s=end_s, outcome=outcome
    )


def _call(call: ModelCalled, start_s: float, end_s: float) -> TimelineSpan:
    parts = call.call.split("/")
    return TimelineSpan(
        lane="model",
        what=f"{call.agent}: {call.model}",
        candidate=parts[1] if parts[0] == "candidates" and len(parts) > 1 else "",
        start_s=max(0.0, start_s),
        end_s=end_s,
        outcome=call.outcome,
        detail=f"{call.tries} tries" if call.tries > 1 else "",
    )


def _wait(line: Timeline, name: str, what: str, start_s: float, end_s: float) -> None:
    if end_s - start_s >= LEAST_WAIT_S:
        line.spans.append(_span("waiting", what, name, start_s, end_s))


def break_down(line: Timeline, process_s: float | None) -> Iterator[Share]:
    """Yield where the time went: each kind of work, and what is left to the search itself.

    `process_s` is what the run's one process took in all, where that is known.
    """
    wall_s = line.wall_s
    work = [one for one in line.spans if one.lane != "waiting"]
    for lane in WORK:
        spans = [one for one in work if one.lane == lane]
        if spans:
            yield _share(lane, spans, wall_s)
    covered = _covered(work)
    own = max(0.0, wall_s - covered)
    yield Share(
        name="search itself",
        busy_s=own,
        wall_s=own,
        share=own / wall_s if wall_s else 0.0,
        note="none of the above was at work: strategy, state, reflection, checkpoints",
    )
    if process_s is not None and process_s > wall_s:
        yield Share(
            name="before the first event",
            busy_s=process_s - wall_s,
            wall_s=process_s - wall_s,
            share=0.0,
            note="start of the program, the device and the native parts; not part of the whole",
        )
    waits = [one for one in line.spans if one.lane == "waiting"]
    if waits:
        yield _share("candidates waiting", waits, wall_s, "between two stages, for a free slot")


def break_down_rounds(line: Timeline) -> Iterator[RoundTime]:
    """Yield the same of each round, and first of what came before them."""
    starts = [(0, 0.0), *line.round_starts]
    ends = [start_s for _, start_s in starts[1:]] + [line.wall_s]
    for (number, start_s), end_s in zip(starts, ends, strict=True):
        inside = [
            replace(one, start_s=max(one.start_s, start_s), end_s=min(one.end_s, end_s))
            for one in line.spans
            if one.lane != "waiting" and one.start_s < end_s and one.end_s > start_s
        ]
        yield RoundTime(
            round=number,
            wall_s=end_s - start_s,
            lanes_s={lane: _covered(one for one in inside if one.lane == lane) for lane in WORK},
            own_s=max(0.0, end_s - start_s - _covered(inside)),
        )


def _share(name: str, spans: Sequence[TimelineSpan], wall_s: float, note: str = "") -> Share:
    covered = _covered(spans)
    return Share(
        name=name,
        busy_s=sum(one.end_s - one.start_s for one in spans),
        wall_s=covered,
        share=covered / wall_s if wall_s else 0.0,
        note=note,
    )


def _covered(spans: Iterable[TimelineSpan]) -> float:
    """Return the seconds in which at least one of them ran."""
    total, end = 0.0, 0.0
    for one in sorted(spans, key=lambda span: span.start_s):
        total += max(0.0, one.end_s - max(one.start_s, end))
        end = max(end, one.end_s)
    return total
