"""Finds which parts of the task's data fit in shared memory, where that speeds the work up."""

from math import prod
from typing import Any

from cuda_llm.agents.researcher.finding import Finding
from cuda_llm.agents.researcher.timed_sizes import timed_sizes
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.techniques.work import Work, work_of
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.tasks.shapes import shape_of
from cuda_llm.tasks.task import ArgumentRole, Task
from cuda_llm.wording import say_dims

EDGES = (16, 32, 64, 128)


def find_tiles(situation: Situation) -> Finding:
    """Sizes square tiles where inputs are staged, and private copies where outputs are summed.

    Each row has the bytes, whether they need an opt-in, and how many such blocks an SM holds.
    """
    match work_of(situation.task):
        case Work.REARRANGES | Work.REUSES | Work.SLIDES:
            head, rows = "one tile a block and a column of padding", _tiles(situation)
        case Work.SCATTERS:
            head, rows = "a copy of the outputs for each block", _copies(situation)
        case _:
            return Finding(name="tiles", data=[])
    fitting = [row for row in rows if row["an_sm"]]
    lines = [_describe_tile(row) for row in fitting] or ["  no timed size fits"]
    return Finding(name="tiles", lines=(f"Shared memory, with {head}:", *lines), data=fitting)


def _tiles(situation: Situation) -> list[dict[str, Any]]:
    return [
        {"what": f"{dtype} {edge} x {edge}", "dtype": dtype, "edge": edge}
        | _fit(situation.hardware, edge * (edge + 1) * item_bytes(dtype))
        for dtype in _element_types(situation.task)
        for edge in EDGES
    ]


def _copies(situation: Situation) -> list[dict[str, Any]]:
    outputs = [one for one in situation.task.arguments if one.role == ArgumentRole.OUT]
    return [
        {"what": say_dims(dims), "dims": dict(dims)}
        | _fit(
            situation.hardware,
            sum(prod(shape_of(one, dims)) * item_bytes(one.dtype) for one in outputs),
        )
        for dims in timed_sizes(situation)
    ]


def _element_types(task: Task) -> tuple[str, ...]:
    arrays = (one.dtype for one in task.arguments if one.role != ArgumentRole.SCALAR)
    return tuple(dict.fromkeys(arrays))


def _fit(hardware: Hardware, needed: int) -> dict[str, Any]:
    limits = hardware.limits
    unit = limits.shared_allocation_bytes
    taken = -(-(needed + limits.shared_bytes_reserved_per_block) // unit) * unit
    fits = needed <= limits.shared_bytes_per_block_optin
    return {
        "bytes": needed,
        "asks": needed > limits.shared_bytes_per_block,
        "an_sm": min(limits.blocks_per_sm, limits.shared_bytes_per_sm // taken) if fits else 0,
    }


def item_bytes(dtype: str) -> int:
    """Returns the size of one element in bytes, from the bits in its NumPy name."""
    bits = dtype.lstrip("abcdefghijklmnopqrstuvwxyz")
    return int(bits) // 8 if bits else 1


def _describe_tile(row: dict[str, Any]) -> str:
    asks = ", to be asked for" if row["asks"] else ""
    blocks = f"{row['an_sm']} block{'s' if row['an_sm'] > 1 else ''}"
    return f"  {row['what']}: {row['bytes']:,} B{asks}, {blocks} an SM"
