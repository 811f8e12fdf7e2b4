"""Makes the briefs of a round from what each candidate is to do and to which parent."""

from collections.abc import Iterable, Sequence

from cuda_llm.agents.situation import Situation
from cuda_llm.agents.techniques.directions import directions
from cuda_llm.search import Attempt, Brief, Components, Hint, Kind

Order = tuple[Kind, Attempt | None]
"""What a candidate is to do, and its parent."""
USER = "user"
"""`Hint.by` of a person."""


def fill_in(
    situation: Situation, orders: Sequence[Order], components: Components
) -> tuple[Brief, ...]:
    """Makes one brief for each order, with the history and the hints that concern its parent.

    `components` is what the strategy allows; what the user switched off stays off.
    """
    allowed = components & situation.plan.components
    chosen = direct(situation, [kind for kind, _ in orders]) if allowed.diversity else ()
    history = tuple(one.id for one in situation.attempts) if allowed.history else ()
    error_hints = hints_for(allowed, situation.error_hints)
    performance_hints = hints_for(allowed, situation.performance_hints)
    return tuple(
        Brief(
            id=f"r{situation.round}-c{index}",
            round=situation.round,
            index=index,
            kind=kind,
            parent=None if parent is None else parent.id,
            direction=chosen[index - 1] if chosen else "",
            history=history,
            error_hints=about(error_hints, parent),
            performance_hints=about(performance_hints, parent),
            components=allowed,
        )
        for index, (kind, parent) in enumerate(orders, start=1)
    )


def direct(situation: Situation, kinds: Sequence[Kind]) -> tuple[str, ...]:
    """Chooses a direction for each kind; those of one kind differ as long as there are enough."""
    pools = {kind: iter(directions(situation, kind, kinds.count(kind))) for kind in set(kinds)}
    return tuple(next(pools[kind]) for kind in kinds)


def hints_for(allowed: Components, hints: Sequence[Hint]) -> tuple[Hint, ...]:
    """Returns all hints where they are allowed, and otherwise those of the user."""
    return tuple(one for one in hints if allowed.hints or one.by == USER)


def about(hints: Sequence[Hint], parent: Attempt | None) -> tuple[Hint, ...]:
    """Returns hints on the parent, on its whole round, or on everything; newest round first.

    Of several about one cause the newest stays, because it says how often that was seen.
    """
    chosen = [one for one in hints if not one.about or parent is None or one.about == parent.id]
    return tuple(sorted(newest(chosen), key=lambda one: -one.round))


def newest(hints: Iterable[Hint]) -> tuple[Hint, ...]:
    """Returns the hints without those that a later one about the same thing replaces."""
    kept: dict[tuple[str, ...], Hint] = {}
    for hint in hints:
        subject = (hint.cause,) if hint.cause else (hint.about, hint.text)
        key = (hint.code, hint.by, *subject)
        kept.pop(key, None)
        kept[key] = hint
    return tuple(kept.values())
