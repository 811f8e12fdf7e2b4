"""Every per-lane PTX operation the emulated device executes, by its spelling."""

from collections.abc import Mapping
from functools import cache

from cuda_llm.tools.emulator.ops import (
    approx,
    bits,
    compare,
    convert,
    convert_half,
    float,
    half,
    integer,
)
from cuda_llm.tools.emulator.ops.lane_op import LaneOp

FAMILIES = (integer, bits, compare, float, approx, half, convert, convert_half)


@cache
def operations() -> Mapping[str, LaneOp]:
    """Return all spellings. `/3` marks the three-source form of min and max."""
    return {spelling: op for family in FAMILIES for spelling, op in family.operations()}


def lane_op(opcode: tuple[str, ...], sources: int | None = None) -> LaneOp | None:
    """Return the operation an opcode (split at dots) names; None if there is none.

    `sources`, the number of source operands, distinguishes the two forms of `min.f32`.
    """
    spelling = ".".join(opcode)
    if sources == 3 and f"{spelling}/3" in operations():
        return operations()[f"{spelling}/3"]
    return operations().get(spelling)
