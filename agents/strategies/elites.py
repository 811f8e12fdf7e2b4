"""Kernels worth keeping beside the incumbent: the best at each size, the best of each structure.

They follow from the attempts: nothing is remembered.
"""

from collections.abc import Sequence
from dataclasses import replace

from cuda_llm.agents.kernel_facts import SourceFacts, signs_of
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.acceptance import TIE, passed_by_speed
from cuda_llm.agents.strategies.briefs import Assignment
from cuda_llm.agents.techniques.refuted import structure_of
from cuda_llm.figure_wording import name_sizes
from cuda_llm.search import Attempt, Brief, Kind

NEAR = 1.25
"""A kernel that at every size is this many times slower than the best there is no elite."""


def single_kernels(situation: Situation) -> list[Attempt]:
    """Return the attempts that passed and are no composition of two, fastest first."""
    return [
        one
        for one in passed_by_speed(situation.attempts)
        if one.kind != Kind.COMPOSE and len(one.times_us) == len(situation.sizes)
    ]


def best_at_sizes(situation: Situation) -> tuple[Attempt, ...]:
    """Return the fastest kernel at each timed size; of equals the one faster over all sizes."""
    known = single_kernels(situation)
    indices = range(len(situation.sizes)) if known else ()
    return tuple(min(known, key=lambda one: one.times_us[index]) for index in indices)


def best_of_structures(situation: Situation) -> tuple[Attempt, ...]:
    """Return the fastest kernel of each structure, fastest first."""
    kept: dict[frozenset[str], Attempt] = {}
    for one in single_kernels(situation):
        kept.setdefault(structure_of(situation, one), one)
    return tuple(kept.values())


def elites(situation: Situation) -> tuple[Attempt, ...]:
    """Return the best at any size and the best of any structure, without the incumbent, fastest
    first; only such as are `NEAR` the best at some size."""
    best = best_at_sizes(situation)
    found = {one.id: one for one in (*best, *best_of_structures(situation))}
    incumbent = situation.incumbent.id if situation.incumbent else None
    near = [
        one
        for one in found.values()
        if one.id != incumbent
        and any(
            time_us <= NEAR * top.times_us[index]
            for index, (time_us, top) in enumerate(zip(one.times_us, best, strict=True))
        )
    ]
    return tuple(passed_by_speed(near))


def improve_elite(situation: Situation, orders: Sequence[Assignment]) -> list[Assignment]:
    """Have the last order to improve improve an elite instead, each of them in turn by rounds."""
    known = elites(situation)
    places = [at for at, (kind, _) in enumerate(orders) if kind == Kind.IMPROVE]
    changed = list(orders)
    if known and len(places) > 1:
        changed[places[-1]] = (Kind.IMPROVE, known[situation.round % len(known)])
    return changed


def show_second(situation: Situation, briefs: Sequence[Brief]) -> tuple[Brief, ...]:
    """Show the second order to improve another kernel, that of the next elite in turn.

    Without one that is faster somewhere, or has what the parent has not, the orders stay.
    """
    places = [at for at, one in enumerate(briefs) if one.kind == Kind.IMPROVE]
    if len(places) < 2:
        return tuple(briefs)
    brief = briefs[places[1]]
    parent = situation.attempt(brief.parent or "")
    others = [one for one in elites(situation) if one.id != parent.id]
    made = list(briefs)
    for turn in range(len(others)):
        second = others[(situation.round + turn) % len(others)]
        direction = graft_direction(situation, parent, second)
        if direction:
            made[places[1]] = replace(
                brief,
                second=second.id,
                direction=direction if brief.direction else "",
                against="",
                share=0.0,
            )
            break
    return tuple(made)


def graft_direction(situation: Situation, parent: Attempt, second: Attempt) -> str:
    """Return what to take over from the second kernel, or where to run it; empty for nothing."""
    names = name_sizes(situation.sizes)
    tie = 1 + TIE
    pairs = zip(names, parent.times_us, second.times_us, strict=False)
    faster = [name for name, mine, its in pairs if mine > its * tie]
    if len(faster) == len(names):
        faster = ["every size"]
    has = _signs(situation, second) - _signs(situation, parent)
    what = ", ".join(sorted(one.replace("_", " ") for one in has))
    if faster and not what:
        where = "; ".join(faster)
        return f"choose between both kernels by size in solve: {second.id} is faster at {where}"
    if faster:
        where = f"what makes {second.id} faster at {'; '.join(faster)}"
        return f"graft into {parent.id} {where} (it has: {what})"
    return f"graft into {parent.id} what {second.id} has and it has not: {what}" if what else ""


def _signs(situation: Situation, attempt: Attempt) -> frozenset[str]:
    """Return the techniques that its text shows; none of a playbook kernel: it is kept back."""
    if attempt.written_by == "playbook":
        return frozenset()
    return signs_of(SourceFacts(situation.archive.source(attempt.id)))
