"""Programs on tensor cores whose results are recorded on an H200, and compared with that record."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tensor_cases import ROWS, cases_for, operands, pack, source
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
