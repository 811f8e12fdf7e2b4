"""A direction of its own for each brief of a round: none that the kernel has, that its own hints
forbid, or that the hardware rules out.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, islice, product

from cuda_llm.agents.limits import (
    BOTTLENECK_TEXTS,
    open_above_baseline,
    possible_saving,
    share_of_limit,
)
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.techniques.objections import (
    left_at_deciding,
    profile_of,
    reaches_enough,
    refused_aims,
    sensible_techniques,
)
from cuda_llm.agents.techniques.technique import Technique
from cuda_llm.predictions import rank as rank_bottlenecks
from cuda_llm.search import Attempt, Hint, Kind

UNRELATED = 99
"""Rank of a technique that relieves none of the known bottlenecks."""
OPEN = "a change of your own that nothing above speaks against"

OPPOSITE = "another attempt of this round does the opposite, so do this one thoroughly"


@dataclass(frozen=True, kw_only=True)
class Direction:
    """The technique that one brief orders, with the saving that the technique may bring."""

    text: str
    technique: Technique | None = None
    """Technique of the catalogue; None for a direction in the words of a person or a critique."""
    brings: frozenset[str] = frozenset()
    """Names in `objections.BRINGS` that the words of a person or a critique add."""
    against: str = ""
    """Code of the bottleneck that the direction relieves; empty where no bottleneck is known."""
    share: float = 0.0
    """Part of the time that can be gained at most, 0 to 1: without this bottleneck; of a first
    kernel or a fix what the baseline leaves until the attainable."""


@dataclass(frozen=True, kw_only=True)
class Variation:
    """A twist to a direction, where the catalogue is shorter than a round."""

    text: str
    aims: frozenset[str] = frozenset()
    words_per_fma: float = 0.0
    opposes: frozenset[str] = frozenset()
    """Aims of techniques that it cannot be added to."""


VARIATIONS = (
    Variation(
        text="small blocks (64 to 128 threads)",
        aims=frozenset({"more_blocks"}),
        opposes=frozenset({"fewer_blocks", "larger_tiles"}),
    ),
    Variation(
        text="large blocks (512 threads or more)",
        aims=frozenset({"fewer_blocks"}),
        opposes=frozenset({"more_registers", "more_blocks"}),
    ),
    Variation(
        text="one output a thread",
        words_per_fma=2.0,
        aims=frozenset({"more_blocks"}),
        opposes=frozenset({"more_registers", "larger_tiles", "fewer_blocks"}),
    ),
    Variation(text="four outputs a thread"),
    Variation(text="eight or more outputs a thread", aims=frozenset({"more_registers"})),
    Variation(
        text="as few registers as possible",
        aims=frozenset({"occupancy"}),
        opposes=frozenset({"more_registers", "prefetching", "unrolling"}),
    ),
    Variation(text="loops with bounds known when compiling, by templates"),
    Variation(text="a separate path for extents that are multiples of four"),
)


def directions(
    situation: Situation,
    kind: Kind,
    number: int,
    *,
    parent: Attempt | None = None,
    hints: Sequence[Hint] = (),
) -> tuple[str, ...]:
    """Return the texts of `find_directions`; empty ones without diversity."""
    if not situation.config.components.diversity:
        return ("",) * number
    found = find_directions(situation, kind, number, parent=parent, hints=hints)
    return tuple(one.text for one in found)


def find_directions(
    situation: Situation,
    kind: Kind,
    number: int,
    *,
    parent: Attempt | None = None,
    hints: Sequence[Hint] = (),
) -> tuple[Direction, ...]:
    """Return `number` directions for briefs of one kind that show `hints`.

    Best first: what a critique of `parent` (else of the incumbent) asks for, then what fits the
    task, was tried least and relieves what limits it; one of its own choice before the same with a
    twist. The same situation gives the same answer,
    and a longer one only adds to a shorter.
    """
    parent = parent or situation.incumbent
    limits = _limits(situation, parent)
    everywhere = [attempt.direction for attempt in situation.attempts]
    here = _tried_on(situation, parent) if kind in (Kind.FIX, Kind.IMPROVE) else everywhere

    def rank(technique: Technique) -> tuple[int, int, int]:
        relieved = [at for at, code in enumerate(limits) if code in technique.against]
        return (
            _times(technique.text, here),
            min(relieved, default=UNRELATED),
            0 if kind == Kind.FIX else _times(technique.text, everywhere),
        )

    asked = tuple(_asked_for(situation, kind, parent, hints, limits))
    brought = {name for one in asked for name in one.brings}
    sensible = [
        one
        for one in sensible_techniques(situation, kind, parent, hints)
        if one.shown_by not in brought
    ]
    worthwhile = {code for code, share in limits.items() if share} or limits.keys()
    related = [one for one in sensible if worthwhile & set(one.against)]
    fitting = related if kind == Kind.IMPROVE and related else sensible
    ranked = sorted(_ordered(fitting, kind, situation), key=rank)
    made = (_direction(situation, kind, parent, one, limits) for one in ranked)
    twisted = _twisted(situation, ranked, hints, here, limits)
    free = (Direction(text=OPEN),) if kind == Kind.IMPROVE else ()
    ordered = chain(asked, made, free, twisted, _open())
    found = tuple(islice(_distinct(ordered), number))
    if kind in (Kind.FIRST, Kind.FIX):
        share = open_above_baseline(situation)
        return tuple(replace(one, share=share) for one in found)
    return found


def _distinct(found: Iterable[Direction]) -> Iterator[Direction]:
    seen = set[str]()
    for one in found:
        if one.text not in seen:
            seen.add(one.text)
            yield one


def _open() -> Iterator[Direction]:
    """Yield what is left to ask for where everything that is known is spoken against."""
    yield Direction(text=OPEN)
    for number in count(2):
        yield Direction(text=f"{OPEN}; variant {number}")


def _limits(situation: Situation, attempt: Attempt | None) -> dict[str, float]:
    """Return code of what limits `attempt`, dominating first, and the part of its time that taking
    it away can save at most; none without profiles."""
    if attempt is None or not attempt.passed or not situation.config.components.profile:
        return {}
    found: dict[str, float] = {}
    if profile := profile_of(situation, attempt):
        left = left_at_deciding(situation, attempt)
        for one in rank_bottlenecks(profile.bottlenecks, situation.predictions):
            known = (one.share, possible_saving(profile, one.code), left)
            found.setdefault(one.code, min(share for share in known if share is not None))
    return found or ({attempt.limited_by: 0.0} if attempt.limited_by else {})


def _direction(
    situation: Situation,
    kind: Kind,
    parent: Attempt | None,
    technique: Technique,
    limits: dict[str, float],
) -> Direction:
    """Return the direction with the first limit that it relieves; to depart, with all of it."""
    if kind == Kind.DEPART and parent is not None:
        reached = share_of_limit(situation, parent) or 1.0
        return Direction(text=technique.text, technique=technique, share=max(0.0, 1.0 - reached))
    relieved = [one for one in limits if one in technique.against]
    code = next((one for one in relieved if limits[one]), next(iter(relieved), ""))
    share = limits.get(code, 0.0)
    return Direction(text=technique.text, technique=technique, against=code, share=share)


def _asked_for(
    situation: Situation,
    kind: Kind,
    parent: Attempt | None,
    hints: Sequence[Hint],
    limits: dict[str, float],
) -> Iterator[Direction]:
    """Yield the changes that critiques of the parent order: what speaks against a critique was
    found when the critique was checked."""
    if parent is None or kind not in (Kind.IMPROVE, Kind.FIX):
        return
    for hint in open_orders(situation, parent, hints):
        code = hint.code if hint.code in limits or hint.code in BOTTLENECK_TEXTS else ""
        share = hint.gain or limits.get(code, 0.0)
        brings = frozenset(hint.brings)
        yield Direction(text=hint.change, brings=brings, against=code, share=share)


def open_orders(situation: Situation, parent: Attempt, hints: Sequence[Hint]) -> tuple[Hint, ...]:
    """Return the hints of critiques of `parent` whose change is an order that no attempt has
    carried out."""
    tried = {one.direction for one in situation.attempts}
    return tuple(
        one
        for one in hints
        if one.change and not one.refused and one.about == parent.id and one.change not in tried
    )


def _tried_on(situation: Situation, parent: Attempt | None) -> list[str]:
    """Return directions that led to `parent`, and those that started from it."""
    by_id = {attempt.id: attempt for attempt in situation.attempts}
    line, one = [], parent
    while one is not None:
        line.append(one.direction)
        one = by_id.pop(one.parent or "", None)
    children = [
        attempt.direction
        for attempt in situation.attempts
        if parent is not None and attempt.parent == parent.id
    ]
    return [*line, *children]


def _times(text: str, tried: list[str]) -> int:
    return sum(one.startswith(text) for one in tried)


def _ordered(found: list[Technique], kind: Kind, situation: Situation) -> list[Technique]:
    """Return repairs and first structures from plain to bold; the rest at random."""
    if kind == Kind.FIX or (kind == Kind.FIRST and situation.round <= 1):
        return found
    shuffled = random.Random(f"{situation.config.seed}/{situation.round}/{kind}")
    return shuffled.sample(found, len(found))


def _twisted(
    situation: Situation,
    ranked: Sequence[Technique],
    hints: Sequence[Hint],
    tried: list[str],
    limits: dict[str, float],
) -> Iterator[Direction]:
    """Yield each technique with a twist, least tried first; then numbered variants."""
    refused = refused_aims(hints)
    hidden = situation.config.hardware_context == "none"
    allowed = [
        one
        for one in VARIATIONS
        if not one.aims & refused and (hidden or reaches_enough(one.words_per_fma, situation))
    ]
    made = [
        Direction(
            text=f"{technique.text}; with {twist.text}",
            technique=technique,
            against=next((code for code in limits if code in technique.against), ""),
        )
        for twist, technique in product(allowed, ranked)
        if not twist.opposes & technique.aims
    ]
    plain = [Direction(text=one.text, technique=one) for one in ranked]
    yield from sorted(made, key=lambda one: tried.count(one.text))
    for number in count(2) if plain else ():
        for one in (*plain, *made):
            yield replace(one, text=f"{one.text}; variant {number}")


def say_opposites(chosen: Sequence[Direction]) -> tuple[Direction, ...]:
    """Return the directions of one parent, saying of each that opposes another that it does."""
    signs = {one.technique.work_per_thread for one in chosen if one.technique}
    if not {1, -1} <= signs:
        return tuple(chosen)
    return tuple(
        replace(one, text=f"{one.text} ({OPPOSITE})")
        if one.technique and one.technique.work_per_thread
        else one
        for one in chosen
    )
