"""Orders to the generator, filled in alike by every strategy."""

from collections.abc import Iterable, Sequence

from cuda_llm.agents.situation import Situation
from cuda_llm.agents.techniques.directions import directions
from cuda_llm.search import Attempt, Brief, Components, Hint, Kind

Order = tuple[Kind, Attempt | None]
"""What to do, to whom."""
USER = "user"
"""`Hint.by` of a person."""


def fill_in(
    situation: Situation, orders: Sequence[Order], components: Components
) -> tuple[Brief, ...]:
    """One brief an order: id, a direction of its own, the history and the hints that concern it.

    `components` is what the strategy allows; what the user switched off stays off.
    """
    allowed = components & situation.plan.components
    told = direct(situation, [kind for kind, _ in orders]) if allowed.diversity else ()
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
            direction=told[index - 1] if told else "",
            history=history,
            error_hints=about(error_hints, parent),
            performance_hints=about(performance_hints, parent),
            components=allowed,
        )
        for index, (kind, parent) in enumerate(orders, start=1)
    )


def direct(situation: Situation, kinds: Sequence[Kind]) -> tuple[str, ...]:
    """A direction for each kind, no two of one kind alike as long as there are enough."""
    pools = {kind: iter(directions(situation, kind, kinds.count(kind))) for kind in set(kinds)}
    return tuple(next(pools[kind]) for kind in kinds)


def hints_for(allowed: Components, hints: Sequence[Hint]) -> tuple[Hint, ...]:
    """What was learned, where it may be told; what the user says always."""
    return tuple(one for one in hints if allowed.hints or one.by == USER)


def about(hints: Sequence[Hint], parent: Attempt | None) -> tuple[Hint, ...]:
    """Hints on the parent, on its whole round, or on everything; newest round first.

    Of those about one cause the newest counts: it says how often it was seen.
    """
    chosen = [one for one in hints if not one.about or parent is None or one.about == parent.id]
    return tuple(sorted(newest(chosen), key=lambda one: -one.round))


def newest(hints: Iterable[Hint]) -> tuple[Hint, ...]:
    """The hints without those that a later one about the same thing replaces."""
    kept: dict[tuple[str, ...], Hint] = {}
    for hint in hints:
        tells = (hint.cause,) if hint.cause else (hint.about, hint.text)
        key = (hint.code, hint.by, *tells)
        kept.pop(key, None)
        kept[key] = hint
    return tuple(kept.values())
