"""Finds what fits on an SM: registers and shared memory by occupancy, tiles of the task's data."""

from collections.abc import Callable
from math import prod
from typing import Any

from cuda_llm.agents.researcher.rooflines import HardwareFact, timed_sizes
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.techniques.technique import Work, work_of
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.occupancy import MOST_REGISTERS_PER_THREAD, occupancy
from cuda_llm.tasks.sizes import shape_of
from cuda_llm.tasks.task import ArgumentRole, Task
from cuda_llm.wording import describe_dims

BLOCK_SIZES = (128, 256, 512, 1024)
FEW_REGISTERS = 16
STEP_BYTES = 256


def occupancy_facts(situation: Situation) -> HardwareFact:
    """Finds, for common block sizes, the most registers and shared memory at full and half."""
    rows = [
        _corner(situation.hardware, threads)
        for threads in BLOCK_SIZES
        if threads <= situation.hardware.limits.threads_per_block
    ]
    return HardwareFact(
        name="occupancy",
        lines=(
            "Occupancy: beyond these, fewer warps are resident (registers a thread, shared bytes a "
            "block):",
            *(_describe_corner(row) for row in rows),
        ),
        data=rows,
    )


def _corner(hardware: Hardware, threads: int) -> dict[str, Any]:
    def of(registers: int = FEW_REGISTERS, shared: int = 0) -> float:
        return occupancy(
            hardware,
            threads_per_block=threads,
            registers_per_thread=registers,
            shared_bytes=shared,
        ).fraction

    most = of()
    steps = hardware.limits.shared_bytes_per_block_optin // STEP_BYTES
    return {
        "threads": threads,
        "most": most,
        "registers_full": _last(MOST_REGISTERS_PER_THREAD, lambda n: of(registers=n) >= most),
        "registers_half": _last(MOST_REGISTERS_PER_THREAD, lambda n: of(registers=n) >= most / 2),
        "shared_full": STEP_BYTES * _last(steps, lambda n: of(shared=n * STEP_BYTES) >= most),
        "shared_half": STEP_BYTES * _last(steps, lambda n: of(shared=n * STEP_BYTES) >= most / 2),
    }


def _last(limit: int, holds: Callable[[int], bool]) -> int:
    """Finds the largest number up to `limit` that meets a monotone condition, by bisection."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _describe_corner(row: dict[str, Any]) -> str:
    return (
        f"  {row['threads']} threads: {row['most']:.0%} up to {row['registers_full']} registers, "
        f"{row['shared_full']:,} B; half of that up to {row['registers_half']} registers, "
        f"{row['shared_half']:,} B"
    )


EDGES = (16, 32, 64, 128)


def shared_memory_facts(situation: Situation) -> HardwareFact:
    """Sizes square tiles where inputs are staged, and private copies where outputs are summed.

    Each row has the bytes, whether they need an opt-in, and how many such blocks an SM holds.
    """
    match work_of(situation.task):
        case Work.REARRANGES | Work.REUSES | Work.SLIDES:
            head, rows = "one tile a block and a column of padding", _tiles(situation)
        case Work.SCATTERS:
            head, rows = "a copy of the outputs for each block", _copies(situation)
        case _:
            return HardwareFact(name="tiles", data=[])
    fitting = [row for row in rows if row["an_sm"]]
    lines = [_describe_tile(row) for row in fitting] or ["  no timed size fits"]
    return HardwareFact(name="tiles", lines=(f"Shared memory, with {head}:", *lines), data=fitting)


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
        {"what": describe_dims(dims), "dims": dict(dims)}
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
