"""What a launch would take with the load of a busy resource relieved in the usual way.

Each function models the launch again by the same formulas, with the counts that it would have.
"""

from collections.abc import Callable, Container, Mapping
from dataclasses import replace

from cuda_llm.tools.emulator.counters import SiteCounters
from cuda_llm.tools.emulator.tables import (
    BasicBlock,
    InstructionClass,
    InstructionSite,
    KernelTable,
)
from cuda_llm.tools.profiler.time_model import LaunchTime, ModelledLaunch
from cuda_llm.tools.profiler.traffic import warp_waits

SERVED = 3.0
"""Outputs that a loaded value serves for each that it serves now: two to four is usual."""
FEWER = 2.0
"""By which the instructions beside arithmetic shrink: wider accesses, unrolled loops."""
LARGER = 2.0
"""By which tiles grow in each direction, so that L2 is asked so many times less."""
UNDER_WAY = 4.0
"""Loads of a warp under way for each that is now, at most `MOST_UNDER_WAY`."""
MOST_UNDER_WAY = 8.0

_BESIDE = (InstructionClass.INT, InstructionClass.CONTROL)
"""Instructions that find out where operands are."""
_PAST_L1 = frozenset({"cg", "cv"})


def with_values_reused(launch: ModelledLaunch) -> LaunchTime:
    """Model loads of values that were loaded before as serving more outputs, held in registers."""
    left = {
        space: 1 - _reuse(launch, spaces) * (1 - 1 / SERVED)
        for spaces in (("shared",), ("global", "generic"))
        for space in spaces
    }

    def part(site: InstructionSite) -> float:
        return left.get(site.space, 1.0) if site.kind == "load" else 1.0

    spared: dict[int, list[float]] = {}
    for site, count in zip(launch.table.sites, launch.account.sites, strict=True):
        if count.requests and part(site) < 1:
            spared.setdefault(site.block, []).append(1 - part(site))

    def fewer(index: int, block: BasicBlock) -> Mapping[InstructionClass, float]:
        if index not in spared:
            return block.mix
        beside = 1 - max(spared[index])
        mix = {kind: n * beside if kind in _BESIDE else n for kind, n in block.mix.items()}
        loads = block.mix.get(InstructionClass.LOAD_STORE, 0)
        return mix | {InstructionClass.LOAD_STORE: max(0.0, loads - sum(spared[index]))}

    def adjust(site: InstructionSite, count: SiteCounters) -> SiteCounters:
        return _scaled(_asked_less(site, count), part(site))

    return launch.what_if(
        account=replace(launch.account, sites=_sites(launch, adjust)),
        table=_with_mixes(launch.table, fewer),
    )


def _reuse(launch: ModelledLaunch, spaces: Container[str]) -> float:
    """Return the part of what is loaded from `spaces` that was loaded or stored there before."""
    pairs = list(zip(launch.table.sites, launch.account.sites, strict=True))
    loads = [(site, n) for site, n in pairs if site.kind == "load" and site.space in spaces]
    if "shared" in spaces:
        stored = sum(
            count.lanes * site.bytes
            for site, count in pairs
            if site.space == "shared" and site.kind != "load"
        )
        loaded = sum(count.lanes * site.bytes for site, count in loads)
        return max(0.0, 1 - stored / loaded) if loaded else 0.0
    sectors = sum(count.sectors for _, count in loads)
    new = sum(min(count.l2_sectors, count.sectors) for _, count in loads)
    return max(0.0, 1 - new / sectors) if sectors else 0.0


def with_fewer_instructions(launch: ModelledLaunch) -> LaunchTime:
    """Model accesses that are wider, and index arithmetic and loops that are shared by more."""
    shrunk = (*_BESIDE, InstructionClass.LOAD_STORE)

    def fewer(_: int, block: BasicBlock) -> Mapping[InstructionClass, float]:
        return {kind: n / FEWER if kind in shrunk else n for kind, n in block.mix.items()}

    return launch.what_if(table=_with_mixes(launch.table, fewer))


def with_fewer_of(launch: ModelledLaunch, one: InstructionClass) -> LaunchTime:
    """Model half as many instructions of a kind."""

    def fewer(_: int, block: BasicBlock) -> Mapping[InstructionClass, float]:
        return {kind: n / FEWER if kind is one else n for kind, n in block.mix.items()}

    return launch.what_if(table=_with_mixes(launch.table, fewer))


def in_single_precision(launch: ModelledLaunch) -> LaunchTime:
    """Model fp64 arithmetic as that of fp32, without the conversions beside it."""

    def single(_: int, block: BasicBlock) -> Mapping[InstructionClass, float]:
        doubles = block.mix.get(InstructionClass.FP64, 0)
        if not doubles:
            return block.mix
        left_out = (InstructionClass.FP64, InstructionClass.CONVERT)
        mix = {kind: n for kind, n in block.mix.items() if kind not in left_out}
        return mix | {InstructionClass.FP32: mix.get(InstructionClass.FP32, 0) + doubles}

    return launch.what_if(table=_with_mixes(launch.table, single))


def with_larger_tiles(launch: ModelledLaunch) -> LaunchTime:
    """Model loads that L1 may serve, and that ask L2 less often for what was there before."""

    def adjust(site: InstructionSite, count: SiteCounters) -> SiteCounters:
        past_l1 = not _PAST_L1.isdisjoint(site.opcode.split("."))
        return count if past_l1 else _asked_less(site, count)

    def cached(site: InstructionSite) -> InstructionSite:
        parts = [part for part in site.opcode.split(".") if part not in _PAST_L1]
        return replace(site, opcode=".".join(parts))

    return launch.what_if(
        account=replace(launch.account, sites=_sites(launch, adjust)),
        table=replace(launch.table, sites=tuple(map(cached, launch.table.sites))),
    )


def _asked_less(site: InstructionSite, count: SiteCounters) -> SiteCounters:
    """Return the counters of a site whose block works on a larger tile."""
    if site.kind not in ("load", "async_copy") or not count.l2_sectors:
        return count
    again = max(0.0, count.l2_sectors - count.dram_sectors)
    return replace(count, l2_sectors=count.l2_sectors - again * (1 - 1 / LARGER))


def with_data_kept(launch: ModelledLaunch) -> LaunchTime:
    """Model each byte of the launch's footprint as coming from DRAM once."""
    again = launch.time.dram_bytes - launch.account.footprint_bytes
    kept = launch.setting.resident_bytes + max(0.0, again)
    return launch.what_if(setting=replace(launch.setting, resident_bytes=kept))


def with_more_under_way(launch: ModelledLaunch) -> LaunchTime:
    """Model warps that have more loads under way at once, or shorter chains of other waits."""
    waits = warp_waits(launch.account, launch.table, launch.hardware)
    if not waits.all:
        return launch.time
    overlap = max(1.0, min(UNDER_WAY, MOST_UNDER_WAY / loads_under_way(launch)))
    loads = waits.loads * (1 - 1 / overlap)
    others = (waits.chains + waits.barriers) * (1 - 1 / UNDER_WAY)
    return launch.what_if(waiting=1 - max(loads, others) / waits.all)


def waits_for_loads(launch: ModelledLaunch) -> bool:
    """Return whether more is to be had from loads under way than from shorter chains."""
    waits = warp_waits(launch.account, launch.table, launch.hardware)
    overlap = max(1.0, min(UNDER_WAY, MOST_UNDER_WAY / loads_under_way(launch)))
    return waits.loads * (1 - 1 / overlap) >= (waits.chains + waits.barriers) * (1 - 1 / UNDER_WAY)


def loads_under_way(launch: ModelledLaunch) -> float:
    """Return how many loads of global memory a warp has under way at once, on average."""
    runs = [
        (block, warps)
        for block, warps in zip(launch.table.blocks, launch.account.block_warps, strict=True)
        if block.memory_batches and block.global_loads
    ]
    batches = sum(block.memory_batches * warps for block, warps in runs)
    return sum(block.global_loads * warps for block, warps in runs) / batches if batches else 1.0


def _scaled(count: SiteCounters, part: float) -> SiteCounters:
    """Return fewer requests for the same data."""
    return replace(
        count,
        requests=count.requests * part,
        lanes=count.lanes * part,
        sectors=count.sectors * part,
        lines=count.lines * part,
        wavefronts=count.wavefronts * part,
        ideal_wavefronts=count.ideal_wavefronts * part,
    )


def _sites(
    launch: ModelledLaunch, adjust: Callable[[InstructionSite, SiteCounters], SiteCounters]
) -> tuple[SiteCounters, ...]:
    pairs = zip(launch.table.sites, launch.account.sites, strict=True)
    return tuple(adjust(site, count) for site, count in pairs)


def _with_mixes(
    table: KernelTable, change: Callable[[int, BasicBlock], Mapping[InstructionClass, float]]
) -> KernelTable:
    blocks = enumerate(table.blocks)
    return replace(
        table, blocks=tuple(replace(block, mix=change(index, block)) for index, block in blocks)
    )
