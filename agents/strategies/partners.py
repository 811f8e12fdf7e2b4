"""Which other kernels of a run are worth showing beside a kernel: the best at each size and of each
structure, where they are faster beyond a tie.

They follow from the attempts: nothing is remembered.
"""

from collections.abc import Collection, Sequence

from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.acceptance import faster_at, passed_by_speed
from cuda_llm.agents.strategies.briefs import Assignment, Pair
from cuda_llm.agents.techniques.directions import Direction, open_orders
from cuda_llm.agents.techniques.objections import signs_in_text
from cuda_llm.agents.techniques.refuted import structure_of
from cuda_llm.figure_wording import name_sizes
from cuda_llm.search import Attempt, Kind


def single_kernels(situation: Situation) -> list[Attempt]:
    """Return the attempts that passed and are no composition of two, fastest first."""
    return [
        one
        for one in passed_by_speed(situation.attempts)
        if one.kind != Kind.COMPOSE and len(one.times_us) == len(situation.sizes)
    ]


def best_at_sizes(situation: Situation) -> tuple[Attempt, ...]:
    """Return the best kernel at each timed size: of those that tie there, the fastest over all
    sizes."""
    known = single_kernels(situation)
    best = list[Attempt]()
    for index in range(len(situation.sizes)) if known else ():
        fastest = min(known, key=lambda one, at=index: one.times_us[at])  # type: ignore[misc]
        best.append(next(one for one in known if index not in faster_at(fastest, one)))
    return tuple(best)


def best_of_structures(situation: Situation) -> tuple[Attempt, ...]:
    """Return the fastest kernel of each structure, fastest first."""
    kept: dict[frozenset[str], Attempt] = {}
    for one in single_kernels(situation):
        kept.setdefault(structure_of(situation, one), one)
    return tuple(kept.values())


def find_partners(situation: Situation, beside: Attempt) -> tuple[Attempt, ...]:
    """Return the best at any size and the best of any structure that are faster than `beside` at
    some size by more than a tie; the one that is faster by most comes first."""
    best = {one.id: one for one in (*best_at_sizes(situation), *best_of_structures(situation))}
    faster = [one for one in best.values() if faster_at(one, beside)]
    return tuple(sorted(faster, key=lambda one: -_largest_ratio(one, beside)))


def _largest_ratio(one: Attempt, beside: Attempt) -> float:
    return max(its / mine for mine, its in zip(one.times_us, beside.times_us, strict=False))


def find_pair(situation: Situation, orders: Sequence[Assignment]) -> Pair | None:
    """Return the kernel that the last order to improve is to show beside its parent: one that is
    faster at some size, and that no order on that parent showed yet, if there is one.

    None where there is no such kernel; where no order is left for it besides one of its own and the
    changes that critiques order; and where a source would be that of a playbook, which no prompt
    shows.
    """
    places = [at for at, (kind, _) in enumerate(orders) if kind == Kind.IMPROVE]
    parent = orders[places[-1]][1] if places else None
    if parent is None or parent.written_by == "playbook":
        return None
    ordered = len(open_orders(situation, parent, situation.performance_hints))
    shown = [one for one in find_partners(situation, parent) if one.written_by != "playbook"]
    if not shown or len(places) < 2 or len(places) <= ordered:
        return None
    tried = {one.second for one in situation.attempts if one.parent == parent.id}
    new = [one for one in shown if one.id not in tried]
    second = new[0] if new else shown[situation.round % len(shown)]
    return Pair(
        place=places[-1],
        second=second,
        direction=Direction(
            text=graft_direction(situation, parent, second), sizes=faster_at(second, parent)
        ),
    )


def graft_direction(situation: Situation, parent: Attempt, second: Attempt) -> str:
    """Return what to take over from the second kernel, or where to run it."""
    where = _name_places(situation, faster_at(second, parent))
    has = signs_in_text(situation, second) - signs_in_text(situation, parent)
    if not has:
        return (
            f"take over what makes {second.id} faster at {where}, or choose between both kernels "
            "by size in solve"
        )
    what = ", ".join(sorted(one.replace("_", " ") for one in has))
    return f"graft into {parent.id} what makes {second.id} faster at {where} (it has: {what})"


def _name_places(situation: Situation, sizes: Collection[int]) -> str:
    names = name_sizes(situation.sizes)
    return "every size" if len(sizes) == len(names) else "; ".join(names[one] for one in sizes)
