"""Writes the kernels that one source with tunables can become, and finds equal ones."""

import random
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import islice

from cuda_llm.agents.kernel_text.tokens import normal_sha
from cuda_llm.agents.tunables.space import Point, Space, is_valid, sample_points, valid_points
from cuda_llm.agents.tunables.write import write_point
from cuda_llm.search import Attempt


def describe_point(point: Point) -> str:
    """Returns the values in one line."""
    return ", ".join(f"{name} {value}" for name, value in point.items())


MAX_ENUMERATED = 4096
"""Spaces with more valid points are searched through a sample of them."""
SAMPLE_SIZE = 1024


class TunableKernel:
    """Writes the kernel at a point, and caches the hashes that show which points are equal."""

    def __init__(self, source: str, space: Space, *, keep_declarations: bool = False) -> None:
        self.space = space
        self._source = source
        self._keep_declarations = keep_declarations
        self._shas: dict[tuple[int, ...], str] = {}

    def write(self, point: Point) -> str:
        """Returns the source at a valid point: specialised, unless the declarations are kept."""
        return write_point(self._source, point, keep_declarations=self._keep_declarations)

    def sha(self, point: Point) -> str:
        """Returns a hash that is equal for points that specialise to the same kernel."""
        key = tuple(point[one.name] for one in self.space.tunables)
        if key not in self._shas:
            self._shas[key] = normal_sha(write_point(self._source, point))
        return self._shas[key]

    def point_of(self, tunables: Mapping[str, int]) -> dict[str, int] | None:
        """Returns the point an attempt was made at; None where it is not of this space."""
        point = {name: tunables[name] for name in self.space.defaults if name in tunables}
        return point if is_valid(self.space, point) else None

    def shas(self, attempts: Iterable[Attempt]) -> frozenset[str]:
        """Returns the hashes of the attempts at points of this space."""
        points = (self.point_of(one.tunables) for one in attempts)
        return frozenset(self.sha(point) for point in points if point)

    def candidates(self, rng: random.Random) -> list[dict[str, int]]:
        """Returns all valid points, or a sample where there are very many, in random order."""
        if 0 < len(self._first_points) <= MAX_ENUMERATED:
            return rng.sample(self._first_points, len(self._first_points))
        return list(islice(sample_points(self.space, rng.randrange(2**32)), SAMPLE_SIZE))

    @cached_property
    def _first_points(self) -> list[dict[str, int]]:
        return list(islice(valid_points(self.space), MAX_ENUMERATED + 1))
