"""What an H200 gave for every operation that its assembler accepts."""

import json
import lzma
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from recorded_rows import ROWS, Column, bits_of

from cuda_llm.tools.emulator.ops.lane_op import LaneOp

FILE = Path(__file__).parents[1] / "fixtures/recorded/ptx_operations_h200.xz"


def stored_bytes(spelling: str, t: str) -> int:
    """Bytes of a recorded result. Narrow integers of cvt are kept with their extension."""
    if t == "pred":
        return 1
    if spelling.startswith("cvt.") and t in ("u8", "s8", "u16", "s16"):
        return 4
    return bits_of(t) // 8


def recorded_types(op: LaneOp) -> tuple[str, ...]:
    """Results that the assembler lets one ask for: setp of one half gives no `|q`."""
    single_half = op.results == ("pred", "pred") and op.arguments[0] in ("f16", "bf16")
    return op.results[:1] if single_half else op.results


@dataclass(frozen=True)
class Recording:
    """Results by spelling, a column each, and what they were made on."""

    gpu: str
    driver: str
    date: str
    refused: frozenset[str]
    """Spellings of other architectures, or that nobody assembles."""
    results: Mapping[str, tuple[Column, ...]]


@cache
def recording(operations: tuple[tuple[str, LaneOp], ...]) -> Recording:
    """The recording, read with the result types of a table."""
    head, _, body = lzma.decompress(FILE.read_bytes()).partition(b"\n")
    facts = json.loads(head)
    table = dict(operations)
    results, at = {}, 0
    for spelling in facts["spellings"]:
        columns = []
        for t in recorded_types(table[spelling]):
            size = stored_bytes(spelling, t)
            column = np.frombuffer(body, dtype=f"<u{size}", count=ROWS, offset=at)
            columns.append(column.astype(np.uint64))
            at += size * ROWS
        results[spelling] = tuple(columns)
    return Recording(
        gpu=facts["gpu"],
        driver=facts["driver"],
        date=facts["date"],
        refused=frozenset(facts["refused"]),
        results=results,
    )
