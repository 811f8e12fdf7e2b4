"""Counters of a launch on the emulated device, from all blocks or from a sample of blocks.

Counts of a sample are scaled by the grid. Sharing of sectors in L2 is counted in a wave of
neighbouring blocks: for each site, the part of its sectors that is new to the wave, and of these
the part that the previous wave had touched.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

SECTOR_BYTES = 32


@dataclass(frozen=True, kw_only=True)
class SiteCounters:
    """Counters of a memory instruction, summed over all blocks."""

    requests: float = 0.0
    """Executions of the instruction by warps."""
    lanes: float = 0.0
    """Active lanes, summed over requests."""
    sectors: float = 0.0
    """Distinct 32-byte sectors per request, summed (global, local, const)."""
    lines: float = 0.0
    """Distinct 128-byte lines per request, summed (global)."""
    wavefronts: float = 0.0
    """Shared-memory passes: the most distinct words any bank has to serve, summed."""
    ideal_wavefronts: float = 0.0
    """Shared-memory passes that the same bytes would need without bank conflicts."""
    worst_ways: int = 0
    """Largest bank conflict of any single request (1 = none)."""
    l2_sectors: float = 0.0
    """Sectors that an ideal per-block L1 would still ask L2 for."""
    dram_sectors: float = 0.0
    """Sectors not touched before in this launch, or in the same wave of blocks where the launch's
    footprint exceeds L2: DRAM traffic."""
    serial: float = 0.0
    """Atomics: the largest number of lanes on one address, summed over requests."""
    path_clk: float = 0.0
    """Clocks that the longest path through an average block waits at the instruction."""


@dataclass(frozen=True, kw_only=True)
class LaunchCounters:
    """Counters of a kernel launch. Indices follow the kernel's `KernelTable`."""

    kernel: int
    """Index into `Translated.kernels`."""
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    static_shared_bytes: int
    dynamic_shared_bytes: int
    cooperative: bool
    blocks_total: int
    block_warps: tuple[float, ...]
    """Warp executions of each basic block."""
    block_lanes: tuple[float, ...]
    """Active lanes of each basic block, summed over warp executions."""
    sites: tuple[SiteCounters, ...]
    footprint_bytes: int = 0
    """Distinct global bytes touched, in 32-byte sectors."""
    reused_bytes: int = 0
    """Bytes of the launch's DRAM reads and write-backs that are spared because earlier launches,
    fills and copies of the call left them in L2."""
    heaviest: Mapping[str, float] = field(default_factory=dict)
    """Largest part of a unit's work that a single block does; 0: not known. Units are the values of
    `InstructionClass`, `issue` (all instructions), and `path` (L1 and shared memory)."""
    path_clk: float = 0.0
    """Clocks from the first to the last instruction of an average block, by its slowest warps and
    the warps that they meet at barriers; 0: not known."""
    longest_clk: float = 0.0
    """Clocks from the first to the last instruction of the slowest block; 0: not known."""
    worst_line: float = 0.0
    """Largest number of passes of atomics over a line of L2; 0: not known."""
    grid_barriers: int = 0
    """Number of barriers at which all blocks of the grid waited."""
    barriers: float = 0.0
    """Barrier arrivals of warps, summed."""
    sampled_blocks: int = 0
    """Number of executed blocks from which these counters are scaled up; 0: all blocks were
    executed."""
    spread: float = 0.0
    """Relative half-width of the 95 % interval of the clocks of an average block, from the sampled
    blocks."""


@dataclass(frozen=True)
class Sharing:
    """Sectors of 32 bytes that the blocks of a wave share at one site."""

    in_block: float
    """Sectors that were new to the block that touched them."""
    in_wave: float
    """Sectors among `in_block` that were new to the wave."""
    again: float
    """Sectors among `in_wave` that the previous wave had touched."""


def scale_up(
    account: LaunchCounters,
    sharing: Sequence[Sharing],
    *,
    counted_blocks: int,
    path_error_clk: float = 0.0,
    wave_blocks: int,
    shared_line: float,
    allocated_bytes: int,
    l2_bytes: int = 0,
) -> LaunchCounters:
    """Return the counters of the whole grid from those of `counted_blocks` of its blocks.

    `path_error_clk` is the standard error of the mean clocks of the counted blocks. `sharing`, by
    site, is of `wave_blocks` neighbouring blocks. `shared_line` is the number of atomic passes over
    the worst L2 line that several counted blocks used; `account.worst_line` is that of lines which
    a single block used. `allocated_bytes` is the size of all buffers together.
    """
    factor = account.blocks_total / counted_blocks
    wave_bytes = SECTOR_BYTES * sum(
        one.l2_sectors / counted_blocks * wave_blocks * _part(share.in_wave, share.in_block)
        for one, share in zip(account.sites, sharing, strict=True)
    )
    kept = _kept_part(wave_bytes, l2_bytes)
    sites = tuple(
        _scaled(one, share, factor, kept) for one, share in zip(account.sites, sharing, strict=True)
    )
    moved = SECTOR_BYTES * sum(one.dram_sectors for one in sites)
    if l2_bytes and allocated_bytes <= l2_bytes and moved > allocated_bytes:
        part = allocated_bytes / moved
        sites = tuple(replace(one, dram_sectors=one.dram_sectors * part) for one in sites)
        moved = allocated_bytes
    return replace(
        account,
        block_warps=tuple(count * factor for count in account.block_warps),
        block_lanes=tuple(count * factor for count in account.block_lanes),
        sites=sites,
        heaviest={unit: min(1.0, part / factor) for unit, part in account.heaviest.items()},
        worst_line=max(account.worst_line, shared_line * factor),
        barriers=account.barriers * factor,
        footprint_bytes=round(min(moved, allocated_bytes)),
        sampled_blocks=counted_blocks,
        spread=1.96 * path_error_clk / account.path_clk if account.path_clk else 0.0,
    )


def _scaled(one: SiteCounters, share: Sharing, factor: float, kept: float) -> SiteCounters:
    far = _part(share.in_wave - kept * share.again, share.in_block)
    return replace(
        one,
        requests=one.requests * factor,
        lanes=one.lanes * factor,
        sectors=one.sectors * factor,
        lines=one.lines * factor,
        wavefronts=one.wavefronts * factor,
        ideal_wavefronts=one.ideal_wavefronts * factor,
        l2_sectors=one.l2_sectors * factor,
        dram_sectors=one.l2_sectors * factor * far,
        serial=one.serial * factor,
    )


def _part(some: float, of_all: float) -> float:
    """Return a share; all where nothing is known."""
    return some / of_all if of_all else 1.0


def _kept_part(wave_bytes: float, l2_bytes: int) -> float:
    """Return the part (0 to 1) of a wave's footprint that L2 still holds when the next wave asks
    for it."""
    if not l2_bytes:
        return 0.0
    return min(1.0, max(0.0, 1.5 - wave_bytes / l2_bytes))
