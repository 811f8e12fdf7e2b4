"""Promises that attempts have refuted: savings of a bottleneck that are not promised again to
kernels of the same structure.
"""

from collections.abc import Iterator
from functools import lru_cache

from cuda_llm.agents.kernel_facts import facts_of, signs_of
from cuda_llm.agents.limits import NEGLIGIBLE
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.techniques.catalogue import CHANGES
from cuda_llm.agents.techniques.gains import savings_of, share_of_score
from cuda_llm.agents.techniques.structures import STRUCTURES
from cuda_llm.agents.techniques.task_kind import TaskKind, kind_of
from cuda_llm.predictions import Refutation, Withdrawal
from cuda_llm.search import Attempt, Kind

NOTHING = 0.25
"""Part of a promised saving below which the saving came to nothing."""
WORSE = 0.1
"""Part of the time by which a kernel may be slower and still show what fixing a bottleneck gives:
a kernel that is slower yet has lost by something else."""
GONE = 0.5
"""Part of its promise in the parent below which a bottleneck is gone."""


def structure_of(situation: Situation, attempt: Attempt) -> frozenset[str]:
    """Return the signs in the kernel's text that distinguish structures for this kind of task."""
    return _structure(situation.archive.source(attempt.id), kind_of(situation.task))


@lru_cache(maxsize=256)
def _structure(source: str, kind: TaskKind) -> frozenset[str]:
    """Every brief of a round asks for the structures of the same kernels, which takes milliseconds
    each."""
    telling = {one.shown_by for one in STRUCTURES if kind in one.tasks and one.shown_by}
    facts = facts_of(source)
    shared = {"shared_memory"} if facts.shared_arrays else set[str]()
    return frozenset((signs_of(facts) & telling) | shared)


def withdrawals(situation: Situation, attempt: Attempt) -> tuple[Withdrawal, ...]:
    """Return the promises about the attempt's bottlenecks that no brief may make, one a bottleneck.

    A promise is refuted by a kernel that was ordered to fix the bottleneck of a kernel of this
    structure, is not much slower, and saved less than a quarter of what was promised: at once where
    the bottleneck is gone, else the second time.
    """
    codes = savings_of(situation, attempt)
    found: dict[str, Withdrawal] = {}
    tried = set[str]()
    for one in orders_in_vain(situation, attempt) if codes else ():
        if one.code in codes and (one.why is Refutation.GONE_IN_VAIN or one.code in tried):
            found[one.code] = one
        tried.add(one.code)
    return tuple(found.values())


def orders_in_vain(situation: Situation, attempt: Attempt) -> Iterator[Withdrawal]:
    """Yield the orders to kernels of the attempt's structure that came to nothing, oldest first; a
    technique that such an order named is not ordered of the attempt."""
    structure = structure_of(situation, attempt)
    by_id = {one.id: one for one in situation.attempts}
    for child in situation.attempts:
        parent = by_id.get(child.parent or "")
        if parent is None or not _is_trial(child, parent):
            continue
        had = 1.0 - (parent.speedup or 0.0) / (child.speedup or 1.0)
        if not -WORSE <= had < NOTHING:
            continue
        if attempt.id != parent.id and structure_of(situation, parent) != structure:
            continue
        promises = savings_of(situation, parent)
        code = _ordered(child, tuple(promises))
        promised = share_of_score(situation, parent, promises.get(code, ()))
        if promised < NEGLIGIBLE or had >= NOTHING * promised:
            continue
        left = share_of_score(situation, child, savings_of(situation, child).get(code, ()))
        yield Withdrawal(
            code=code,
            why=Refutation.GONE_IN_VAIN if left < GONE * promised else Refutation.TRIED_TWICE,
            attempt=child.id,
            promised=promised,
            had=had,
        )


def _is_trial(child: Attempt, parent: Attempt) -> bool:
    """Return whether a kernel was ordered to be faster than its parent, and both have a score."""
    timed = child.speedup is not None and parent.speedup is not None
    return timed and child.kind is Kind.IMPROVE and not child.second


def _ordered(child: Attempt, codes: tuple[str, ...]) -> str:
    """Return the code of the bottleneck that the child's order was against; empty if unknown."""
    if child.predicted is not None:
        return child.predicted.code
    against = [one.against for one in CHANGES if child.direction.startswith(one.text)]
    return next((code for code in codes for one in against if code in one), "")
