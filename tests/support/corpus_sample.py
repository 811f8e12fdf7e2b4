"""What a run of the tests judges of a long corpus or of a property: few of each kind, or all."""

import os
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

EVIDENCE = "CUDA_LLM_EVIDENCE"
"""Set by `make evidence`: every member of every corpus is judged, and no test is left out."""

Member = TypeVar("Member")


def is_whole() -> bool:
    """Whether this run judges every member of every corpus."""
    return bool(os.environ.get(EVIDENCE))


def examples(whole: int) -> int:
    """Return how many examples a property is asked of: the same few each time, or `whole`."""
    return whole if is_whole() else max(8, whole // 3)


def sample(
    members: Iterable[Member], kind: Callable[[Member], Hashable] = lambda _: "", *, every: int
) -> list[Member]:
    """Return one in `every` members of each kind, in their order, and at least one of each.

    Without `kind` all are alike.

    Kinds begin at different members, so that what stands at one place in all of them (the third
    style of each task) is judged for some. Nothing is drawn: two runs judge the same.
    """
    ordered = list(members)
    if is_whole():
        return ordered
    places: defaultdict[Hashable, list[int]] = defaultdict(list)
    for place, member in enumerate(ordered):
        places[kind(member)].append(place)
    chosen = {
        place
        for number, found in enumerate(places.values())
        for place in found[number % min(every, len(found)) :: every]
    }
    return [ordered[place] for place in sorted(chosen)]
