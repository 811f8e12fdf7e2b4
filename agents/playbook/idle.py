"""Finds the tunables on which nothing depends that a timed size runs, from judged kernels.

Such a tunable belongs to a path that no timed size takes, or leaves the machine code as it is. Two
kernels ran alike where every launch at every timed size has the same name, geometry and counts:
modelled launches of one machine code are equal in every figure. Of measured kernels that is not
known.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from cuda_llm.agents.limits import profile_at, whole_profile
from cuda_llm.agents.playbook.history import History
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.tunables.space import Point, Space, is_valid
from cuda_llm.profile import LaunchProfile
from cuda_llm.search import Attempt

Ran = tuple[tuple[LaunchProfile, ...], ...]
"""The launches of a call at each timed size."""


def find_idle(
    situation: Situation, space: Space, judged: Sequence[tuple[Attempt, Point]], best: Point
) -> frozenset[str]:
    """Return the tunables in which alone two judged points differ that ran alike.

    Points of another structure than `best` has, the value of the first tunable, show nothing of
    other tunables: there these may be in use.
    """
    structure = space.tunables[0].name
    known = [(point, ran) for one, point in judged if (ran := _what_ran(situation, one))]
    found = set[str]()
    for (one, ran), (other, also_ran) in combinations(known, 2):
        changed = [name for name in one if one[name] != other[name]]
        shown = changed == [structure] or one[structure] == best[structure]
        if ran == also_ran and len(changed) == 1 and shown:
            found.add(changed[0])
    return frozenset(found)


def _what_ran(situation: Situation, attempt: Attempt) -> Ran | None:
    """Return what ran at the timed sizes; None where that is not known of each of them."""
    profile = whole_profile(situation, attempt)
    if profile is None or profile.source != "modelled":
        return None
    last = len(situation.sizes) - 1
    at_sizes = [profile_at(profile, size, last) for size in range(last + 1)]
    ran = tuple(one.launches if one else () for one in at_sizes)
    return ran if ran and all(ran) else None


def fix_idle(space: Space, idle: frozenset[str]) -> Space:
    """Return the space in which idle tunables have their defaults alone."""
    tunables = tuple(
        replace(one, values=(one.default,)) if one.name in idle else one for one in space.tunables
    )
    return replace(space, tunables=tunables)


def history_within(space: Space, history: History) -> History:
    """Return the history of a search of `space`, whose fixed tunables have their defaults."""
    fixed = {one.name: one.default for one in space.tunables if len(one.values) == 1}
    points = [replace(one, point={**one.point, **fixed}) for one in history.tried]
    return replace(history, tried=tuple(one for one in points if is_valid(space, one.point)))
