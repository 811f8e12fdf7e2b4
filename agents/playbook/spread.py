"""A look at all of a space: the source as written, then as many other values as can be."""

from collections import Counter
from collections.abc import Iterator, Sequence

from cuda_llm.agents.tunables.tunable import Point, Space


def spread_out(
    space: Space, candidates: Sequence[dict[str, int]], tried: Sequence[Point]
) -> Iterator[dict[str, int]]:
    """The defaults, then each time a point of the values that were shown least.

    Among equals the first candidate is taken. A structure in which other values mean nothing, such
    as a naive kernel, shows few values and so gets few of the points.
    """
    shown = Counter(pair for point in tried for pair in point.items())
    left = list(candidates)
    point = space.defaults
    while True:
        yield point
        shown.update(point.items())
        left = [one for one in left if one != point]
        if not left:
            return
        point = min(left, key=lambda one: sum(shown[pair] for pair in one.items()))
