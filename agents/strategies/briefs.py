"""Writes orders as briefs: directions that differ, the history and the hints that concern each."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cuda_llm.agents.situation import Situation
from cuda_llm.agents.techniques.directions import Direction, find_directions, say_opposites
from cuda_llm.agents.techniques.refuted import withdrawals
from cuda_llm.components import Components
from cuda_llm.outcomes import Quarantined
from cuda_llm.search import Attempt, Brief, Hint, Kind

NEARNESS = (
    *("NONDETERMINISTIC", "WRONG_RESULT", "LATE_WRITE", "GUARD_OVERWRITTEN", "INPUT_MUTATED"),
    *("DATA_RACE", "UNINITIALISED_READ", "INVALID_SYNC", "TIMED_OUT"),
    *("ILLEGAL_ACCESS", "MISALIGNED", "DEVICE_ASSERT", "LAUNCH_FAILED", "OUT_OF_MEMORY"),
    *("HOST_CRASHED", "LOAD_FAILED", "COMPILE_FAILED"),
    *("EMULATOR_UNSUPPORTED", "IMPOSSIBLE_TIME", "POLICY_VIOLATION"),
)
"""Code of every verdict that another source may fix, sorted by how near the kernel came to being
right."""

USER = "user"
"""`Hint.by` of a person."""


def distinct_failures(attempts: Sequence[Attempt]) -> tuple[Attempt, ...]:
    """Return one attempt for each distinct failure with source, nearest to being right first.

    Two failures are the same when their `failure` is; one of an older record is its code.
    """
    kept: dict[str, Attempt] = {}
    for one in attempts:
        if is_fixable(one):
            kept.setdefault(one.failure or one.code, one)
    return tuple(sorted(kept.values(), key=lambda one: (nearness(one), one.round, one.index)))


def is_fixable(attempt: Attempt) -> bool:
    """Return whether the attempt failed by its own fault and has a source to start from."""
    failed = not attempt.passed and attempt.code != Quarantined.code
    return bool(attempt.source_sha) and failed and attempt.is_about_its_kernel


def nearness(attempt: Attempt) -> int:
    """Rank an attempt's failure, from 0, nearest to being right; a code of an older version that no
    verdict has any more comes last."""
    return NEARNESS.index(attempt.code) if attempt.code in NEARNESS else len(NEARNESS)


Assignment = tuple[Kind, Attempt | None]
"""The kind of a candidate's brief, and its parent."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The second kernel that one order of a round shows beside its parent."""

    place: int
    """Index of the order among those of the round."""
    second: Attempt
    direction: Direction


def make_briefs(
    situation: Situation,
    orders: Sequence[Assignment],
    components: Components,
    pair: Pair | None = None,
) -> tuple[Brief, ...]:
    """Make one brief for each order, with the history and the hints that concern its parent.

    `components` is what the strategy allows; what the user switched off stays off.
    """
    allowed = components & situation.config.components
    history = tuple(one.id for one in situation.attempts) if allowed.history else ()
    error_hints = hints_for(allowed, situation.error_hints)
    performance_hints = hints_for(allowed, situation.performance_hints)

    def hints_of(parent: Attempt | None) -> tuple[Hint, ...]:
        both = (error_hints, performance_hints)
        return tuple(hint for hints in both for hint in hints_about(hints, parent))

    single = [one for place, one in enumerate(orders) if pair is None or place != pair.place]
    chosen = list(choose_directions(situation, single, hints_of)) if allowed.diversity else []
    if pair and allowed.diversity:
        chosen.insert(pair.place, pair.direction)
    parents = {one.id: one for kind, one in orders if kind is Kind.IMPROVE and one}
    refuted = {name: withdrawals(situation, one) for name, one in parents.items()}
    return tuple(
        Brief(
            id=f"r{situation.round}-c{index}",
            round=situation.round,
            index=index,
            kind=kind,
            parent=None if parent is None else parent.id,
            second=pair.second.id if pair and pair.place == index - 1 else None,
            direction=chosen[index - 1].text if chosen else "",
            against=chosen[index - 1].against if chosen else "",
            share=chosen[index - 1].share if chosen else 0.0,
            sizes=chosen[index - 1].sizes if chosen else (),
            withdrawn=refuted.get(parent.id, ()) if chosen and parent else (),
            history=history,
            error_hints=hints_about(error_hints, parent),
            performance_hints=hints_about(performance_hints, parent),
            components=allowed,
        )
        for index, (kind, parent) in enumerate(orders, start=1)
    )


def choose_directions(
    situation: Situation,
    orders: Sequence[Assignment],
    hints_of: Callable[[Attempt | None], Sequence[Hint]],
) -> tuple[Direction, ...]:
    """Choose a direction for each order: those of a round differ, and say where they oppose.

    `hints_of` returns the hints that an order on that parent shows.
    """
    pools = {
        (kind, parent and parent.id): iter(
            find_directions(situation, kind, 2 * len(orders), parent=parent, hints=hints_of(parent))
        )
        for kind, parent in orders
    }
    taken = set[str]()
    chosen = []
    for kind, parent in orders:
        pool = pools[kind, parent and parent.id]
        one = next(found for found in pool if found.text not in taken)
        taken.add(one.text)
        chosen.append(one)
    return say_opposites(chosen)


def hints_for(allowed: Components, hints: Sequence[Hint]) -> tuple[Hint, ...]:
    """Return all hints where prompts may hold hints, and otherwise the hints of the user; never a
    change that was refused."""
    return tuple(one for one in hints if (allowed.hints or one.by == USER) and not one.refused)


def hints_about(hints: Sequence[Hint], parent: Attempt | None) -> tuple[Hint, ...]:
    """Return hints on the parent, on its whole round, or on everything; newest round first.

    Of several about one cause the newest stays, because it says how often that was seen.
    """
    chosen = [one for one in hints if not one.about or parent is None or one.about == parent.id]
    return tuple(sorted(newest_hints(chosen), key=lambda one: -one.round))


def newest_hints(hints: Iterable[Hint]) -> tuple[Hint, ...]:
    """Return the hints without each hint that a later hint about the same cause replaces."""
    kept: dict[tuple[str, ...], Hint] = {}
    for hint in hints:
        subject = (hint.cause,) if hint.cause else (hint.about, hint.text)
        key = (hint.code, hint.by, *subject)
        kept.pop(key, None)
        kept[key] = hint
    return tuple(kept.values())
