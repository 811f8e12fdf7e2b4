"""Programs on tensor cores whose results are recorded on an H200, and compared with that record."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from asynchronous_oracle import REDUCTIONS, TILES
from asynchronous_oracle import SOURCE as ASYNCHRONOUS
from tensor_cases import ROWS, cases_for, operands, pack, source
from wgmma_cases import THREADS, group_cases, group_source, group_words
from wgmma_gemms import GEMM
from wmma_cases import (
    FRAGMENTS,
    SOURCE,
    wmma_cases,
    wmma_input,
    wmma_result_bytes,
    wmma_source,
)
from wmma_cases import ROWS as WMMA_ROWS

Array = npt.NDArray[Any]
CAPABILITY = 90
CLUSTERS = Path(__file__).parents[1] / "fixtures/recorded/clusters.cu"
RECORD = "tensor_h200.npz"
RECORDED = Path(__file__).parents[1] / "fixtures" / "recorded" / RECORD


@dataclass(frozen=True)
class TensorCall:
    """One program: what goes in, what it leaves, and under which names that is kept."""

    name: str
    source: str
    given: Array
    left: tuple[Array, ...]
    """Zeros, as many as the program writes at most."""
    parts: tuple[str, ...]
    rows: int


def mma_words() -> Array:
    """Operands of every spelling, one after another."""
    packed = []
    for case in cases_for(CAPABILITY):
        given = operands(case)
        packed += [np.concatenate([pack(case, which, given[which]) for which in "abc"], axis=1)]
    return np.concatenate([block.ravel() for block in packed])


def _calls() -> tuple[TensorCall, ...]:
    cases = wmma_cases(CAPABILITY)
    words = sum(ROWS * 32 * case.words("d") for case in cases_for(CAPABILITY))
    size = sum(wmma_result_bytes(case) * WMMA_ROWS for case in cases)
    fragments = np.zeros(len(cases) * WMMA_ROWS * FRAGMENTS, np.uint64)
    rows = np.random.default_rng(5).integers(0, 2**16, (32, 8), dtype=np.uint16)
    return (
        TensorCall(
            "mma",
            source(cases_for(CAPABILITY)),
            mma_words(),
            (np.zeros(words, np.uint32),),
            ("mma",),
            ROWS,
        ),
        TensorCall(
            "wmma",
            wmma_source(CAPABILITY),
            wmma_input(CAPABILITY),
            (np.zeros(size, np.uint8), fragments),
            ("wmma", "fragments"),
            WMMA_ROWS,
        ),
        TensorCall(
            "matrices",
            (SOURCE.parent / "matrices.cu").read_text(),
            rows,
            (np.zeros((8, 4, 32), np.uint32),),
            ("matrices",),
            32,
        ),
    )


CALLS = _calls()


@cache
def group_calls() -> tuple[TensorCall, ...]:
    """Products of warpgroups; drawing their operands takes a second."""
    calls = []
    for part in range(GROUP_PARTS):
        cases = group_cases()[part::GROUP_PARTS]
        words = sum(case.rows * 2 * THREADS * case.results for case in cases)
        given = np.concatenate([group_words(case) for case in cases])
        name = f"wgmma{part}"
        left = (np.zeros(words, np.uint32),)
        calls.append(TensorCall(name, group_source(cases), given, left, (name,), 0))
    return tuple(calls)


GROUP_PARTS = 4


KEPT_WORDS = 8192
"""Of a wgmma, about so many at most."""
KEPT_FRAGMENTS = 2
"""Operand sets of a wmma."""
GEMM_STEP = 7


def _kept(part: str, size: int) -> Array:
    """Places of a result that the record has: all, or some of each column, register and thread."""
    places = np.arange(size)
    if part.startswith("gemm"):
        return places[::GEMM_STEP]
    if part == "fragments":
        return places.reshape(-1, WMMA_ROWS, FRAGMENTS)[:, :KEPT_FRAGMENTS].ravel()
    if not part.startswith("wgmma"):
        return places
    found, at = [], 0
    for case in group_cases()[int(part.removeprefix("wgmma")) :: GROUP_PARTS]:
        words = case.rows * 2 * THREADS * case.results
        # Odd, so that it meets every thread.
        found.append(places[at : at + words : words // KEPT_WORDS | 1])
        at += words
    return np.concatenate(found)


def thinned(part: str, whole: Array) -> Array:
    """What is recorded of a result."""
    return np.asarray(whole.ravel()[_kept(part, whole.size)])


def recorded(part: str, ours: Array) -> Array:
    """What an H200 left; `ours` where that is not kept."""
    theirs = ours.flatten()
    with np.load(RECORDED) as arrays:
        theirs[_kept(part, ours.size)] = arrays[part]
    return theirs.reshape(ours.shape)


def recorded_spellings() -> set[str]:
    """Instructions of Turing to Hopper beyond the lanes' own that are compared with an H200."""
    found = {case.spelling for case in cases_for(CAPABILITY)}
    found |= {f"wmma {case.label}" for case in wmma_cases(CAPABILITY)}
    found |= {case.spelling for case in group_cases()}
    asm = re.compile(r"(?:ld|st|mov)matrix\.[\w.:]+|wgmma\.[cfw]\w+")
    for text in (CALLS[2].source, GEMM):
        found |= set(asm.findall(text))
    found |= {f"cp.reduce.async.bulk {words}" for words in REDUCTIONS}
    found |= {f"cp.async.bulk.tensor.{numbers[3]}d" for numbers in TILES}
    others = re.compile(
        r"(?<!\.)(?:mbarrier|cp\.async|st\.async|barrier\.cluster|fence\.\w+|mapa)\.[\w.:]*\w"
    )
    for text in (ASYNCHRONOUS, GEMM, CLUSTERS.read_text()):
        found |= set(others.findall(text))
    found.add("cp.reduce.async.bulk.tensor.2d add")  # of what tiles_out.cu has, the part recorded
    return found - {"cp.async.bulk.tensor"}  # of a macro, counted by rank above
