"""One round of the story, in words."""

from collections.abc import Iterator

from cuda_llm.search import Attempt, Brief, Hint, Kind
from cuda_llm.traces.chapters import Chapter, Story
from cuda_llm.traces.events import (
    AgentDecided,
    AgentFailed,
    ContestHeld,
    ModelCalled,
    ModelRetried,
)
from cuda_llm.traces.figures import say_idea, say_seconds, say_spend
from cuda_llm.traces.page import labelled, wrapped
from cuda_llm.traces.summary import spend_of

INSIDE = 14
"""Indent of the lines about one candidate."""

TOLD = {
    Kind.FIRST: "told to write a kernel",
    Kind.FIX: "told to mend {parent}",
    Kind.IMPROVE: "told to speed up {parent}",
    Kind.DEPART: "told to beat {parent} with another structure",
    Kind.TUNE: "{parent} with other values",
    Kind.START: "brought by the user",
}
PICKED = {
    Kind.FIRST: "picked from the playbook",
    Kind.FIX: "picked from the playbook, after {parent} failed",
    Kind.IMPROVE: "picked from the playbook, to beat {parent}",
    Kind.DEPART: "picked from the playbook, to beat {parent} with another structure",
}
"""Of a generator that is told nothing: it searches kernels that are there."""
ENDED = {"won": "won", "faster": "faster", "tie": "a tie", "slower": "slower"}


def tell_chapter(chapter: Chapter, story: Story, *, alive: bool) -> Iterator[str]:
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
        text = f"{tuned.parent}: tried {_these(tuned.tried)}{best}; {tuned.reason}"
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
    chapter: Chapter,
    story: Story,
    *,
    alive: bool,
) -> Iterator[str]:
    known = brief or attempt
    if brief is None and name in chapter.joined:
        yield from labelled(name, "from an earlier round, still at work when this one began")
    elif known is not None:
        yield from labelled(name, say_order(known, story.generator))
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


def say_order(order: Brief | Attempt, generator: str) -> str:
    """What the generator of that name was told to try, in words."""
    words = TOLD | PICKED if generator == "playbook" else TOLD
    text = words[order.kind].format(parent=order.parent or "the baseline")
    return f"{text}: {order.direction}" if order.direction else text


def _outcome(attempt: Attempt) -> Iterator[str]:
    idea = say_idea(attempt.idea, attempt.tunables)
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
        yield from wrapped(f"took: {say_seconds(attempt.seconds)}", indent=INSIDE)


def _models(calls: list[ModelCalled], retries: list[ModelRetried]) -> Iterator[str]:
    if calls:
        yield from labelled("models", say_spend(spend_of(calls)))
    agents = list(dict.fromkeys(call.agent for call in calls))
    for agent in agents if agents != ["generator"] else ():
        spent = say_spend(spend_of(call for call in calls if call.agent == agent))
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


def _contests(chapter: Chapter) -> Iterator[str]:
    for held in chapter.contests.values():
        yield from labelled("duel", f"{held.contender} against {held.incumbent}: {say(held)}")
    for seen in chapter.inspected.values():
        found = seen.code or "nothing found"
        yield from labelled("inspected", f"{seen.attempt}: {'; '.join((found, *seen.notes))}")


def say(held: ContestHeld) -> str:
    """How a duel ended: `1.04x its speed (1.03 to 1.05): faster`."""
    if held.speedup is None:
        return " ".join(filter(None, (held.fault or "no end", held.detail)))
    interval = ""
    if held.speedup_low is not None and held.speedup_high is not None:
        interval = f" ({held.speedup_low:.3g} to {held.speedup_high:.3g})"
    return f"{held.speedup:.3g}x its speed{interval}: {ENDED.get(held.outcome, held.outcome)}"


def _choice(chapter: Chapter) -> Iterator[str]:
    choice = chapter.choice
    if choice is None:
        return
    after = choice.incumbent or "the baseline"
    before = choice.before or "the baseline"
    change = f"{before} stays" if choice.before == choice.incumbent else f"{before} -> {after}"
    is_in_reason = choice.reason.startswith(change)
    yield from labelled("to beat", choice.reason if is_in_reason else f"{change}: {choice.reason}")
    for name, verdict in choice.verdicts.items():
        yield from wrapped(f"{name}: {ENDED.get(verdict, verdict)}", indent=INSIDE)


def _these(names: tuple[str, ...]) -> str:
    if len(names) < 4:
        return ", ".join(names) or "nothing"
    return f"{len(names)} points ({names[0]} to {names[-1]})"
