"""Facts about a task's timed sizes and about an SM that decide how to write kernels.

Rooflines of the sizes (bound, least time, what fits in L2), registers and shared memory by
occupancy, and tiles of the task's data that fit in shared memory.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from cuda_llm.agents.situation import Situation
from cuda_llm.agents.techniques.technique import Work, work_of
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.occupancy import MOST_REGISTERS_PER_THREAD, occupancy
from cuda_llm.hardware_profiles.roofline import ridge_flops_per_byte
from cuda_llm.tasks.sizes import LeastTime, least_time, shape_of
from cuda_llm.tasks.task import ArgumentRole, Task
from cuda_llm.wording import describe_dims

LAUNCH_MATTERS = 0.2
"""Part of the attainable time from which on the cost of a launch is reported."""
BLOCK_SIZES = (128, 256, 512, 1024)
FEW_REGISTERS = 16
STEP_BYTES = 256
EDGES = (16, 32, 64, 128)
"""Of square tiles."""


@dataclass(frozen=True, kw_only=True)
class HardwareFact:
    """One result: as lines for prompts, as data for other agents, as a sentence for the trace."""

    name: str
    """Key in the note's data."""
    lines: tuple[str, ...] = ()
    data: Any = field(default_factory=dict)
    """Plain JSON."""
    decision: str = ""
    """One sentence, or empty."""


def roofline_facts(situation: Situation) -> HardwareFact:
    """Compute each size's least time, bound, share of the baseline, L2 fit and launch cost."""
    sizes = timed_sizes(situation)
    if not sizes:
        return HardwareFact(name="sizes", decision="no size is timed on this device")
    least = [least_time(situation.task, situation.hardware, dims) for dims in sizes]
    rows = [_row(situation, index, sizes[index], one) for index, one in enumerate(least)]
    lines = [_describe_size(row, one) for row, one in zip(rows, least, strict=True)]
    largest = rows[-1]
    reached = largest["baseline_share"]
    return HardwareFact(
        name="sizes",
        lines=(_intensity(situation, least[-1]), *lines, *_launch(situation, rows)),
        data=rows,
        decision=(
            f"the largest timed size is {largest['bound']}-bound: "
            f"{largest['attainable_us']:.3g} us are attainable"
            + (f", the baseline reaches {reached:.0%} of that speed" if reached else "")
        ),
    )


def timed_sizes(situation: Situation) -> Sequence[Mapping[str, int]]:
    """Return the sizes the run times, or will time where the baseline is still to come."""
    sizes = situation.task.sizes
    planned = sizes.bench if situation.capabilities.bench_sizes else sizes.emulated
    return situation.sizes or planned


def _row(
    situation: Situation, index: int, dims: Mapping[str, int], least: LeastTime
) -> dict[str, Any]:
    known = index < len(situation.baseline_us)
    baseline_us = situation.baseline_us[index] if known else None
    return {
        "dims": dict(dims),
        "bound": least.bound,
        "least_us": least.time_us,
        "attainable_us": least.attainable_us,
        "bytes": least.bytes_moved,
        "flops": least.flops,
        "precision": least.precision,
        "fits_l2": least.bytes_moved <= situation.hardware.l2_bytes,
        "launch_share": situation.hardware.model.launch_us / least.attainable_us,
        "baseline_us": baseline_us,
        "baseline_share": None if baseline_us is None else least.attainable_us / baseline_us,
    }


def _describe_size(row: Mapping[str, Any], least: LeastTime) -> str:
    what = f"{least.bytes_moved / 1e6:.3g} MB" if least.bound == "memory" else _operations(least)
    l2 = "fits in L2" if row["fits_l2"] else "larger than L2"
    return (
        f"{describe_dims(row['dims'])}: {least.bound}-bound ({what}; {l2}), "
        f"{least.attainable_us:.3g} us attainable with one launch"
    )


def _operations(least: LeastTime) -> str:
    return f"{least.flops / 1e6:.3g} million operations in {least.precision}"


def _intensity(situation: Situation, largest: LeastTime) -> str:
    if not largest.flops:
        return "No arithmetic to speak of: the bytes this task must move set its least time."
    ridge = ridge_flops_per_byte(situation.hardware, largest.precision)
    has = largest.flops / largest.bytes_moved if largest.bytes_moved else 0.0
    return (
        f"This task does {has:.3g} operations a byte it must move; below {ridge:.3g} memory is the "
        "limit."
    )


def _launch(situation: Situation, rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    small = [row for row in rows if row["launch_share"] >= LAUNCH_MATTERS]
    if not small:
        return ()
    last = small[-1]
    return (
        f"A launch costs about {situation.hardware.model.launch_us:g} us, "
        f"{last['launch_share']:.0%} of the attainable time at {describe_dims(last['dims'])}: a "
        "second one hurts there.",
    )


def occupancy_facts(situation: Situation) -> HardwareFact:
    """Find, for common block sizes, the most registers and shared memory at full and half."""
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
    """Find the largest number up to `limit` that meets a monotone condition, by bisection."""
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


def shared_memory_facts(situation: Situation) -> HardwareFact:
    """Size square tiles where inputs are staged, and private copies where outputs are summed.

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
    """Return the size of one element in bytes, from the bits in its NumPy name."""
    bits = dtype.lstrip("abcdefghijklmnopqrstuvwxyz")
    return int(bits) // 8 if bits else 1


def _describe_tile(row: dict[str, Any]) -> str:
    asks = ", to be asked for" if row["asks"] else ""
    blocks = f"{row['an_sm']} block{'s' if row['an_sm'] > 1 else ''}"
    return f"  {row['what']}: {row['bytes']:,} B{asks}, {blocks} an SM"
