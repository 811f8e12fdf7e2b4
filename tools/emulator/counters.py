"""Counters of one launch, as the emulated device counts them."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class SiteCounters:
    """Counters of one memory instruction, of all blocks."""

    requests: float = 0.0
    """Warp-level executions."""
    lanes: float = 0.0
    """Active lanes, summed over requests."""
    sectors: float = 0.0
    """Distinct 32-byte sectors per request, summed (global, local, const)."""
    wavefronts: float = 0.0
    """Shared-memory passes: the most distinct words any bank has to serve, summed."""
    ideal_wavefronts: float = 0.0
    """The passes the same bytes would need without conflicts."""
    worst_ways: int = 0
    """Largest bank conflict of any single request (1 = none)."""
    l2_sectors: float = 0.0
    """Sectors that an ideal per-block L1 would still ask L2 for."""
    dram_sectors: float = 0.0
    """Sectors not touched before in this launch, or in the same wave of blocks where the launch's
    footprint exceeds L2: DRAM traffic."""
    serial: float = 0.0
    """Atomics: the most lanes of a request on one address, summed."""


@dataclass(frozen=True, kw_only=True)
class LaunchCounters:
    """Counters of one kernel launch. Indices follow the kernel's `KernelTable`."""

    kernel: int
    """Index into `Translated.kernels`."""
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    static_shared_bytes: int
    dynamic_shared_bytes: int
    cooperative: bool
    blocks_total: int
    block_warps: tuple[float, ...]
    """Per basic block: warp executions."""
    block_lanes: tuple[float, ...]
    """Per basic block: active lanes, summed over warp executions."""
    sites: tuple[SiteCounters, ...]
    footprint_bytes: int = 0
    """Distinct global bytes touched, in 32-byte sectors."""
    reused_bytes: int = 0
    """Of the footprint: what an earlier launch of the same call touched."""
    heaviest: Mapping[str, float] = field(default_factory=dict)
    """Part of all work of a unit that the block with the most of it does; 0: not known. Units are
    the values of `InstructionClass`, `issue` (all of them), and `path` (L1 and shared memory)."""
    path_clk: float = 0.0
    """Clocks from the first instruction of a block to its last, as its slowest warps and those
    they meet at barriers wait: of an average block; 0: not known."""
    longest_clk: float = 0.0
    """The same of the block that takes longest."""
    worst_line: float = 0.0
    """Most passes of atomics over one line of L2; 0: not known."""
    grid_barriers: int = 0
    """How often the blocks of the grid waited for each other."""
    barriers: float = 0.0
    """Barrier arrivals of warps, summed."""
