"""Chooses the sizes at which an imported task is checked: small, different from each other, and
accepted by the module."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cuda_llm.errors import TaskError
from cuda_llm.tasks.task import DimRange
from cuda_llm.tools.pytorch.extents import Dims, Expressed, TraceAt

MOST_ELEMENTS = 1 << 17
"""Largest number of elements of all tensors of a check together."""
MOST_FLOPS = 12_000_000
_LEAST = (1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 16, 24, 32, 48, 64)
_EVEN = (1 << 16, 1 << 14, 4096, 1024, 512, 256, 128, 96, 64, 48, 32, 24, 16, 12, 10, 8, 6, 4, 2, 1)
_ODD = (1, 3, 5, 7, 13, 17, 33, 67, 129, 1023)
_EDGES = 5
_FEWEST_HIDDEN = 8
"""Least number of hidden sizes to draw from."""
_DRAWS = 24
"""Hidden sizes that are tried before a range is given to the validator."""


@dataclass(frozen=True, kw_only=True)
class SmallSizes:
    """Sizes of an imported task beside its own."""

    edge: tuple[Dims, ...]
    emulated: tuple[Dims, ...]
    hidden: Mapping[str, DimRange]


class TooLarge(TaskError):
    """The module accepts no size that is small enough."""


def choose_sizes(expressed: Expressed, trace_at: TraceAt, steps: Mapping[str, int]) -> SmallSizes:
    """Choose small sizes; the values of a dim are multiples of its step. Raises TooLarge."""
    own = expressed.dims
    chooser = _Chooser(own, trace_at, steps)
    least = {name: chooser.least(name) for name in own}
    small = {name: chooser.capped(name, least, 8) for name in own}
    if not chooser.fits(small):
        small = dict(least)
    if not chooser.fits(small):
        raise TooLarge(
            "its smallest size is too large to be checked element by element on the CPU "
            f"(more than {MOST_ELEMENTS:,} elements or {MOST_FLOPS:,} operations)"
        )
    emulated = list(chooser.largest(_EVEN, least))[:2]
    edges = list(chooser.edges(least))
    known = [*edges, *emulated] or [small]
    emulated = emulated or [small]
    return SmallSizes(
        edge=tuple(edges) or (small,),
        emulated=tuple(reversed(emulated)),
        hidden=chooser.hidden(known),
    )


def _odd(place: int) -> int:
    return _ODD[min(max(0, place), len(_ODD) - 1)]


class _Chooser:
    def __init__(self, own: Dims, trace_at: TraceAt, steps: Mapping[str, int]) -> None:
        self._own = own
        self._trace_at = trace_at
        self._steps = {name: steps.get(name, 1) for name in own}
        self._known: dict[tuple[int, ...], bool] = {}

    def runs(self, dims: Dims) -> bool:
        """Return whether the module accepts a size and no tensor is empty."""
        try:
            return all(one.elements for one in self._trace_at(dims).tensors)
        except TaskError:
            return False

    def fits(self, dims: Dims) -> bool:
        """Return whether a size runs and is small."""
        key = tuple(dims.values())
        if key not in self._known:
            self._known[key] = self._fits(dims)
        return self._known[key]

    def _fits(self, dims: Dims) -> bool:
        if not self.runs(dims):
            return False
        trace = self._trace_at(dims)
        elements = sum(one.elements for one in trace.tensors)
        work = sum(max(one.flops, one.bytes_moved // 4) for one in trace.operators)
        return elements <= MOST_ELEMENTS and work <= MOST_FLOPS

    def least(self, name: str) -> int:
        """Return the smallest value of a dim that the module accepts."""
        own = self._own[name]
        smaller = [one * self._steps[name] for one in _LEAST if one * self._steps[name] < own]
        return next((one for one in smaller if self.runs({**self._own, name: one})), own)

    def capped(self, name: str, least: Dims, cap: int) -> int:
        """Return a value of a dim that is about `cap`, but at least `least`, at most its own."""
        step = self._steps[name]
        return max(least[name], min(self._own[name], -(-cap // step) * step))

    def largest(self, caps: Sequence[int], least: Dims) -> Iterator[Dims]:
        """Yield small sizes, the largest first, each dim at most as long as its own."""
        before: Dims = {}
        for cap in caps:
            dims = {name: self.capped(name, least, cap) for name in self._own}
            if dims != before and self.fits(dims):
                before = dims
                yield dims

    def edges(self, least: Dims) -> Iterator[Dims]:
        """Yield sizes of odd extents that differ from dim to dim."""
        found: list[Dims] = []
        for start in range(len(_ODD)):
            # Rows longer than columns, and shorter, in turn; equal where nothing else fits. A
            # single element comes last: of a normalisation it is the weight, up to a sign.
            for shift in ((-1, 1, 0), (1, -1, 0))[start % 2]:
                dims = {
                    name: self.capped(name, least, _odd(start - shift * place) * self._steps[name])
                    for place, name in enumerate(self._own)
                }
                if dims not in found and self.fits(dims):
                    found.append(dims)
                    break
        last, places = len(found) - 1, min(len(found), _EDGES) - 1
        chosen = sorted({round(place * last / max(1, places)) for place in range(places + 1)})
        yield from (found[place] for place in chosen)

    def hidden(self, known: Sequence[Dims]) -> Mapping[str, DimRange]:
        """Return ranges of sizes that the module accepts, as far as trials show."""
        ranges = {
            name: (min(one[name] for one in known), max(one[name] for one in known))
            for name in self._own
        }
        last = known[-1]
        for name, (low, high) in list(ranges.items()):
            counts = (
                (most - least) // self._steps[one] + 1 for one, (least, most) in ranges.items()
            )
            if math.prod(counts) >= _FEWEST_HIDDEN:
                break
            wider = {**ranges, name: (low, high + _FEWEST_HIDDEN * self._steps[name])}
            if self._all_run(wider):
                ranges = wider
        while not self._all_run(ranges):
            wide = [name for name, (low, high) in ranges.items() if low < high]
            name = max(wide, key=lambda one: ranges[one][1] - ranges[one][0])
            ranges[name] = (last[name], last[name])
        return {
            name: DimRange(minimum=low, maximum=high, multiple_of=self._steps[name])
            for name, (low, high) in ranges.items()
        }

    def _all_run(self, ranges: Mapping[str, tuple[int, int]]) -> bool:
        if all(low == high for low, high in ranges.values()):
            return True
        rng = np.random.default_rng(1)
        draws = (
            {
                name: int(rng.integers(low // self._steps[name], high // self._steps[name] + 1))
                * self._steps[name]
                for name, (low, high) in ranges.items()
            }
            for _ in range(_DRAWS)
        )
        return all(map(self.runs, draws))
