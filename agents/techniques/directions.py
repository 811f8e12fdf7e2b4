"""A direction of its own for each brief of a round."""

import random
from collections.abc import Iterator
from itertools import chain, count, islice, product

from cuda_llm.agents.situation import Situation
from cuda_llm.agents.techniques.catalogue import CATALOGUE, VARIATIONS
from cuda_llm.agents.techniques.technique import Technique, fits
from cuda_llm.outcomes import Passed
from cuda_llm.predictions import rank
from cuda_llm.search import Attempt, Kind

UNRELATED = 99
"""Rank of a technique that relieves none of the known bottlenecks."""


def directions(
    situation: Situation, kind: Kind, number: int, *, parent: Attempt | None = None
) -> tuple[str, ...]:
    """Return `number` directions for briefs of one kind; empty texts without diversity.

    Best first: what fits the task, was tried least and relieves what limits `parent` (else the
    incumbent). The same situation gives the same answer, and a longer one only adds to a shorter.
    """
    if not situation.plan.components.diversity:
        return ("",) * number
    parent = parent or situation.incumbent
    limits = _limits(situation, parent)
    everywhere = [attempt.direction for attempt in situation.attempts]
    here = _tried_on(situation, parent) if kind in (Kind.FIX, Kind.IMPROVE) else everywhere

    def rank(technique: Technique) -> tuple[int, int, int]:
        relieved = [limits.index(code) for code in technique.against if code in limits]
        return (
            _times(technique.text, here),
            min(relieved, default=UNRELATED),
            0 if kind == Kind.FIX else _times(technique.text, everywhere),
        )

    fitting = [technique for technique in CATALOGUE if _may_try(technique, kind, situation)]
    ranked = sorted(_ordered(fitting, kind, situation), key=rank)
    return tuple(islice(_endless([technique.text for technique in ranked], here), number))


def _may_try(technique: Technique, kind: Kind, situation: Situation) -> bool:
    """Return whether it answers such an order, fits, and gives nothing away."""
    names_hardware = technique.needs > (0, 0) and situation.plan.hardware_context == "none"
    return kind in technique.kinds and not names_hardware and fits(technique, situation)


def _limits(situation: Situation, attempt: Attempt | None) -> list[str]:
    """Return codes of what limits `attempt`, dominating first; none where profiles are off."""
    if attempt is None or not attempt.passed or not situation.plan.components.profile:
        return []
    verdict = situation.archive.verdict(attempt.id)
    profile = verdict.profile if isinstance(verdict, Passed) else None
    if profile is None:
        return [attempt.limited_by] if attempt.limited_by else []
    ranked = rank(profile.bottlenecks, situation.predictions)
    return list(dict.fromkeys([*(one.code for one in ranked), *filter(None, [attempt.limited_by])]))


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
    shuffled = random.Random(f"{situation.plan.seed}/{situation.round}/{kind}")
    return shuffled.sample(found, len(found))


def _endless(texts: list[str], tried: list[str]) -> Iterator[str]:
    """Yield the texts; then each with a twist, least tried first; then numbered variants."""
    twisted = [f"{text}; with {twist}" for twist, text in product(VARIATIONS, texts)]
    first = [*texts, *sorted(twisted, key=tried.count)]
    return chain(first, (f"{text}; variant {number}" for number in count(2) for text in first))
