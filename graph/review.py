"""The node at which a person reviews a round before the round begins: verdicts and hints of the
last round, and orders of the next round."""

import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.briefs import USER, hints_about, hints_for, is_fixable
from cuda_llm.codec import decode, encode
from cuda_llm.errors import UsageError
from cuda_llm.graph.context import RunContext
from cuda_llm.graph.review_decisions import (
    Decisions,
    HintShown,
    OrderEdit,
    OrderShown,
    Review,
    VerdictShown,
    read_answer,
)
from cuda_llm.graph.state import SearchState, SearchUpdate
from cuda_llm.graph.view import situation_of
from cuda_llm.search import Attempt, Brief, Hint, Kind
from cuda_llm.traces.events import HintGiven, ReviewChange, RoundReviewed
from cuda_llm.traces.files import broken, read_json, write_json

NODE = "review"
CHANNELS = ("error_hints", "performance_hints")
REMEDY = "remove it: resume asks for the review again"


@dataclass(frozen=True)
class Reviewed:
    """The result of a review, as `rounds/<n>/review.json` holds the result."""

    decisions: Decisions
    event: RoundReviewed


async def review(state: SearchState, context: RunContext) -> SearchUpdate:
    """Stop until a person has reviewed the round, where the user asked for it.

    Needs a checkpointer. A round that was reviewed already is not asked for again.
    """
    if not context.config.review or state["round"] < 1:
        return {}
    situation, orders = situation_of(state, context), orders_of(state, context)
    done = decide(situation, orders, state, context)
    update = carry_out(done.decisions, situation, orders, context)
    context.record(done.event)
    return update


def decide(
    situation: Situation, orders: Sequence[Brief], state: SearchState, context: RunContext
) -> Reviewed:
    """Return the decisions of an earlier process, or interrupt the graph to ask for decisions."""
    path = review_file(context.folder.path, situation.round)
    done = read_review(path)
    if done is None:
        shown = review_of(situation, orders)
        decided = ask_until_clear(shown)
        done = Reviewed(decided, event_of(decided, shown))
        write_json(path, encode(done))
    return done


def review_file(run: Path, round_: int) -> Path:
    """Return the file of what was decided before a round."""
    return run / "rounds" / str(round_) / "review.json"


def read_review(path: Path) -> Reviewed | None:
    """Read the decisions of a person; None before a person has decided. Raises UsageError for a
    broken file."""
    data = read_json(path, REMEDY)
    try:
        return None if data is None else decode(Reviewed, data)
    except (ValueError, TypeError):
        raise broken(path, REMEDY) from None


def orders_of(state: SearchState, context: RunContext) -> tuple[Brief, ...]:
    """Return the orders of the round at work."""
    found = map(context.folder.brief, state["briefs"])
    return tuple(one for one in found if one is not None)


def review_of(situation: Situation, orders: Sequence[Brief]) -> Review:
    """Return what is to be reviewed: what the last round judged and learned, and the orders."""
    incumbent = situation.incumbent
    judged = [one for one in situation.attempts if one.round >= situation.round - 1]
    return Review(
        round=situation.round,
        rounds=situation.config.rounds,
        incumbent=None if incumbent is None else incumbent.id,
        verdicts=tuple(map(verdict_shown, judged)),
        hints=tuple(hints_shown(situation)),
        orders=tuple(
            OrderShown(
                id=one.id,
                kind=str(one.kind),
                parent=one.parent,
                direction=one.direction,
                against=one.against,
                gain=one.share,
            )
            for one in orders
        ),
        parents=tuple(one.id for one in situation.attempts if one.passed or is_fixable(one)),
    )


def verdict_shown(attempt: Attempt) -> VerdictShown:
    """Return the verdict on an attempt as a person sees the verdict."""
    return VerdictShown(
        id=attempt.id,
        code=attempt.code,
        summary=attempt.summary,
        parent=attempt.parent,
        idea=attempt.idea,
        speedup=attempt.speedup,
        time_us=attempt.times_us[-1] if attempt.times_us else None,
    )


def hints_shown(situation: Situation) -> Iterator[HintShown]:
    """Yield what was learned since the last review, but for what a person said."""
    for channel in CHANNELS:
        for hint in getattr(situation, channel):
            if hint.round >= situation.round - 1 and hint.by != USER:
                shown = {name: getattr(hint, name) for name in ("id", "code", "about", "text")}
                yield HintShown(channel=channel, by=hint.by, gain=hint.gain, **shown)


def ask_until_clear(shown: Review) -> Decisions:
    """Interrupt the graph until the graph is resumed with an answer that can be read."""
    from langgraph.types import interrupt

    while True:
        answer = interrupt(encode(shown))
        try:
            return read_answer(answer, shown)
        except UsageError as error:
            shown = replace(shown, problem=str(error))


def event_of(decided: Decisions, shown: Review) -> RoundReviewed:
    """Return the event that says who decided what."""
    changes = list(changes_of(decided, shown))
    named = {one.id for one in changes}
    both = [*(one.id for one in shown.hints), *(one.id for one in shown.orders)]
    accepted = tuple(name for name in both if name not in named)
    return RoundReviewed(
        round=shown.round, by=decided.by, accepted=accepted, changes=tuple(changes)
    )


def changes_of(decided: Decisions, shown: Review) -> Iterator[ReviewChange]:
    """Yield each difference between the review as shown and as decided."""
    for hint in shown.hints:
        if hint.id in decided.rejected:
            yield ReviewChange(id=hint.id, part="hint", before=hint.text)
        elif (text := decided.texts.get(hint.id, hint.text)) != hint.text:
            yield ReviewChange(id=hint.id, part="text", before=hint.text, after=text)
    for order in shown.orders:
        if order.id in decided.rejected:
            yield ReviewChange(id=order.id, part="order", before=order.direction)
        elif (edit := decided.orders.get(order.id)) is not None:
            for part in ("parent", "direction"):
                before, after = getattr(order, part) or "", getattr(edit, part) or ""
                if after != before:
                    yield ReviewChange(id=order.id, part=part, before=before, after=after)
    for text in decided.add_hints:
        yield ReviewChange(id="", part="hint", after=text)


def carry_out(
    decided: Decisions, situation: Situation, orders: Sequence[Brief], context: RunContext
) -> SearchUpdate:
    """Write hints and orders as they were decided; return the update that names them.

    May be done again after a kill: it comes to the same.
    """
    both = {name: list(getattr(situation, name)) for name in CHANNELS}
    by_id = {hint.id: (name, hint) for name in CHANNELS for hint in both[name]}
    update: dict[str, Any] = {name: [] for name in CHANNELS}
    withdrawn = {name: "" for name in decided.rejected if name in by_id}
    own = [
        Hint(round=situation.round - 1, about="", code="USER", text=text, by=USER)
        for text in decided.add_hints
    ]
    replaced: dict[str, Hint] = {}
    for name, text in decided.texts.items():
        channel, hint = by_id.get(name, ("", None))
        if hint is not None and hint.text != text:
            # What a critique promised of its own change is not promised of another.
            new = replace(hint, id="", text=text, by=USER, change="", brings=(), gain=0.0)
            (replaced[name],) = keep(context, channel, [new])
            update[channel].append(replaced[name].id)
            withdrawn[name] = replaced[name].id
    added = keep(context, "performance_hints", own)
    update["performance_hints"] += [one.id for one in added]
    standing = {
        name: [*(one for one in both[name] if one.id not in withdrawn)] for name in CHANNELS
    }
    for name, new in replaced.items():
        standing[by_id[name][0]].append(new)
    standing["performance_hints"] += added
    kept = [one for one in orders if one.id not in decided.rejected]
    for brief in kept:
        edited = edit_parent(brief, decided.orders.get(brief.id), situation, standing)
        hints = told(edited.performance_hints, withdrawn, replaced)
        context.folder.write_brief(
            replace(
                edited,
                error_hints=told(edited.error_hints, withdrawn, replaced),
                performance_hints=(*(one for one in added if one not in hints), *hints),
            )
        )
    for brief in orders:
        if brief not in kept:
            shutil.rmtree(context.folder.candidate(brief.id), ignore_errors=True)
    update |= {"briefs": [one.id for one in kept], "withdrawn": withdrawn}
    return update  # type: ignore[return-value]


def keep(context: RunContext, channel: str, hints: Sequence[Hint]) -> tuple[Hint, ...]:
    """Write and record hints of the reviewer."""
    kept = context.folder.keep_hints(hints)
    for hint in kept:
        context.record(HintGiven(channel=channel, hint=hint))
    return kept


def told(
    hints: Sequence[Hint], withdrawn: Collection[str], replaced: dict[str, Hint]
) -> tuple[Hint, ...]:
    """Return the hints of an order without withdrawn hints, and with new hints for replaced
    hints."""
    now = (replaced.get(one.id, one) for one in hints)
    return tuple(one for one in now if one.id not in withdrawn)


def edit_parent(
    brief: Brief,
    edit: OrderEdit | None,
    situation: Situation,
    standing: dict[str, list[Hint]],
) -> Brief:
    """Return the order with another parent and direction; hints and kind follow its parent."""
    if edit is None:
        return brief
    known = (one.id for one in situation.attempts)
    if edit.direction != brief.direction:
        brief = replace(brief, direction=edit.direction, against="", share=0.0)
    # The record of a replay may name a kernel that was never judged here.
    if edit.parent == brief.parent or edit.parent not in {None, *known}:
        return brief
    parent = None if edit.parent is None else situation.attempt(edit.parent)
    told_about = {
        name: hints_about(hints_for(brief.components, hints), parent)
        for name, hints in standing.items()
    }
    return replace(
        brief,
        kind=kind_for(parent, brief.kind),
        parent=edit.parent,
        second=None,
        against="",
        share=0.0,
        error_hints=told_about["error_hints"],
        performance_hints=told_about["performance_hints"],
    )


def kind_for(parent: Attempt | None, before: Kind) -> Kind:
    """Return what an order on that parent asks for."""
    if parent is None:
        return Kind.FIRST
    if not parent.passed:
        return Kind.FIX
    return Kind.DEPART if before == Kind.DEPART else Kind.IMPROVE
