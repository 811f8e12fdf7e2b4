"""A run read from its folder, damaged or not, as the values that a report shows."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from cuda_llm.figure_wording import SCORES, describe_no_gain, describe_over, name_sizes
from cuda_llm.predictions import tally
from cuda_llm.search import Attempt, Brief, predictions_of
from cuda_llm.traces.ending_text import CHECK, describe_check, describe_no_winner
from cuda_llm.traces.event_log import Trace
from cuda_llm.traces.events import ModelCalled
from cuda_llm.traces.find import spell_run
from cuda_llm.traces.history import RoundHistory, RunHistory, read_history
from cuda_llm.traces.report.candidates import CandidateReader, harmless, view_candidate
from cuda_llm.traces.report.roofline import find_roofline
from cuda_llm.traces.report.rows import BestSoFar, rows_of, spends_of
from cuda_llm.traces.report.timeline import break_down, break_down_rounds, draw_timeline
from cuda_llm.traces.report.view import CallView, CandidateView, HintView, RoundView, RunView
from cuda_llm.traces.run_folder import RunFolder
from cuda_llm.traces.run_text import describe_duel
from cuda_llm.traces.summary import final_speedup, state_of, total_calls
from cuda_llm.traces.text import (
    clock,
    describe_call_totals,
    describe_end,
    describe_hints_tried,
    describe_inspection,
    describe_review,
    describe_route,
    describe_skipped,
    describe_stop,
    describe_time_source,
    list_names,
    plural,
    tokens,
    us,
)

T = TypeVar("T")
STATES = {"running": "under way", "killed": "killed", "interrupted": "stopped", "empty": "empty"}


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """A run for a report: what the page needs at once, and what it unpacks."""

    run: RunView
    candidates: tuple[CandidateView, ...]
    texts: Mapping[str, str]


def gather(folder: RunFolder, *, live: bool = False, home: str = "") -> Gathered:
    """Return all that can be read of a run; what cannot is named in `missing`."""
    reader = CandidateReader(folder)
    run, history, briefs, attempts = view_run(reader)
    views = tuple(
        view_candidate(reader, row.id, briefs.get(row.id), attempts.get(row.id), history.generator)
        for row in run.rows
    )
    for one in run.calls:
        for pane in ("prompt", "reply"):
            if f"{one.call}/{pane}" not in reader.texts:
                reader.keep_text(f"{one.call}/{pane}", f"{one.call}/{pane}.md")
    missing = dict.fromkeys((*run.missing, *map(harmless, reader.missing)))
    live = live and run.state == "running"
    run = replace(run, live=live, home=home, missing=tuple(missing))
    return Gathered(run=run, candidates=views, texts=reader.texts)


def view_run(
    reader: CandidateReader,
) -> tuple[RunView, RunHistory, Mapping[str, Brief], Mapping[str, Attempt]]:
    """Return a run without what lies in the files of its candidates, and what that was made of."""
    folder = reader.run
    about = reader.read(folder.read_run) or {}
    history, trace = reader.read(lambda: read_history(folder)) or (RunHistory(), Trace())
    attempts, briefs = _attempts(reader, history), _briefs(reader, history)
    line = draw_timeline(trace.events)
    progress = BestSoFar(trace.events, line)
    rows = tuple(rows_of(history, attempts, briefs, progress, reader))
    started, state = history.started, state_of(folder, history)
    baseline = history.baseline
    labels = name_sizes(baseline.sizes) if baseline else ()
    task = str((about.get("request") or {}).get("task") or (started.task if started else ""))
    roof, roof_note = find_roofline(
        task, started.hardware if started else "", baseline.sizes if baseline else (), labels
    )
    process_s = None
    if history.finished is not None and not history.resumed:
        process_s = history.finished.seconds
    best = history.incumbent
    view = RunView(
        run_id=folder.name,
        spelled=spell_run(folder),
        state=state,
        state_text=_state_text(history, state),
        live=False,
        home="",
        facts=tuple((label, harmless(text)) for label, text in _facts(history)),
        task=started.task if started else task,
        device=started.device if started else "",
        time_source=started.time_source if started else "",
        model=started.model if started else "",
        result=_result(history, attempts, state),
        best=best,
        speedup=final_speedup(history),
        baseline=tuple(zip(labels, baseline.times_us, strict=False)) if baseline else (),
        missing=(
            *describe_skipped(trace.torn, trace.unknown),
            *(harmless(one) for one in reader.missing),
        ),
        rows=rows,
        steps=tuple(progress.steps(attempts)),
        spans=tuple(line.spans),
        shares=tuple(break_down(line, process_s)),
        wall_s=line.wall_s,
        round_starts=tuple(line.round_starts),
        round_times=tuple(break_down_rounds(line)),
        spends=tuple(spends_of(history)),
        calls=tuple(_calls(history)),
        rounds=tuple(_round(one) for one in history.rounds.values()),
        hints=tuple(_hints(history, briefs)),
        records=tuple(
            (one.code, str(one.tried), us(one.saved_us), us(one.had_us), str(one.came_true))
            for one in tally(predictions_of(attempts.values()))
        ),
        roofline=roof,
        roofline_note=roof_note,
        comparable=" · ".join(
            filter(None, (started.task, started.device, started.time_source, started.l2))
            if started
            else ()
        ),
        settings=_settings(about),
    )
    return view, history, briefs, attempts


def _attempts(reader: CandidateReader, history: RunHistory) -> dict[str, Attempt]:
    """Return what was judged: as the events have it, then what lies in the folder beside that."""
    return _with_files(reader, dict(history.attempts), reader.run.attempt)


def _briefs(reader: CandidateReader, history: RunHistory) -> dict[str, Brief]:
    known = {name: one for round_ in history.rounds.values() for name, one in round_.briefs.items()}
    return _with_files(reader, known, reader.run.brief)


def _with_files(
    reader: CandidateReader, known: dict[str, T], read: Callable[[str], T | None]
) -> dict[str, T]:
    """Return what is known from events, and of the folder's other candidates what `read` finds."""
    for name in reader.run.candidates():
        if name not in known:
            one = reader.read(partial(read, name))
            if one is not None:
                known[name] = one
    return known


def _state_text(history: RunHistory, state: str) -> str:
    if history.finished is not None:
        return f"finished: {describe_end(history.finished.reason)}"
    if history.interrupted is not None and state == "interrupted":
        return f"stopped: {describe_stop(history.interrupted)}"
    return STATES.get(state, state)


def _facts(history: RunHistory) -> Iterator[tuple[str, str]]:
    """Yield what was asked for."""
    started = history.started
    if started is None:
        return
    yield "task", started.task
    worth = describe_time_source(started.time_source, started.l2)
    yield "device", f"{started.device} ({worth})"
    yield "written by", started.generator + (f" asking {started.model}" if started.model else "")
    rounds = f"{plural(started.rounds, 'round')} of {plural(started.candidates, 'candidate')}"
    yield "search", f"{rounds}; strategy {started.strategy}, seed {started.seed}"
    best = history.attempts.get(history.incumbent or "")
    if best is not None and len(best.times_us) > 1:
        yield "speed-up", f"{SCORES[best.objective]}; a time without a size is at the largest"
    yield "began", f"{clock(history.began_at)} UTC"
    yield "last event", f"{clock(history.ended_at)} UTC"
    if history.resumed:
        yield "resumed", plural(history.resumed, "time")
    if history.forked is not None:
        yield "forked", f"from {history.forked.of} after round {history.forked.round}"
    if history.calls:
        yield "models", describe_call_totals(total_calls(history.calls))
    for again in history.rechecked.values():
        yield "last check", f"{again.attempt}, {CHECK}: {describe_check(again)}"
    if started.note:
        yield "note", started.note
    if started.versions:
        yield "versions", ", ".join(f"{name} {one}" for name, one in started.versions.items())


def _result(history: RunHistory, attempts: Mapping[str, Attempt], state: str) -> str:
    best = attempts.get(history.incumbent or "")
    if best is None:
        none = f"{describe_no_winner(history)}; the baseline stands"
        return none if state == "finished" else "none yet"
    speedup = final_speedup(history)
    over = describe_over(best.objective, len(best.times_us))
    factor = f"{speedup:.2f}x the baseline's speed{over}" if speedup else "no speed-up known"
    return ", ".join(filter(None, (factor, describe_no_gain(speedup, best.spread))))


def _calls(history: RunHistory) -> Iterator[CallView]:
    for round_ in history.rounds.values():
        for one in round_.calls:
            yield CallView(
                call=one.call,
                round=round_.round,
                agent=one.agent,
                model=one.model,
                outcome=one.outcome,
                detail=harmless(one.detail),
                tries=one.tries,
                tokens=_tokens(one),
                usd=one.usd,
                seconds=one.seconds,
            )


def _tokens(call: ModelCalled) -> str:
    about = "about " if call.estimated else ""
    cached = f" ({tokens(call.cached_tokens)} cached)" if call.cached_tokens else ""
    return f"{about}{tokens(call.input_tokens)} in{cached}, {tokens(call.output_tokens)} out"


def _round(round_: RoundHistory) -> RoundView:
    choice = round_.choice
    return RoundView(
        round=round_.round,
        before=choice.before if choice else round_.before,
        incumbent=choice.incumbent if choice else None,
        reason=harmless(choice.reason) if choice else "",
        facts=tuple((label, name, harmless(text)) for label, name, text in _round_facts(round_)),
        candidates=tuple(dict.fromkeys((*round_.briefs, *round_.attempts))),
        hints=tuple(hint.id for _, hint in round_.hints),
        tracebacks=tuple(_tracebacks(round_)),
    )


def _tracebacks(round_: RoundHistory) -> Iterator[tuple[str, str, str]]:
    for failed in round_.failed:
        if failed.traceback:
            yield failed.agent, "", harmless(failed.traceback)
    for name, broken in round_.broken.items():
        if broken.traceback:
            yield "the generator", name, harmless(broken.traceback)


def _round_facts(round_: RoundHistory) -> Iterator[tuple[str, str, str]]:
    for decided in round_.decided:
        for decision in decided.decisions:
            yield decided.agent, "", decision
        if decided.note:
            yield f"{decided.agent} notes", "", decided.note
    for failed in round_.failed:
        yield f"{failed.agent} failed", "", f"{failed.error}; the run went on without it"
    for name, broken in round_.broken.items():
        yield "generator failed", name, broken.error
    for reviewed in round_.reviews.values():
        for line in describe_review(reviewed):
            yield f"reviewed by {reviewed.by or 'nobody named'}", "", line
    for name, tried in round_.tried.items():
        yield "hints", name, describe_hints_tried(tried)
    for name, stage in round_.late.items():
        yield "late", name, f"at {stage} when the minutes of the run were over"
    for held in round_.duels.values():
        yield "contest", held.contender, f"against {held.incumbent}: {describe_duel(held)}"
    for seen in round_.inspected.values():
        yield (
            "inspected",
            seen.attempt,
            describe_inspection(seen.code, seen.notes, seen.not_inspected),
        )
    for tuned in round_.tuned.values():
        best = f", best {tuned.best}" if tuned.best else ""
        yield "tuned", tuned.parent, f"tried {list_names(tuned.tried)}{best}; {tuned.reason}"
    if round_.route is not None:
        yield "then", "", describe_route(round_.route)
    for retry in round_.retries:
        why = f"try {retry.attempt} failed, {retry.reason}; waited {retry.wait_s:.1f} s"
        yield "retried", "", f"{retry.call}: {why}"


def _hints(history: RunHistory, briefs: Mapping[str, Brief]) -> Iterator[HintView]:
    receivers: dict[str, list[str]] = {}
    for name, brief in briefs.items():
        for hint in (*brief.error_hints, *brief.performance_hints):
            receivers.setdefault(hint.id, []).append(name)
    seen = {
        hint.id: (channel, hint) for one in history.rounds.values() for channel, hint in one.hints
    }
    for brief in briefs.values():
        # A strategy's own hints, and those whose event is lost.
        seen = {hint.id: ("error_hints", hint) for hint in brief.error_hints} | seen
        seen = {hint.id: ("performance_hints", hint) for hint in brief.performance_hints} | seen
    for name, (channel, hint) in sorted(seen.items(), key=lambda item: item[1][1].round):
        yield HintView(
            id=name,
            channel=channel,
            round=hint.round,
            about=hint.about,
            code=hint.code,
            cause=hint.cause,
            by=hint.by,
            times=hint.times,
            text=harmless(hint.text),
            evidence=harmless(hint.evidence),
            hardware_text=harmless(hint.hardware_text),
            avoid=tuple(harmless(one) for one in hint.avoid),
            gain=hint.gain,
            receivers=tuple(receivers.get(name, ())),
        )


def _settings(about: Mapping[str, Any]) -> dict[str, str]:
    """Return what the user asked for, each setting as a text."""
    request = about.get("request")
    if not isinstance(request, Mapping):
        return {}
    flat = dict(request) | dict(request.get("components") or {})
    flat.pop("components", None)
    return {str(key): harmless(str(value)) for key, value in flat.items() if key != "run_id"}
