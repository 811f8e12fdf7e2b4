"""A direction of its own for each brief of a round: none that the kernel has, that its own hints
forbid, or that the hardware rules out.
"""

import random
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain, count, islice, product

from cuda_llm.agents.limits import (
    BOTTLENECK_TEXTS,
    NEGLIGIBLE,
    open_above_baseline,
    share_of_limit,
    whole_profile,
)
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.acceptance import is_faster
from cuda_llm.agents.techniques.gains import (
    Gain,
    Savings,
    gain_expected,
    gain_of,
    savings_of,
)
from cuda_llm.agents.techniques.objections import (
    reaches_enough,
    refused_aims,
    sensible_techniques,
    signs_in_text,
)
from cuda_llm.agents.techniques.refuted import orders_in_vain, withdrawals
from cuda_llm.agents.techniques.technique import Technique
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
    """Part of the time over all sizes, as the score combines them, that can be gained at most, 0 to
    1: without this bottleneck; of a first kernel or a fix what the baseline leaves until the
    attainable."""
    sizes: tuple[int, ...] = ()
    """Indices of the timed sizes at which it can gain; empty where that is not known."""


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
    task, was tried least and relieves what limits it; one of its own choice, other structures, then
    the same with a twist. The same situation gives the same answer,
    and a longer one only adds to a shorter.
    """
    parent = parent or situation.incumbent
    limits = _limits(situation, parent)
    everywhere = [attempt.direction for attempt in situation.attempts]
    here = _tried_on(situation, parent) if kind in (Kind.FIX, Kind.IMPROVE) else everywhere

    def rank(one: Direction) -> tuple[float, ...]:
        against = one.technique.against if one.technique else ()
        relieved = [at for at, code in enumerate(limits) if code in against]
        return (
            _times(one.text, here),
            -round(one.share, 2),
            min(relieved, default=UNRELATED),
            0 if kind == Kind.FIX else _times(one.text, everywhere),
        )

    asked = tuple(_asked_for(situation, kind, parent, hints, limits))
    brought = {name for one in asked for name in one.brings}
    vain = _tried_in_vain(situation, parent) if kind == Kind.IMPROVE else ()
    sensible = [
        one
        for one in sensible_techniques(situation, kind, parent, hints)
        if one.shown_by not in brought and not any(text.startswith(one.text) for text in vain)
    ]
    made = [
        _direction(situation, kind, parent, one, limits)
        for one in _ordered(sensible, kind, situation)
    ]
    ranked = sorted(_worthwhile(made) if kind == Kind.IMPROVE else made, key=rank)
    twisted = _twisted(situation, ranked, hints, here)
    if kind == Kind.IMPROVE:
        # What relieves nothing that limits the kernel comes behind other ways to do the work.
        others = _structures(situation, parent, hints, brought)
        known = _has_profile(situation, parent)
        related = [one for one in ranked if one.against or not known]
        ordered = chain(related, (Direction(text=OPEN),), others, ranked)
    else:
        ordered = chain(ranked)
    found = tuple(islice(_distinct(chain(asked, ordered, twisted, _open())), number))
    if kind in (Kind.FIRST, Kind.FIX):
        share = open_above_baseline(situation)
        return tuple(replace(one, share=share) for one in found)
    return found


def _has_profile(situation: Situation, parent: Attempt | None) -> bool:
    """Return whether it is known, and to be shown, what limits `parent`."""
    shown = situation.config.components.profile
    return shown and parent is not None and whole_profile(situation, parent) is not None


def _tried_in_vain(situation: Situation, parent: Attempt | None) -> tuple[str, ...]:
    """Return the directions that came to nothing for kernels of the parent's structure, and those
    that promised nothing and led from the parent itself to a kernel that is no faster."""
    if parent is None:
        return ()
    children = (one for one in situation.attempts if one.parent == parent.id and one.direction)
    return (
        *(situation.attempt(one.attempt).direction for one in orders_in_vain(situation, parent)),
        *(one.direction for one in children if _is_no_faster(situation, one, parent)),
    )


def _is_no_faster(situation: Situation, child: Attempt, parent: Attempt) -> bool:
    """Return whether an order to speed up the parent led to a tie with the parent, or worse."""
    if child.kind is not Kind.IMPROVE or child.speedup is None or parent.speedup is None:
        return False
    return not is_faster(situation, child, parent)


def _structures(
    situation: Situation, parent: Attempt | None, hints: Sequence[Hint], brought: Set[str]
) -> Iterator[Direction]:
    """Yield the algorithms of the task's kind that neither the kernel nor a critique's change has,
    least tried first, for where the changes that gain are fewer than a round."""
    tried = [attempt.direction for attempt in situation.attempts]
    found = sensible_techniques(situation, Kind.DEPART, parent, hints)
    shown = signs_in_text(situation, parent) if parent else frozenset()
    for one in sorted(found, key=lambda one: _times(one.text, tried)):
        if one.shown_by not in shown | brought and Kind.IMPROVE not in one.kinds:
            yield Direction(text=one.text, technique=one)


def _worthwhile(found: Sequence[Direction]) -> Sequence[Direction]:
    """Return the directions that gain more than next to nothing, else those that relieve a
    bottleneck, else all."""
    gaining = [one for one in found if one.share >= NEGLIGIBLE]
    return gaining or [one for one in found if one.against] or found


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


def _limits(situation: Situation, attempt: Attempt | None) -> Savings:
    """Return what taking each bottleneck of `attempt` away can save at most at each timed size, the
    bottleneck to go for first in front; without those that attempts have refuted."""
    if attempt is None or not attempt.passed or not situation.config.components.profile:
        return {}
    found = savings_of(situation, attempt)
    refuted = {one.code for one in withdrawals(situation, attempt)}
    kept = {code: savings for code, savings in found.items() if code not in refuted}
    unknown = {} if found or not attempt.limited_by else {attempt.limited_by: (0.0,)}
    return kept or unknown


def _direction(
    situation: Situation,
    kind: Kind,
    parent: Attempt | None,
    technique: Technique,
    limits: Savings,
) -> Direction:
    """Return the direction with the limit that it relieves for most; to depart, with all of it."""
    if kind == Kind.DEPART and parent is not None:
        reached = share_of_limit(situation, parent) or 1.0
        return Direction(text=technique.text, technique=technique, share=max(0.0, 1.0 - reached))
    gain = gain_of(situation, parent, technique, limits) if parent and limits else Gain()
    return Direction(
        text=technique.text,
        technique=technique,
        against=gain.code,
        share=gain.share,
        sizes=gain.sizes,
    )


def _asked_for(
    situation: Situation,
    kind: Kind,
    parent: Attempt | None,
    hints: Sequence[Hint],
    limits: Savings,
) -> Iterator[Direction]:
    """Yield the changes that critiques of the parent order: what speaks against a critique was
    found when the critique was checked."""
    if parent is None or kind not in (Kind.IMPROVE, Kind.FIX):
        return
    for hint in open_orders(situation, parent, hints):
        code = hint.code if hint.code in limits or hint.code in BOTTLENECK_TEXTS else ""
        gain = gain_expected(situation, parent, code, hint.gain, limits)
        yield Direction(
            text=hint.change,
            brings=frozenset(hint.brings),
            against=code,
            share=gain.share,
            sizes=gain.sizes,
        )


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
    situation: Situation, ranked: Sequence[Direction], hints: Sequence[Hint], tried: list[str]
) -> Iterator[Direction]:
    """Yield each direction with a twist, least tried first; then numbered variants."""
    refused = refused_aims(hints)
    hidden = situation.config.hardware_context == "none"
    allowed = [
        one
        for one in VARIATIONS
        if not one.aims & refused and (hidden or reaches_enough(one.words_per_fma, situation))
    ]
    made = [
        replace(one, text=f"{one.text}; with {twist.text}", share=0.0, sizes=())
        for twist, one in product(allowed, ranked)
        if one.technique and not twist.opposes & one.technique.aims
    ]
    yield from sorted(made, key=lambda one: tried.count(one.text))
    for number in count(2) if ranked else ():
        for one in (*ranked, *made):
            yield replace(one, text=f"{one.text}; variant {number}", share=0.0, sizes=())


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
