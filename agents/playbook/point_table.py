"""The points of a space as arrays, with the features by which a forecast compares them.

Features are the size of each value (its logarithm, where values span a factor) and the power of two
that divides it: warps, vectors and banks make 96 threads more like 160 than like 100.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cuda_llm.agents.tunables.space import Point, Space, Tunable

Floats: TypeAlias = NDArray[np.float64]
Steps: TypeAlias = NDArray[np.float32]

WIDE_RATIO = 3
"""Values whose largest is more than so many times the smallest are compared by logarithms."""


@dataclass(frozen=True, eq=False)
class PointTable:
    """Points of a space, and their features."""

    space: Space
    rows: NDArray[np.intp]
    """Points by tunables: the index of the value."""
    features: Floats
    """Points by features, from 0 to 1."""
    steps: Steps
    """Points by steps: 1 where the point lies beyond the step. A step leads from one value of a
    feature to the next."""
    step_features: NDArray[np.intp]
    """The feature of each step."""
    step_widths: Floats

    def points(self) -> Iterator[dict[str, int]]:
        """Yield the points in the order of the rows."""
        return map(self.point, range(len(self.rows)))

    def point(self, at: int) -> dict[str, int]:
        """Return the point of a row."""
        places = zip(self.space.tunables, self.rows[at], strict=True)
        return {one.name: one.values[place] for one, place in places}


def tabulate(space: Space, points: Sequence[Point]) -> PointTable:
    """Return the table of `points`, which have allowed values, in their order."""
    places = [{value: at for at, value in enumerate(one.values)} for one in space.tunables]
    named = [(one.name, place) for one, place in zip(space.tunables, places, strict=True)]
    indices = [[place[point[name]] for name, place in named] for point in points]
    rows = np.array(indices, dtype=np.intp).reshape(len(points), len(named))
    by_value = [
        (at, feature) for at, one in enumerate(space.tunables) for feature in _features(one)
    ]
    features = np.zeros((len(points), len(by_value)))
    for number, (at, feature) in enumerate(by_value):
        features[:, number] = feature[rows[:, at]]
    levels = [
        (number, lower, upper)
        for number, (_, feature) in enumerate(by_value)
        for lower, upper in pairwise(np.unique(feature).tolist())
    ]
    step_features = np.array([number for number, _, _ in levels], dtype=np.intp)
    beyond = np.array([upper for _, _, upper in levels])
    return PointTable(
        space=space,
        rows=rows,
        features=features,
        steps=(features[:, step_features] >= beyond).astype(np.float32),
        step_features=step_features,
        step_widths=np.array([upper - lower for _, lower, upper in levels]),
    )


def _features(tunable: Tunable) -> list[Floats]:
    """Return features of the values, from 0 to 1: size, and the power of two that divides them."""
    values = np.array(tunable.values, dtype=np.float64)
    if len(values) < 2:
        return []
    positive = bool(values.min() > 0)
    wide = positive and values.max() > WIDE_RATIO * values.min()
    size = np.log2(values) if wide else values
    powers = np.array([(one & -one).bit_length() for one in tunable.values], dtype=np.float64)
    telling = positive and 1 < len(set(powers)) < len(values)
    return [_scaled(one) for one in ([size, powers] if telling else [size])]


def _scaled(values: Floats) -> Floats:
    scaled: Floats = (values - values.min()) / (values.max() - values.min())
    return scaled
