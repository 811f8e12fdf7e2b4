"""The launch log of a call of `solve` on a GPU, and the launch profiles made from the log.

The runner writes the log, and a candidate shares the runner's memory: a log explains, but never
ranks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.occupancy import occupancy
from cuda_llm.profile import KernelResources, LaunchProfile

REGISTERS = 32
"""Assumed of a kernel that the compiler reported nothing of, as the time model does."""


class LaunchKind(StrEnum):
    """Kind of an operation on the GPU's queue: kernel, copy or fill."""

    KERNEL = "kernel"
    COPY = "copy"
    SET = "set"


@dataclass(frozen=True, kw_only=True)
class LoggedLaunch:
    """An entry of a launch log."""

    kind: LaunchKind
    symbol: str = ""
    """Mangled name of the kernel; empty for copies and fills."""
    grid: tuple[int, int, int] = (0, 0, 0)
    """Blocks along x, y, z."""
    block: tuple[int, int, int] = (0, 0, 0)
    """Threads along x, y, z."""
    dynamic_shared_bytes: int = 0
    bytes: int = 0
    """Bytes copied or filled; 0 for kernels."""
    cooperative: bool = False
    cluster: int = 1
    """Number of blocks in a cluster."""


def launch_profiles(
    log: Sequence[LoggedLaunch], kernels: Iterable[KernelResources], hardware: Hardware
) -> tuple[LaunchProfile, ...]:
    """Return a profile of each kernel launch, in order, then a profile of all copies and fills
    together, if any.

    `time_us` is 0: a log has no clock. Occupancy is what the resources allow; waves assume that
    nothing else runs, and clusters are ignored.
    """
    by_symbol = {kernel.symbol: kernel for kernel in kernels}
    launches = [
        _kernel(one, by_symbol.get(one.symbol), hardware)
        for one in log
        if one.kind is LaunchKind.KERNEL
    ]
    others = [one for one in log if one.kind is not LaunchKind.KERNEL]
    return (*launches, *([_copies(others)] if others else []))


def _kernel(
    one: LoggedLaunch, resources: KernelResources | None, hardware: Hardware
) -> LaunchProfile:
    x, y, z = one.block
    shared_bytes = one.dynamic_shared_bytes + (resources.shared_bytes if resources else 0)
    fit = occupancy(
        hardware,
        threads_per_block=x * y * z,
        registers_per_thread=resources.registers if resources else REGISTERS,
        shared_bytes=shared_bytes,
    )
    blocks = one.grid[0] * one.grid[1] * one.grid[2]
    figures = {
        "blocks": float(blocks),
        "blocks_per_sm": float(fit.blocks_per_sm),
        **_waves(blocks, fit.blocks_per_sm, hardware),
    }
    if resources:
        figures["registers_per_thread"] = float(resources.registers)
    if one.cooperative:
        figures["cooperative"] = 1.0
    if one.cluster > 1:
        figures["cluster_blocks"] = float(one.cluster)
    return LaunchProfile(
        kernel=resources.kernel if resources else one.symbol,
        grid=one.grid,
        block=one.block,
        shared_bytes=shared_bytes,
        occupancy=fit.fraction,
        time_us=0.0,
        figures=figures,
    )


def _waves(blocks: int, blocks_per_sm: int, hardware: Hardware) -> Mapping[str, float]:
    """Return waves of resident blocks, and the share of the SMs' time idle at an uneven end.

    Blocks are taken to last equally long; an SM is idle when it has no block at all.
    """
    if not blocks or not blocks_per_sm:
        return {}
    places = blocks_per_sm * hardware.sm_count
    most = -(-blocks // hardware.sm_count)
    return {
        "waves": blocks / places,
        "idle_share": 1 - blocks / (most * hardware.sm_count),
    }


def _copies(others: Sequence[LoggedLaunch]) -> LaunchProfile:
    """Add up copies and fills: a copy reads and writes its bytes, a fill writes them."""
    moved = sum(one.bytes * (2 if one.kind is LaunchKind.COPY else 1) for one in others)
    return LaunchProfile(
        kernel="copies and fills",
        grid=(0, 0, 0),
        block=(0, 0, 0),
        shared_bytes=0,
        occupancy=0.0,
        time_us=0.0,
        figures={"copies": float(len(others)), "copied_bytes": float(moved)},
    )
