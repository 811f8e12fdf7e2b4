"""Kernels and the same with one thing mended: what the headline of a diagnosis is judged by.

A situation is a kernel at one size; its mends each take one cause away, by a macro or a tunable.
The kernels of `tests/fixtures/diagnosed` have a macro for each cause, and every combination of them
is a situation; those of the playbooks are points. A third is held back, those whose names have the
smallest hashes: no rule of the diagnosis may be chosen by them.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import record

FIXTURES = record.ROOT / "tests/fixtures/diagnosed"
Point = Mapping[str, int]
"""Values of macros, by name."""


@dataclass(frozen=True, kw_only=True)
class Mend:
    """One cause taken away."""

    cause: str
    """Code of the bottleneck that it is for."""
    point: Point


@dataclass(frozen=True, kw_only=True)
class Situation:
    """A kernel at one size, and what can be mended of it."""

    task: str
    path: Path
    point: Point
    dims: Mapping[str, int]
    mends: tuple[Mend, ...]

    @property
    def name(self) -> str:
        """Return the task, the file, the size and the values of its macros."""
        values = " ".join(f"{name}={value}" for name, value in self.point.items())
        size = " ".join(f"{name}={value}" for name, value in self.dims.items())
        return f"{self.task}/{self.path.stem} [{size}] {values}"

    def source(self, point: Point) -> str:
        """Return the kernel with those values."""
        text = self.path.read_text()
        for name, value in point.items():
            text, count = re.subn(rf"(?m)^(#define {name}) \S+", rf"\1 {value}", text)
            assert count == 1, f"{self.path.name} does not define {name}"
        return text


SIZES: Mapping[str, Mapping[str, int]] = {
    "vector_add": {"n": 1 << 22},
    "reduction": {"n": 1 << 22},
    "histogram": {"n": 1 << 22, "num_bins": 256},
    "matrix_transpose": {"rows": 2048, "cols": 2048},
    "matrix_multiplication": {"M": 1024, "N": 1024, "K": 1024},
    "conv2d": {"H": 512, "W": 512, "R": 24, "S": 24},
}

MACROS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "adds_chunks": ("vector_add", {"NEIGHBOURS": "uncoalesced_global", "SINGLE": "fp64"}),
    "adds_on_few_blocks": ("vector_add", {"FILLS": "tail", "AHEAD": "latency"}),
    "adds_by_one_lane_in_eight": (
        "vector_add",
        {"ALL_LANES": "divergence", "ONE_LAUNCH": "launch_overhead"},
    ),
    "adds_through_an_array": (
        "vector_add",
        {"IN_REGISTERS": "local_memory", "LEAN": "low_occupancy"},
    ),
    "sums_in_a_strided_tree": ("reduction", {"SIDE_BY_SIDE": "bank_conflicts", "MANY": "latency"}),
    "sums_by_atomics": ("reduction", {"BLOCKS_FIRST": "atomic_contention", "AHEAD": "latency"}),
    "sums_in_few_threads": ("reduction", {"FILLS": "tail", "CHUNKS": "uncoalesced_global"}),
    "sums_in_rounds": ("reduction", {"FEW_ROUNDS": "launch_overhead"}),
    "sums_in_double": ("reduction", {"SINGLE": "fp64", "LEAN": "low_occupancy"}),
    "counts_for_all_blocks": ("histogram", {"PRIVATE": "atomic_contention", "WIDE": "latency"}),
    "counts_in_chunks": (
        "histogram",
        {"NEIGHBOURS": "uncoalesced_global", "LEAN": "low_occupancy"},
    ),
    "turns_in_a_tile": (
        "matrix_transpose",
        {
            "THROUGH_TILE": "uncoalesced_global",
            "PADDED": "bank_conflicts",
            "LEAN": "low_occupancy",
        },
    ),
    "turns_by_blocks_of_a_row": (
        "matrix_transpose",
        {"FILLS": "tail", "IN_REGISTERS": "local_memory"},
    ),
    "turns_twice": (
        "matrix_transpose",
        {"AT_ONCE": "dram_bandwidth", "ONE_LAUNCH": "launch_overhead"},
    ),
    "multiplies_tiles": (
        "matrix_multiplication",
        {"PADDED": "bank_conflicts", "TWO_BY_TWO": "shared_bandwidth", "SINGLE": "fp64"},
    ),
    "multiplies_past_the_cache": (
        "matrix_multiplication",
        {"CACHED": "l2_bandwidth", "NEIGHBOURS": "uncoalesced_global", "STAGED": "l1_bandwidth"},
    ),
    "convolves_past_the_cache": (
        "conv2d",
        {"CACHED": "l2_bandwidth", "SINGLE": "fp64", "PACKED": "divergence"},
    ),
    "convolves_in_a_tile": (
        "conv2d",
        {"ALONG_ROWS": "bank_conflicts", "FOUR": "shared_bandwidth", "LEAN": "low_occupancy"},
    ),
}
"""The kernels of the fixtures: their task, and which cause each macro takes away."""
MORE_MACROS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "adds_with_few_warps": ("vector_add", {"LEAN": "low_occupancy", "AHEAD": "latency"}),
    "sums_with_few_warps": ("reduction", {"LEAN": "low_occupancy", "AHEAD": "latency"}),
    "counts_with_few_warps": ("histogram", {"LEAN": "low_occupancy", "AHEAD": "latency"}),
    "convolves_through_an_array": (
        "conv2d",
        {"IN_REGISTERS": "local_memory", "NEIGHBOURS": "uncoalesced_global"},
    ),
    "multiplies_through_an_array": (
        "matrix_multiplication",
        {"IN_REGISTERS": "local_memory", "LEAN": "low_occupancy"},
    ),
}
"""Kernels with causes that few of the others have; a third of them is held back for itself."""
INVERTED = {"CHUNKS"}
"""Macros that take their cause away at 0."""


def _is_sensible(name: str, point: Point) -> bool:
    if name == "turns_in_a_tile":
        return bool(point["THROUGH_TILE"]) or not point["PADDED"]
    if name == "multiplies_past_the_cache":
        return bool(point["CACHED"]) or not point["STAGED"]
    return True


def _of_fixtures(
    kernels: Mapping[str, tuple[str, Mapping[str, str]]],
) -> Iterator[Situation]:
    for name, (task, causes) in kernels.items():
        for values in product((0, 1), repeat=len(causes)):
            mended = dict(zip(causes, values, strict=True))
            mends = tuple(
                Mend(cause=cause, point=_values(mended | {macro: 1}))
                for macro, cause in causes.items()
                if not mended[macro] and _is_sensible(name, mended | {macro: 1})
            )
            if mends and _is_sensible(name, mended):
                yield Situation(
                    task=task,
                    path=FIXTURES / f"{name}.cu",
                    point=_values(mended),
                    dims=SIZES[task],
                    mends=mends,
                )


def _values(mended: Mapping[str, int]) -> Point:
    return {name: 1 - value if name in INVERTED else value for name, value in mended.items()}


PLAYBOOKS: tuple[tuple[str, Point, Mapping[str, int], Mapping[str, Point]], ...] = (
    (
        "matrix_transpose",
        {"VARIANT": 0, "TILE": 32, "ITEMS": 4, "WIDTH": 1, "SKEW": 0},
        {"rows": 4096, "cols": 4096},
        {"uncoalesced_global": {"VARIANT": 2, "SKEW": 1}},
    ),
    (
        "matrix_transpose",
        {"VARIANT": 1, "TILE": 32, "ITEMS": 8, "WIDTH": 1, "SKEW": 0},
        {"rows": 4096, "cols": 4096},
        {"uncoalesced_global": {"VARIANT": 2, "SKEW": 2}},
    ),
    (
        "matrix_transpose",
        {"VARIANT": 2, "TILE": 32, "ITEMS": 4, "WIDTH": 1, "SKEW": 0},
        {"rows": 4096, "cols": 4096},
        {"bank_conflicts": {"SKEW": 1}},
    ),
    (
        "matrix_transpose",
        {"VARIANT": 2, "TILE": 64, "ITEMS": 8, "WIDTH": 4, "SKEW": 0},
        {"rows": 4096, "cols": 4096},
        {"bank_conflicts": {"SKEW": 2}},
    ),
    (
        "matrix_transpose",
        {"VARIANT": 2, "TILE": 64, "ITEMS": 16, "WIDTH": 1, "SKEW": 0},
        {"rows": 1024, "cols": 1024},
        {"bank_conflicts": {"SKEW": 1}},
    ),
    (
        "matrix_multiplication",
        {"TILED": 0, "SIDE": 16, "ITEMS": 1},
        {"M": 1024, "N": 1024, "K": 1024},
        {"l1_bandwidth": {"TILED": 1}},
    ),
    (
        "matrix_multiplication",
        {"TILED": 0, "SIDE": 8, "ITEMS": 1},
        {"M": 1024, "N": 1024, "K": 1024},
        {"l1_bandwidth": {"TILED": 1}},
    ),
    (
        "matrix_multiplication",
        {"TILED": 1, "SIDE": 16, "ITEMS": 1},
        {"M": 2048, "N": 2048, "K": 1024},
        {"shared_bandwidth": {"ITEMS": 2}},
    ),
    (
        "matrix_multiplication",
        {"TILED": 1, "SIDE": 16, "ITEMS": 2},
        {"M": 2048, "N": 2048, "K": 1024},
        {"shared_bandwidth": {"ITEMS": 4}},
    ),
    (
        "matrix_multiplication",
        {"TILED": 1, "SIDE": 8, "ITEMS": 1},
        {"M": 1024, "N": 1024, "K": 1024},
        {"shared_bandwidth": {"ITEMS": 2}},
    ),
    (
        "matrix_multiplication",
        {"TILED": 1, "SIDE": 16, "ITEMS": 4, "SPLITS": 1},
        {"M": 128, "N": 128, "K": 4096},
        {"tail": {"SPLITS": 8}},
    ),
    (
        "matrix_multiplication",
        {"TILED": 1, "SIDE": 16, "ITEMS": 4, "SPLITS": 1},
        {"M": 256, "N": 256, "K": 2048},
        {"tail": {"SPLITS": 8}},
    ),
    (
        "reduction",
        {"WITHIN": 0, "ACROSS": 0, "ITEMS": 4, "THREADS": 256},
        {"n": 1 << 22},
        {"atomic_contention": {"WITHIN": 2}},
    ),
    (
        "reduction",
        {"WITHIN": 0, "ACROSS": 0, "ITEMS": 8, "THREADS": 128},
        {"n": 1 << 20},
        {"atomic_contention": {"WITHIN": 1}},
    ),
    (
        "histogram",
        {"PRIVATE": 0, "COPIES": 1, "ACROSS": 0, "WIDTH": 1, "ITEMS": 4},
        {"n": 1 << 22, "num_bins": 256},
        {"atomic_contention": {"PRIVATE": 1}},
    ),
    (
        "histogram",
        {"PRIVATE": 1, "COPIES": 1, "SPREAD": 0, "ACROSS": 0, "WIDTH": 4, "ITEMS": 16},
        {"n": 1 << 22, "num_bins": 16},
        {"atomic_contention": {"COPIES": 4, "SPREAD": 1}},
    ),
    (
        "histogram",
        {"PRIVATE": 0, "COPIES": 1, "ACROSS": 0, "WIDTH": 4, "ITEMS": 16},
        {"n": 1 << 20, "num_bins": 64},
        {"atomic_contention": {"PRIVATE": 1}},
    ),
    (
        "conv2d",
        {"STAGED": 0, "FILTER": 0, "ACROSS": 32, "ITEMS": 1},
        {"H": 512, "W": 512, "R": 24, "S": 24},
        {"l1_bandwidth": {"ITEMS": 4}},
    ),
    (
        "conv2d",
        {"STAGED": 0, "FILTER": 0, "ACROSS": 64, "ITEMS": 2},
        {"H": 1024, "W": 1024, "R": 24, "S": 24},
        {"l1_bandwidth": {"ITEMS": 4}},
    ),
    (
        "conv2d",
        {"STAGED": 1, "FILTER": 1, "ACROSS": 32, "ITEMS": 1},
        {"H": 512, "W": 512, "R": 24, "S": 24},
        {"shared_bandwidth": {"ITEMS": 4}},
    ),
    (
        "conv2d",
        {"STAGED": 1, "FILTER": 1, "ACROSS": 32, "ITEMS": 2},
        {"H": 1024, "W": 1024, "R": 24, "S": 24},
        {"shared_bandwidth": {"ITEMS": 4}},
    ),
    (
        "conv2d",
        {"STAGED": 1, "FILTER": 1, "ACROSS": 32, "ITEMS": 8, "DOWN": 8},
        {"H": 128, "W": 128, "R": 24, "S": 24},
        {"tail": {"ITEMS": 1}},
    ),
)
"""Points of playbooks: task, values, size, and what each mend changes."""


def _of_playbooks() -> Iterator[Situation]:
    for task, point, dims, mends in PLAYBOOKS:
        yield Situation(
            task=task,
            path=record.ROOT / "tasks" / task / "playbook.cu",
            point=point,
            dims=dims,
            mends=tuple(
                Mend(cause=cause, point={**point, **changed}) for cause, changed in mends.items()
            ),
        )


def situations() -> list[Situation]:
    """Return all situations, each with at least one mend."""
    return [*_first(), *_of_fixtures(MORE_MACROS)]


def _first() -> list[Situation]:
    return [*_of_fixtures(MACROS), *_of_playbooks()]


def held_back() -> frozenset[str]:
    """Return the names of the situations that no rule of the diagnosis may be chosen by."""
    return _third(_first()) | _third(list(_of_fixtures(MORE_MACROS)))


def _third(found: list[Situation]) -> frozenset[str]:
    names = sorted((one.name for one in found), key=_digest)
    return frozenset(names[: len(names) // 3])


def _digest(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=8).digest()
