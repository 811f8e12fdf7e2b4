"""The space of rewrites that fit a kernel, and the kernels that they make of it.

A rewrite is a function from a source and a value to another source, or to None where its pattern
is not found. It is a tunable of the kernel: 0 leaves the kernel as it is. A point of the space is
written by one rewrite after the other, so rewrites compose, and a search of tunables searches them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from cuda_llm.agents.playbook.kernels import TunableKernel
from cuda_llm.agents.rewrites import (
    annotations,
    block_size,
    elements,
    full_tiles,
    neighbours,
    padding,
    vector_width,
)
from cuda_llm.agents.tunables.space import HintPreference, Point, Space, Tunable
from cuda_llm.source_tokens import normal_sha


@dataclass(frozen=True, kw_only=True)
class Rewrite:
    """A way to rewrite kernels, as a tunable."""

    name: str
    apply: Callable[[str, int], str | None]
    """Returns the source rewritten with a value, or None where there is nothing to rewrite."""
    values: tuple[int, ...]
    words: Callable[[int], str]
    """Returns what the rewrite with a value did, in plain words."""
    relieves: Mapping[str, int] = field(default_factory=dict)
    """The value to try early, by the code of a bottleneck."""


def _edges(value: int) -> str:
    return f"blocks of {value // 1000} x {value % 1000} threads"


def _unrolled(value: int) -> str:
    return (
        f"innermost loops unrolled {value} times" if value > 1 else "innermost loops not unrolled"
    )


def _bounds(value: int) -> str:
    return "launch bounds" + (f" for {value} resident blocks" if value > 1 else "")


REWRITES = (
    Rewrite(
        name="block_threads",
        apply=block_size.block_threads,
        values=block_size.THREADS,
        words="blocks of {} threads".format,
        relieves={"low_occupancy": 256, "tail": 128, "latency": 512},
    ),
    Rewrite(
        name="block_shape",
        apply=block_size.block_shape,
        values=block_size.SHAPES,
        words=_edges,
        relieves={"uncoalesced_global": 32008, "latency": 32008},
    ),
    Rewrite(
        name="tile_edge",
        apply=block_size.tile_edge,
        values=block_size.TILES,
        words=lambda value: f"tiles of {value} x {value}",
        relieves={"uncoalesced_global": 32, "dram_bandwidth": 32, "l2_bandwidth": 32},
    ),
    Rewrite(
        name="vector_width",
        apply=vector_width.wider_accesses,
        values=vector_width.WIDTHS,
        words="{} neighbouring elements in one access where they are aligned".format,
        relieves={
            "uncoalesced_global": 4,
            "dram_bandwidth": 4,
            "l2_bandwidth": 4,
            "l1_bandwidth": 4,
            "issue": 4,
            "int": 4,
            "latency": 4,
            "launch_overhead": 4,
        },
    ),
    Rewrite(
        name="neighbours",
        apply=neighbours.neighbouring_loads,
        values=neighbours.NEIGHBOURS,
        words="{} neighbouring loads as one where they are aligned".format,
        relieves={
            "uncoalesced_global": 4,
            "dram_bandwidth": 4,
            "l2_bandwidth": 4,
            "l1_bandwidth": 4,
            "issue": 4,
            "latency": 4,
        },
    ),
    Rewrite(
        name="full_tiles",
        apply=full_tiles.full_tiles,
        values=(1,),
        words=lambda _: "one check of bounds for a block that lies within them",
        relieves={"latency": 1, "issue": 1},
    ),
    Rewrite(
        name="elements",
        apply=elements.more_elements,
        values=elements.ELEMENTS,
        words="{} elements a thread in fewer blocks".format,
        relieves={"launch_overhead": 4, "latency": 4, "atomic_contention": 8, "tail": 2},
    ),
    Rewrite(
        name="fewer_threads",
        apply=elements.fewer_threads,
        values=elements.ELEMENTS,
        words="{} elements a thread in blocks of fewer threads".format,
        relieves={"shared_bandwidth": 4, "latency": 4, "issue": 4, "int": 4},
    ),
    Rewrite(
        name="padding",
        apply=padding.padded_tiles,
        values=padding.PADDINGS,
        words="rows of shared tiles {} longer".format,
        relieves={"bank_conflicts": 1},
    ),
    Rewrite(
        name="unrolling",
        apply=annotations.unrolled,
        values=annotations.UNROLLED,
        words=_unrolled,
        relieves={"latency": 4, "issue": 4, "int": 4},
    ),
    Rewrite(
        name="restrict",
        apply=annotations.restricted,
        values=(1,),
        words=lambda _: "pointers declared __restrict__, for read-only loads",
        relieves={"latency": 1},
    ),
    Rewrite(
        name="launch_bounds",
        apply=annotations.launch_bounds,
        values=annotations.RESIDENT,
        words=_bounds,
        relieves={"low_occupancy": 4},
    ),
)
"""The rewrites in the order in which they are applied."""

LOOKED_FOR = (
    "a constant block size, a grid that follows it, loops along pointers, tiles in shared memory, "
    "pointer parameters"
)


class RewrittenKernel(TunableKernel):
    """Writes the kernel that rewrites make of a source."""

    def write(self, point: Point) -> str:
        """Return the source rewritten with the values of a point."""
        return _rewrite(self._source, point)

    specialise = write

    def within(self, space: Space) -> "RewrittenKernel":
        """Return the kernel searched in a part of its space."""
        return RewrittenKernel(self._source, space)

    def describe(self, point: Point) -> str:
        """Return what the rewrites at a point changed, in plain words."""
        return describe_rewrites(point) or "the kernel as it was given"


def describe_rewrites(point: Point) -> str:
    """Return what rewrites changed, in plain words; empty where none is in `point`."""
    return "; ".join(one.words(point[one.name]) for one in REWRITES if point.get(one.name))


def find_rewrites(source: str) -> RewrittenKernel | None:
    """Return the kernel with the space of the rewrites that fit it; None where none fits."""
    tunables = tuple(_tunables(source))
    if not tunables:
        return None
    values = {one.name: one.values for one in tunables}
    codes = dict.fromkeys(code for one in REWRITES for code in one.relieves)
    preferences = tuple(
        HintPreference(code=code, values={one.name: one.relieves[code]})
        for code in codes
        for one in REWRITES
        if one.relieves.get(code) in values.get(one.name, ())
    )
    return RewrittenKernel(source, Space(tunables=tunables, preferences=preferences))


def _tunables(source: str) -> Iterator[Tunable]:
    """Yield a tunable for each rewrite that changes the source, or what earlier rewrites made."""
    made = source
    for one in REWRITES:
        found = {
            value: text
            for value in one.values
            for before in (source, made)
            if (text := one.apply(before, value)) and normal_sha(text) != normal_sha(before)
        }
        if found:
            made = one.apply(made, next(iter(found))) or made
            yield Tunable(name=one.name, default=0, values=(0, *found))


def _rewrite(source: str, point: Point) -> str:
    for one in REWRITES:
        value = point.get(one.name, 0)
        source = (value and one.apply(source, value)) or source
    return source
