"""Finds how many registers and how much shared memory a block may use before fewer warps fit."""

from collections.abc import Callable
from typing import Any

from cuda_llm.agents.researcher.finding import Finding
from cuda_llm.agents.situation import Situation
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.occupancy import MOST_REGISTERS_PER_THREAD, occupancy

BLOCK_SIZES = (128, 256, 512, 1024)
FEW_REGISTERS = 16
STEP_BYTES = 256


def find_corners(situation: Situation) -> Finding:
    """Finds, for common block sizes, the most registers and shared memory at full and half."""
    rows = [
        _corner(situation.hardware, threads)
        for threads in BLOCK_SIZES
        if threads <= situation.hardware.limits.threads_per_block
    ]
    return Finding(
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
