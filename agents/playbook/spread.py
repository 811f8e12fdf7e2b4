"""Fills a space evenly: the source as written, then as many other values as possible."""

from collections import Counter
from collections.abc import Iterator, Sequence

from cuda_llm.agents.tunables.tunable import Point, Space


def spread_out(
    space: Space, candidates: Sequence[dict[str, int]], tried: Sequence[Point]
) -> Iterator[dict[str, int]]:
    """Yields the defaults, then each time a point of the values that were tried least.

    Among equals the first candidate is taken. A structure in which other tunables do nothing, such
    as a naive kernel, has few values and so gets few of the points.
    """
    uses = Counter(pair for point in tried for pair in point.items())
    left = list(candidates)
    point = space.defaults
    while True:
        yield point
        uses.update(point.items())
        left = [one for one in left if one != point]
        if not left:
            return
        point = min(left, key=lambda one: sum(uses[pair] for pair in one.items()))
