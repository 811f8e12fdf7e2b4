"""A run in words: the request, what each round tried and learned, and why the winner won."""

from collections.abc import Iterator

from cuda_llm.critique import describe_critique
from cuda_llm.figure_wording import describe_attempt_speed, name_bottleneck
from cuda_llm.predictions import tally
from cuda_llm.search import Attempt, Brief, Hint, Kind, predictions_of
from cuda_llm.traces.ending_text import describe_ending, describe_skipped
from cuda_llm.traces.events import AgentDecided, ContestHeld, ModelCalled, ModelRetried
from cuda_llm.traces.history import RoundHistory, RunHistory, read_history
from cuda_llm.traces.run_folder import RunFolder
from cuda_llm.traces.summary import state_of, total_calls
from cuda_llm.traces.text import (
    clock,
    describe_call_totals,
    describe_hints_tried,
    describe_idea,
    describe_inspection,
    describe_prediction,
    describe_records,
    describe_review,
    describe_route,
    describe_seconds,
    describe_time_source,
    describe_times,
    labelled,
    list_names,
    plural,
    verbatim,
    wrapped,
)

INSIDE = 14
"""Indent of the lines about one candidate."""

BRIEF_TEXTS = {
    Kind.FIRST: "to write a kernel",
    Kind.FIX: "to fix {parent}",
    Kind.IMPROVE: "to speed up {parent}",
    Kind.DEPART: "to beat {parent} with another structure",
    Kind.TUNE: "{parent} with other values",
    Kind.COMPOSE: "{parent} and {second} put together, each for some sizes",
    Kind.START: "brought by the user",
}
PLAYBOOK_BRIEF_TEXTS = {
    Kind.FIRST: "picked from the playbook",
    Kind.FIX: "picked from the playbook, after {parent} failed",
    Kind.IMPROVE: "picked from the playbook, to beat {parent}",
    Kind.DEPART: "picked from the playbook, to beat {parent} with another structure",
}
"""Of a generator that follows no brief: it searches kernels that are there."""
OUTCOMES = {"won": "won", "faster": "faster", "tie": "a tie", "slower": "slower"}


def describe_round(round_: RoundHistory, history: RunHistory, *, alive: bool) -> Iterator[str]:
    """Yield the lines of one round, or of what came before the first."""
    if round_.round:
        yield ""
        before = round_.before or "the baseline"
        yield f"round {round_.round} · to beat: {before}"
    for name in dict.fromkeys((*round_.briefs, *round_.attempts)):
        brief, attempt = round_.briefs.get(name), round_.attempts.get(name)
        yield from _candidate(name, brief, attempt, round_, history, alive=alive)
    for tuned in round_.tuned.values():
        best = f", best {tuned.best}" if tuned.best else ""
        text = f"{tuned.parent}: tried {list_names(tuned.tried)}{best}; {tuned.reason}"
        yield from labelled("tuned", text)
    yield from _models(round_.calls, round_.retries)
    for decided in round_.decided:
        yield from _decided(decided)
    for failed in round_.failed:
        why = f"{failed.error}; the run went on without it"
        yield from wrapped(why, first=f"  {failed.agent} failed: ")
        yield from verbatim(failed.traceback)
    for tried in round_.tried.values():
        yield from labelled("hints", describe_hints_tried(tried))
    for channel, hint in round_.hints:
        yield from _hint(channel, hint)
    yield from _duels(round_)
    yield from _choice(round_)
    for reviewed in round_.reviews.values():
        yield from labelled("reviewed", f"round {reviewed.round}, by {reviewed.by}")
        for line in describe_review(reviewed):
            yield from wrapped(line, indent=INSIDE)
    if round_.route is not None:
        yield from labelled("then", describe_route(round_.route))


def _candidate(
    name: str,
    brief: Brief | None,
    attempt: Attempt | None,
    round_: RoundHistory,
    history: RunHistory,
    *,
    alive: bool,
) -> Iterator[str]:
    known = brief or attempt
    if known is not None:
        yield from labelled(name, describe_brief(known, history.generator))
    if attempt is not None:
        yield from _outcome(attempt)
        if name in round_.broken:
            yield from verbatim(round_.broken[name].traceback, indent=INSIDE)
    elif name in round_.late:
        cut = f"cut off at {round_.late[name]}: the minutes of the run were over"
        yield from wrapped(cut, indent=INSIDE)
    elif name not in history.attempts:
        stage = history.stages.get(name, "")
        doing = f"at {stage}" if stage else "between two stages" if name in history.stages else ""
        state = doing or "waiting"
        yield from wrapped(f"{state} now" if alive else f"was {state} at the end", indent=INSIDE)


def describe_brief(order: Brief | Attempt, generator: str) -> str:
    """Describe the brief, in words that fit that generator."""
    words = BRIEF_TEXTS | PLAYBOOK_BRIEF_TEXTS if generator == "playbook" else BRIEF_TEXTS
    text = words[order.kind].format(parent=order.parent or "the baseline", second=order.second)
    return f"{text}: {order.direction}" if order.direction else text


def _outcome(attempt: Attempt) -> Iterator[str]:
    idea = describe_idea(attempt.idea, attempt.tunables)
    if idea:
        is_point = attempt.written_by == "playbook" or attempt.kind == Kind.TUNE
        is_point = is_point and attempt.kind != Kind.COMPOSE
        yield from wrapped(idea, first="point: " if is_point else "wrote: ", indent=INSIDE)
    if attempt.passed:
        of = " the baseline's speed"
        faster = describe_attempt_speed(attempt, of) if attempt.speedup else "correct"
        limit = f", limited by {name_bottleneck(attempt.limited_by)}" if attempt.limited_by else ""
        yield from wrapped(f"PASSED  {faster}{limit}", indent=INSIDE)
    else:
        yield from wrapped(attempt.summary, first=f"{attempt.code}  ", indent=INSIDE)
    if attempt.predicted is not None:
        yield from wrapped(describe_prediction(attempt.predicted), indent=INSIDE)
    if attempt.seconds:
        yield from wrapped(f"took: {describe_seconds(attempt.seconds)}", indent=INSIDE)


def _models(calls: list[ModelCalled], retries: list[ModelRetried]) -> Iterator[str]:
    if calls:
        yield from labelled("models", describe_call_totals(total_calls(calls)))
    agents = list(dict.fromkeys(call.agent for call in calls))
    for agent in agents if agents != ["generator"] else ():
        spent = describe_call_totals(total_calls(call for call in calls if call.agent == agent))
        yield from labelled("", f"{agent}: {spent}")
    for retry in retries:
        why = f"{retry.call}: try {retry.attempt} failed, {retry.reason}"
        yield from labelled("", f"{why}; waited {retry.wait_s:.1f} s")
    for call in calls:
        if call.outcome != "ok":
            tried = f" after {call.tries} tries" if call.tries > 1 else ""
            detail = f": {call.detail}" if call.detail else ""
            yield from labelled("", f"{call.call}: {call.outcome}{tried}{detail}")


def _decided(decided: AgentDecided) -> Iterator[str]:
    yield f"  {decided.agent}"
    for decision in decided.decisions:
        yield from wrapped(decision, first="- ", indent=4)
    for line in describe_critique(decided.critique) if decided.critique else ():
        yield from wrapped(line, indent=4)
    if decided.note:
        yield from wrapped(decided.note, first="notes: ", indent=4)


def _hint(channel: str, hint: Hint) -> Iterator[str]:
    about = f" from {hint.about}" if hint.about else ""
    kind = "error" if channel == "error_hints" else "speed"
    yield from labelled("learned", f"{kind}, {hint.code}{about} (by {hint.by}): {hint.text}")
    if hint.hardware_text:
        yield from wrapped(hint.hardware_text, indent=INSIDE)
    if hint.evidence:
        yield from wrapped(hint.evidence, first="seen: ", indent=INSIDE)
    for avoided in hint.avoid:
        yield from wrapped(avoided, first="avoid: ", indent=INSIDE)


def _duels(round_: RoundHistory) -> Iterator[str]:
    for held in round_.duels.values():
        yield from labelled(
            "duel", f"{held.contender} against {held.incumbent}: {describe_duel(held)}"
        )
    for seen in round_.inspected.values():
        found = describe_inspection(seen.code, seen.notes, seen.not_inspected)
        yield from labelled("inspected", f"{seen.attempt}: {found}")


def describe_duel(held: ContestHeld) -> str:
    """Describe how a duel ended: `1.04x its speed (1.03 to 1.05): faster`."""
    if held.speedup is None:
        return " ".join(filter(None, (held.fault or "no end", held.detail)))
    interval = ""
    if held.speedup_low is not None and held.speedup_high is not None:
        interval = f" ({held.speedup_low:.3g} to {held.speedup_high:.3g})"
    return f"{held.speedup:.3g}x its speed{interval}: {OUTCOMES.get(held.outcome, held.outcome)}"


def _choice(round_: RoundHistory) -> Iterator[str]:
    choice = round_.choice
    if choice is None:
        return
    after = choice.incumbent or "the baseline"
    before = choice.before or "the baseline"
    change = f"{before} stays" if choice.before == choice.incumbent else f"{before} -> {after}"
    yield from labelled("to beat", f"{change}: {choice.reason}")
    for name, verdict in choice.verdicts.items():
        yield from wrapped(f"{name}: {OUTCOMES.get(verdict, verdict)}", indent=INSIDE)


def describe_run(run: RunFolder) -> Iterator[str]:
    """Yield the lines of the run, for a terminal or a pipe."""
    history, trace = read_history(run)
    state = state_of(run, history)
    yield f"run {run.name}"
    yield from describe_beginning(history)
    for round_ in history.rounds.values():
        yield from describe_round(round_, history, alive=state == "running")
    yield from describe_records(tally(predictions_of(history.attempts.values())))
    yield ""
    yield from describe_ending(run, history, state)
    yield from describe_skipped(trace)


def describe_beginning(history: RunHistory) -> Iterator[str]:
    """Yield what was asked for."""
    started = history.started
    if started is None:
        yield "  nothing has happened yet"
        return
    yield from labelled("task", started.task)
    worth = describe_time_source(started.time_source, started.l2)
    yield from labelled("device", f"{started.device} ({worth})")
    if started.hardware not in started.device:
        yield from labelled("", f"judged as {started.hardware}")
    author = started.generator + (f" asking {started.model}" if started.model else "")
    rounds = f"{plural(started.rounds, 'round')} of {plural(started.candidates, 'candidate')}"
    yield from labelled(
        "search", f"{rounds} by {author}; strategy {started.strategy}, seed {started.seed}"
    )
    if started.note:
        yield from labelled("note", started.note)
    version = started.versions.get("cuda-llm", "")
    by = f" with cuda-llm {version}" if version else ""
    yield from labelled("began", f"{clock(history.began_at)} UTC{by}")
    if history.forked is not None:
        edited = ", with edited hints" if history.forked.edited_hints else ""
        text = f"from {history.forked.of} after round {history.forked.round}{edited}"
        yield from labelled("forked", text)
    if history.baseline is not None:
        sizes, times = history.baseline.sizes, history.baseline.times_us
        yield from labelled("baseline", describe_times(sizes, times))
        if history.baseline.isolation:
            yield from labelled("isolation", history.baseline.isolation)
