"""Models launches without one cause of time: without a waste, or with a busy resource relieved.

Only the counts of the launch change; the formulas of the time model stay the same.
"""

from collections.abc import Callable, Container, Mapping
from dataclasses import replace

from cuda_llm.tools.profiler.counters import LaunchCounters, SiteCounters
from cuda_llm.tools.profiler.counts import SECTOR_BYTES, WARP_LANES, ideal_sectors
from cuda_llm.tools.profiler.tables import (
    BasicBlock,
    InstructionClass,
    InstructionSite,
    KernelTable,
)
from cuda_llm.tools.profiler.time_model import LaunchTime, ModelledLaunch
from cuda_llm.tools.profiler.traffic import BULK, CONSTANT_SPACES, L2_LINE_BYTES

SERVED = 3.0
"""Outputs per loaded value after relief, as a multiple of the present: two to four is usual."""
FEWER = 2.0
"""Factor by which instructions beside arithmetic shrink: wider accesses, unrolled loops."""
LARGER = 2.0
"""Factor by which tiles grow in each direction, and by which repeated L2 requests shrink."""

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
        account=_with_sites(launch.account, launch.table, adjust),
        table=_with_mixes(launch.table, fewer),
    )


def _reuse(launch: ModelledLaunch, spaces: Container[str]) -> float:
    """Return the part (0 to 1) of the data loaded from `spaces` that was loaded or stored there
    before."""
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
    # A sector fetched again for another word of it is a scattered access, not a value used again.
    wanted = sum(ideal_sectors(site, count) for site, count in loads)
    new = sum(min(count.l2_sectors, count.sectors) for _, count in loads)
    return max(0.0, 1 - new / wanted) if wanted else 0.0


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
    """Model loads that L1 may serve with fewer repeated requests to L2, as with larger tiles."""

    def adjust(site: InstructionSite, count: SiteCounters) -> SiteCounters:
        past_l1 = not _PAST_L1.isdisjoint(site.opcode.split("."))
        return count if past_l1 else _asked_less(site, count)

    def cached(site: InstructionSite) -> InstructionSite:
        parts = [part for part in site.opcode.split(".") if part not in _PAST_L1]
        return replace(site, opcode=".".join(parts))

    return launch.what_if(
        account=_with_sites(launch.account, launch.table, adjust),
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


def without_bank_conflicts(account: LaunchCounters, table: KernelTable) -> LaunchCounters:
    """Return the counters with each shared-memory request in as few passes as its bytes need."""

    def adjust(site: InstructionSite, count: SiteCounters) -> SiteCounters:
        if not is_on_banks(site.space, site.kind) or not count.ideal_wavefronts:
            return count
        return replace(count, wavefronts=min(count.wavefronts, count.ideal_wavefronts))

    return _with_sites(account, table, adjust)


def coalesced(account: LaunchCounters, table: KernelTable) -> LaunchCounters:
    """Return the counters with neighbouring lanes at neighbouring global addresses."""

    def adjust(site: InstructionSite, count: SiteCounters) -> SiteCounters:
        if not is_plain_global(site.space, site.kind):
            return count
        sectors = ideal_sectors(site, count)
        lines = min(count.lines, sectors * SECTOR_BYTES / L2_LINE_BYTES)
        return replace(count, sectors=sectors, lines=lines)

    return _fetching_less(account, _with_sites(account, table, adjust), table)


def _fetching_less(
    before: LaunchCounters, after: LaunchCounters, table: KernelTable
) -> LaunchCounters:
    """Return `after`, whose accesses touch fewer sectors, with its requests to L2 and DRAM.

    Another request may want the bytes of a sector that a request leaves unused: over all sites
    together at most the bytes that were fetched beyond the used bytes are spared.
    """
    plain = [is_plain_global(site.space, site.kind) for site in table.sites]
    used = sum(one.sectors for one, is_one in zip(after.sites, plain, strict=True) if is_one)
    fetched = [one for one, is_one in zip(before.sites, plain, strict=True) if is_one]
    from_l2 = min(1.0, sum(one.l2_sectors for one in fetched) / used) if used else 1.0
    from_dram = min(1.0, sum(one.dram_sectors for one in fetched) / used) if used else 1.0
    sites = (
        replace(one, l2_sectors=one.sectors * from_l2, dram_sectors=one.sectors * from_dram)
        if is_one
        else one
        for one, is_one in zip(after.sites, plain, strict=True)
    )
    return replace(after, sites=tuple(sites))


def without_contention(account: LaunchCounters, table: KernelTable) -> LaunchCounters:
    """Return the counters of the launch if no two lanes of a warp used the same atomic."""

    def adjust(site: InstructionSite, count: SiteCounters) -> SiteCounters:
        if site.kind != "atomic":
            return count
        passes = min(count.wavefronts, count.requests)
        return replace(count, serial=min(count.serial, count.requests), wavefronts=passes)

    return replace(_with_sites(account, table, adjust), worst_line=0.0)


def elected_blocks(account: LaunchCounters, table: KernelTable) -> frozenset[int]:
    """Return the basic blocks in which one lane of a warp stores or adds the warp's result: the
    other lanes have none, so that no other way through the code saves the instructions."""
    storing = {site.block for site in table.sites if site.kind in ("store", "atomic")}
    counts = zip(account.block_warps, account.block_lanes, strict=True)
    return frozenset(
        index for index, (warps, lanes) in enumerate(counts) if index in storing and lanes <= warps
    )


def without_divergence(account: LaunchCounters, table: KernelTable) -> LaunchCounters:
    """Return the counters with active lanes packed into full warps, accesses with them, but for
    what one lane does for its warp."""
    elected = elected_blocks(account, table)

    def adjust(site: InstructionSite, count: SiteCounters) -> SiteCounters:
        packed = count.lanes / WARP_LANES
        if count.requests <= packed or site.block in elected:
            return count
        part = packed / count.requests
        return replace(
            count,
            requests=packed,
            sectors=min(count.sectors, max(packed, count.lanes * site.bytes / SECTOR_BYTES)),
            lines=count.lines * part,
            wavefronts=count.wavefronts * part,
            ideal_wavefronts=count.ideal_wavefronts * part,
        )

    packed = replace(
        _with_sites(account, table, adjust),
        block_warps=tuple(
            warps if index in elected else min(warps, lanes / WARP_LANES)
            for index, (warps, lanes) in enumerate(
                zip(account.block_warps, account.block_lanes, strict=True)
            )
        ),
    )
    return _fetching_less(account, packed, table)


def without_local_memory(
    account: LaunchCounters, table: KernelTable
) -> tuple[LaunchCounters, KernelTable]:
    """Return counters and kernel with what lies in local memory in registers."""
    spared = [0.0] * len(table.blocks)
    for site in table.sites:
        if site.space == "local":
            spared[site.block] += 1

    def adjust(site: InstructionSite, count: SiteCounters) -> SiteCounters:
        return SiteCounters() if site.space == "local" else count

    kind = InstructionClass.LOAD_STORE
    blocks = tuple(
        replace(block, mix={**block.mix, kind: max(0.0, block.mix.get(kind, 0) - fewer)})
        for block, fewer in zip(table.blocks, spared, strict=True)
    )
    return _with_sites(account, table, adjust), replace(table, blocks=blocks)


def is_on_banks(space: str, kind: str) -> bool:
    """Return whether accesses take passes over the banks of shared memory."""
    return kind != "atomic" and space not in CONSTANT_SPACES


def is_plain_global(space: str, kind: str) -> bool:
    """Return whether accesses are loads and stores of global memory by the lanes of a warp."""
    return space in ("global", "generic") and kind not in ("atomic", *BULK)


def _scaled(count: SiteCounters, part: float) -> SiteCounters:
    """Return the counters of a site with `part` of its requests for the same data."""
    return replace(
        count,
        requests=count.requests * part,
        lanes=count.lanes * part,
        sectors=count.sectors * part,
        lines=count.lines * part,
        wavefronts=count.wavefronts * part,
        ideal_wavefronts=count.ideal_wavefronts * part,
    )


def _with_mixes(
    table: KernelTable, change: Callable[[int, BasicBlock], Mapping[InstructionClass, float]]
) -> KernelTable:
    blocks = enumerate(table.blocks)
    return replace(
        table, blocks=tuple(replace(block, mix=change(index, block)) for index, block in blocks)
    )


def _with_sites(
    account: LaunchCounters,
    table: KernelTable,
    adjust: Callable[[InstructionSite, SiteCounters], SiteCounters],
) -> LaunchCounters:
    pairs = zip(table.sites, account.sites, strict=True)
    return replace(account, sites=tuple(adjust(site, count) for site, count in pairs))
