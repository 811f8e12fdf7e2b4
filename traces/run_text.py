"""A run in words: what was asked, what each round tried and learned, and who won why."""

from collections.abc import Iterator

from cuda_llm.search import Attempt, Brief, Hint, Kind
from cuda_llm.traces.best import SOLUTION
from cuda_llm.traces.event_log import Trace
from cuda_llm.traces.events import AgentDecided, AgentFailed, ContestHeld, ModelCalled, ModelRetried
from cuda_llm.traces.history import (
    RoundHistory,
    RunHistory,
    RunState,
    final_speedup,
    read_history,
    spend_of,
    state_of,
)
from cuda_llm.traces.run_folder import RunFolder
from cuda_llm.traces.text import (
    clock,
    describe_end,
    describe_idea,
    describe_seconds,
    describe_spend,
    describe_time_source,
    describe_times,
    labelled,
    plural,
    verbatim,
    wrapped,
)

INSIDE = 14
"""Indent of the lines about one candidate."""

ORDERS = {
    Kind.FIRST: "told to write a kernel",
    Kind.FIX: "told to mend {parent}",
    Kind.IMPROVE: "told to speed up {parent}",
    Kind.DEPART: "told to beat {parent} with another structure",
    Kind.TUNE: "{parent} with other values",
    Kind.START: "brought by the user",
}
PLAYBOOK_ORDERS = {
    Kind.FIRST: "picked from the playbook",
    Kind.FIX: "picked from the playbook, after {parent} failed",
    Kind.IMPROVE: "picked from the playbook, to beat {parent}",
    Kind.DEPART: "picked from the playbook, to beat {parent} with another structure",
}
"""Of a generator that is told nothing: it searches kernels that are there."""
OUTCOMES = {"won": "won", "faster": "faster", "tie": "a tie", "slower": "slower"}


def describe_round(chapter: RoundHistory, story: RunHistory, *, alive: bool) -> Iterator[str]:
    """One round, or what came before the first."""
    if chapter.round:
        yield ""
        before = chapter.before or "the baseline"
        yield f"round {chapter.round} · to beat: {before}"
    for name in dict.fromkeys((*chapter.briefs, *chapter.joined, *chapter.attempts)):
        brief, attempt = chapter.briefs.get(name), chapter.attempts.get(name)
        yield from _candidate(name, brief, attempt, chapter, story, alive=alive)
    for tuned in chapter.tuned.values():
        best = f", best {tuned.best}" if tuned.best else ""
        text = f"{tuned.parent}: tried {_list_names(tuned.tried)}{best}; {tuned.reason}"
        yield from labelled("tuned", text)
    yield from _models(chapter.calls, chapter.retries)
    for decided in chapter.decided:
        yield from _decided(decided)
    for failed in chapter.failed:
        yield from _failed(failed)
    for channel, hint in chapter.hints:
        yield from _hint(channel, hint)
    yield from _contests(chapter)
    yield from _choice(chapter)


def _candidate(
    name: str,
    brief: Brief | None,
    attempt: Attempt | None,
    chapter: RoundHistory,
    story: RunHistory,
    *,
    alive: bool,
) -> Iterator[str]:
    known = brief or attempt
    if brief is None and name in chapter.joined:
        yield from labelled(name, "from an earlier round, still at work when this one began")
    elif known is not None:
        yield from labelled(name, describe_order(known, story.generator))
    if attempt is not None:
        yield from _outcome(attempt)
    elif name in chapter.late:
        where = f" at {chapter.late[name]}" if chapter.late[name] else ""
        yield from wrapped(f"late: still{where} when the round went on", indent=INSIDE)
    elif name not in story.attempts:
        stage = story.stages.get(name, "")
        doing = f"at {stage}" if stage else "between two stages" if name in story.stages else ""
        state = doing or "waiting"
        yield from wrapped(f"{state} now" if alive else f"was {state} at the end", indent=INSIDE)


def describe_order(order: Brief | Attempt, generator: str) -> str:
    """What the generator of that name was told to try, in words."""
    words = ORDERS | PLAYBOOK_ORDERS if generator == "playbook" else ORDERS
    text = words[order.kind].format(parent=order.parent or "the baseline")
    return f"{text}: {order.direction}" if order.direction else text


def _outcome(attempt: Attempt) -> Iterator[str]:
    idea = describe_idea(attempt.idea, attempt.tunables)
    if idea:
        is_point = attempt.written_by == "playbook" or attempt.kind == Kind.TUNE
        yield from wrapped(idea, first="point: " if is_point else "wrote: ", indent=INSIDE)
    if attempt.passed:
        faster = f"{attempt.speedup:.2f}x the baseline's speed" if attempt.speedup else "correct"
        limit = f", limited by {attempt.limited_by}" if attempt.limited_by else ""
        yield from wrapped(f"PASSED  {faster}{limit}", indent=INSIDE)
    else:
        yield from wrapped(attempt.summary, first=f"{attempt.code}  ", indent=INSIDE)
    if attempt.seconds:
        yield from wrapped(f"took: {describe_seconds(attempt.seconds)}", indent=INSIDE)


def _models(calls: list[ModelCalled], retries: list[ModelRetried]) -> Iterator[str]:
    if calls:
        yield from labelled("models", describe_spend(spend_of(calls)))
    agents = list(dict.fromkeys(call.agent for call in calls))
    for agent in agents if agents != ["generator"] else ():
        spent = describe_spend(spend_of(call for call in calls if call.agent == agent))
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
    if decided.note:
        yield from wrapped(decided.note, first="tells: ", indent=4)


def _failed(failed: AgentFailed) -> Iterator[str]:
    yield from wrapped(
        f"{failed.error}; the run went on without it", first=f"  {failed.agent} failed: "
    )


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


def _contests(chapter: RoundHistory) -> Iterator[str]:
    for held in chapter.contests.values():
        yield from labelled(
            "duel", f"{held.contender} against {held.incumbent}: {describe_duel(held)}"
        )
    for seen in chapter.inspected.values():
        found = seen.code or "nothing found"
        yield from labelled("inspected", f"{seen.attempt}: {'; '.join((found, *seen.notes))}")


def describe_duel(held: ContestHeld) -> str:
    """How a duel ended: `1.04x its speed (1.03 to 1.05): faster`."""
    if held.speedup is None:
        return " ".join(filter(None, (held.fault or "no end", held.detail)))
    interval = ""
    if held.speedup_low is not None and held.speedup_high is not None:
        interval = f" ({held.speedup_low:.3g} to {held.speedup_high:.3g})"
    return f"{held.speedup:.3g}x its speed{interval}: {OUTCOMES.get(held.outcome, held.outcome)}"


def _choice(chapter: RoundHistory) -> Iterator[str]:
    choice = chapter.choice
    if choice is None:
        return
    after = choice.incumbent or "the baseline"
    before = choice.before or "the baseline"
    change = f"{before} stays" if choice.before == choice.incumbent else f"{before} -> {after}"
    is_in_reason = choice.reason.startswith(change)
    yield from labelled("to beat", choice.reason if is_in_reason else f"{change}: {choice.reason}")
    for name, verdict in choice.verdicts.items():
        yield from wrapped(f"{name}: {OUTCOMES.get(verdict, verdict)}", indent=INSIDE)


def _list_names(names: tuple[str, ...]) -> str:
    if len(names) < 4:
        return ", ".join(names) or "nothing"
    return f"{len(names)} points ({names[0]} to {names[-1]})"


def describe_run(run: RunFolder) -> Iterator[str]:
    """The lines of the story, for a terminal or a pipe."""
    story, trace = read_history(run)
    state = state_of(run, story)
    yield f"run {run.name}"
    yield from _beginning(story)
    for chapter in story.chapters.values():
        yield from describe_round(chapter, story, alive=state == "running")
    yield ""
    yield from _end(run, story, state)
    yield from _skipped(trace)


def _beginning(story: RunHistory) -> Iterator[str]:
    started = story.started
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
    yield from labelled("began", f"{clock(story.began_at)} UTC{by}")
    if story.forked is not None:
        edited = ", with edited hints" if story.forked.edited_hints else ""
        text = f"from {story.forked.of} after round {story.forked.round}{edited}"
        yield from labelled("forked", text)
    if story.baseline is not None:
        sizes, times = story.baseline.sizes, story.baseline.times_us
        yield from labelled("baseline", describe_times(sizes, times))
        if story.baseline.isolation:
            yield from labelled("isolation", story.baseline.isolation)


def _end(run: RunFolder, story: RunHistory, state: RunState) -> Iterator[str]:
    match state:
        case "running":
            yield f"the run is under way; last heard of at {clock(story.ended_at)} UTC"
        case "killed":
            yield f"the run was killed after {clock(story.ended_at)} UTC"
        case "interrupted" if story.interrupted is not None:
            why = f"the run stopped in round {story.interrupted.round}: "
            yield from wrapped(story.interrupted.reason, first=why)
        case "finished" if story.finished is not None:
            yield from wrapped(describe_end(story.finished.reason), first="the run ended: ")
        case _:
            pass
    if state in ("killed", "interrupted"):
        yield from labelled("go on", f"cuda-llm resume {run.name}")
    if story.resumed:
        yield from labelled("resumed", plural(story.resumed, "time"))
    if story.calls:
        failed = sum(call.outcome != "ok" for call in story.calls)
        bad = f", {failed} of them in vain" if failed else ""
        yield from labelled("models", f"{describe_spend(spend_of(story.calls))}{bad}")
    yield from _winner(run, story, state)


def _winner(run: RunFolder, story: RunHistory, state: RunState) -> Iterator[str]:
    best = story.attempts.get(story.incumbent or "")
    if best is None:
        if state == "finished":
            yield from labelled("result", "no candidate passed; the baseline stands")
        return
    speedup = final_speedup(story)
    modelled = " (modelled)" if story.started and story.started.time_source == "modelled" else ""
    faster = f": {speedup:.2f}x the baseline's speed{modelled}" if speedup else ""
    idea = f" ({best.idea})" if best.idea else ""
    label = "winner" if state == "finished" else "best so far"
    yield from labelled(label, f"{best.id}{idea}, written by {best.written_by}{faster}")
    if speedup and speedup < 1:
        yield from labelled("", "slower than the baseline, which stays the answer")
    choice = [one.choice for one in story.chapters.values() if one.choice is not None][-1]
    yield from labelled("because", choice.reason)
    if story.remeasured is not None:
        again = story.remeasured
        how = f", {again.speedup:.2f}x" if again.speedup else ""
        detail = f"; {again.detail}" if again.detail else ""
        yield from labelled(
            "measured", f"once more, in a fresh process on new inputs: {again.code}{how}{detail}"
        )
    if story.baseline is not None:
        times = story.remeasured.times_us if story.remeasured else best.times_us
        compared = describe_times(story.baseline.sizes, times, story.baseline.times_us)
        yield from labelled("times", compared)
    solution = run.best / SOLUTION
    lies = solution if solution.exists() else run.candidate(best.id) / "source.cu"
    yield from labelled("source", "")
    yield from verbatim(str(lies))
    if state == "finished":
        yield from labelled("use it", f"cuda-llm export {run.name} --to cu|cupy|torch")


def _skipped(trace: Trace) -> Iterator[str]:
    if trace.torn:
        yield f"({plural(trace.torn, 'line')} of the trace cut off or damaged, and skipped)"
    if trace.unknown:
        yield f"({plural(trace.unknown, 'line')} of the trace written by a newer cuda-llm, skipped)"
