"""Wastes: work a launch could do without, found by modelling it again without them."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from cuda_llm.tools.emulator.counters import LaunchCounters, SiteCounters
from cuda_llm.tools.emulator.tables import InstructionSite, KernelTable
from cuda_llm.tools.profiler.counts import (
    SECTOR_BYTES,
    WARP_LANES,
    LineAccess,
    accesses_by_line,
    count_instructions,
    ideal_sectors,
)
from cuda_llm.tools.profiler.time_model import ModelledLaunch, Saving, Term, TimeReason
from cuda_llm.tools.profiler.traffic import BULK, CONSTANT_SPACES, L2_LINE_BYTES, warps_per_block

WASTE_ADVICE = {
    "bank_conflicts": "pad the tile by one column (33 instead of 32), or swizzle its index",
    "uncoalesced_global": (
        "let neighbouring threads touch neighbouring addresses; turn the data around "
        "in shared memory where input and output disagree"
    ),
    "divergence": "let all lanes of a warp take the same branch, or do without the branch",
    "few_blocks": "launch more, smaller blocks",
    "uneven_grid": (
        "choose a grid that fills the SMs a whole number of times, or loop over the grid"
    ),
}
"""How to do without a waste, however it was found."""


def find_wastes(launch: ModelledLaunch) -> tuple[TimeReason, ...]:
    """Find every waste of a launch that costs time."""
    reasons = (
        _bank_conflicts(launch),
        _uncoalesced(launch),
        _atomic_contention(launch),
        _divergence(launch),
        _low_occupancy(launch),
        _tail(launch),
    )
    return tuple(reason for reason in reasons if reason and reason.saved_us > 0)


def without_bank_conflicts(account: LaunchCounters, table: KernelTable) -> LaunchCounters:
    """Return the counters with each shared-memory request in as few passes as its bytes need."""

    def adjust(site: InstructionSite, count: SiteCounters) -> SiteCounters:
        if not _is_on_banks(site.space, site.kind) or not count.ideal_wavefronts:
            return count
        return replace(count, wavefronts=min(count.wavefronts, count.ideal_wavefronts))

    return _with_sites(account, table, adjust)


def coalesced(account: LaunchCounters, table: KernelTable) -> LaunchCounters:
    """Return the counters with neighbouring lanes at neighbouring global addresses.

    What a sector holds beyond the bytes of one request another may want: of all sites together no
    more is spared on the way from L2 and DRAM than they fetch beyond what they use.
    """
    pairs = [
        (count, ideal_sectors(site, count))
        for site, count in zip(table.sites, account.sites, strict=True)
        if _is_plain_global(site.space, site.kind)
    ]
    used = sum(ideal for _, ideal in pairs)
    from_l2 = _at_most_one(sum(count.l2_sectors for count, _ in pairs), used)
    from_dram = _at_most_one(sum(count.dram_sectors for count, _ in pairs), used)

    def adjust(site: InstructionSite, count: SiteCounters) -> SiteCounters:
        if not _is_plain_global(site.space, site.kind):
            return count
        sectors = ideal_sectors(site, count)
        return replace(
            count,
            sectors=sectors,
            lines=min(count.lines, sectors * SECTOR_BYTES / L2_LINE_BYTES),
            l2_sectors=sectors * from_l2,
            dram_sectors=sectors * from_dram,
        )

    return _with_sites(account, table, adjust)


def _at_most_one(fetched: float, used: float) -> float:
    return min(1.0, fetched / used) if used else 1.0


def without_contention(account: LaunchCounters, table: KernelTable) -> LaunchCounters:
    """Return the counters with no two lanes of a warp at the same atomic."""

    def adjust(site: InstructionSite, count: SiteCounters) -> SiteCounters:
        if site.kind != "atomic":
            return count
        passes = min(count.wavefronts, count.requests)
        return replace(count, serial=min(count.serial, count.requests), wavefronts=passes)

    return replace(_with_sites(account, table, adjust), worst_line=0.0)


def without_divergence(account: LaunchCounters, table: KernelTable) -> LaunchCounters:
    """Return the counters with active lanes packed into full warps, accesses with them."""

    def adjust(site: InstructionSite, count: SiteCounters) -> SiteCounters:
        packed = max(count.lanes / WARP_LANES, min(1.0, count.requests))
        if count.requests <= packed:
            return count
        part = packed / count.requests
        side_by_side = max(packed, count.lanes * site.bytes / SECTOR_BYTES)
        return replace(
            count,
            requests=packed,
            sectors=min(count.sectors, side_by_side),
            lines=max(count.lines * part, count.sectors * SECTOR_BYTES / L2_LINE_BYTES),
            wavefronts=max(count.wavefronts * part, min(count.wavefronts, packed)),
            ideal_wavefronts=count.ideal_wavefronts * part,
            serial=count.serial,
        )

    packed = _with_sites(account, table, adjust)
    return replace(
        packed,
        block_warps=tuple(
            min(warps, lanes / WARP_LANES)
            for warps, lanes in zip(account.block_warps, account.block_lanes, strict=True)
        ),
    )


def _bank_conflicts(launch: ModelledLaunch) -> TimeReason | None:
    worst = _worst(
        launch,
        lambda line: _is_on_banks(line.space, line.kind),
        lambda line: line.wavefronts - line.ideal_wavefronts,
    )
    if worst is None or worst.worst_ways < 2:
        return None
    without_waste = launch.what_if(account=without_bank_conflicts(launch.account, launch.table))
    return TimeReason(
        code="bank_conflicts",
        **_saved(launch, without_waste.time_us),
        explanation=f"shared-memory bank conflicts: {worst.worst_ways}-way",
        advice=WASTE_ADVICE["bank_conflicts"]
        if worst.worst_ways >= 8
        else "lay the tile out so that the lanes of a warp fall into different banks",
        spot=worst.spot,
        waste=True,
    )


def _uncoalesced(launch: ModelledLaunch) -> TimeReason | None:
    worst = _worst(
        launch,
        lambda line: _is_plain_global(line.space, line.kind),
        lambda line: line.sectors - line.ideal_sectors,
    )
    if worst is None:
        return None
    without_waste = launch.what_if(account=coalesced(launch.account, launch.table))
    return TimeReason(
        code="uncoalesced_global",
        **_saved(launch, without_waste.time_us),
        explanation=(
            f"uncoalesced global {worst.kind.replace('_', ' ')}s: "
            f"{worst.sectors_per_request:.1f} sectors a request where "
            f"{worst.ideal_sectors_per_request:.1f} would do, "
            f"{worst.useful_byte_share:.0%} of the bytes used"
        ),
        advice=WASTE_ADVICE["uncoalesced_global"],
        spot=worst.spot,
        waste=True,
    )


def _atomic_contention(launch: ModelledLaunch) -> TimeReason | None:
    worst = _worst(launch, lambda line: line.kind == "atomic", lambda line: line.serial)
    if worst is None:
        return None
    without_waste = launch.what_if(account=without_contention(launch.account, launch.table))
    return TimeReason(
        code="atomic_contention",
        **_saved(launch, without_waste.without(Term.ATOMIC)),
        explanation=(
            f"atomics on {worst.space} memory wait for each other: {worst.serial:,.0f} in turn, "
            f"{worst.serial_lanes:.1f} lanes of a warp at one address"
        ),
        advice=(
            "sum within the warp or block first, then one atomic per block"
            if worst.space == "global"
            else "give each warp its own copy and merge the copies at the end"
        ),
        spot=worst.spot,
        waste=True,
    )


def _divergence(launch: ModelledLaunch) -> TimeReason | None:
    account, table = launch.account, launch.table
    mix = count_instructions(account, table)
    if not table.blocks or mix.simd_efficiency >= 1:
        return None
    without_waste = launch.what_if(account=without_divergence(account, table))

    def idle(index: int) -> float:
        issued = sum(table.blocks[index].mix.values())
        lanes = account.block_warps[index] * WARP_LANES - account.block_lanes[index]
        return issued * lanes

    worst = table.blocks[max(range(len(table.blocks)), key=idle)]
    x, y, z = account.block
    partial = x * y * z < WARP_LANES
    return TimeReason(
        code="divergence",
        **_saved(launch, without_waste.time_us),
        explanation=f"{mix.simd_efficiency * WARP_LANES:.1f} of 32 lanes work on average",
        advice=("launch blocks of at least 32 threads" if partial else WASTE_ADVICE["divergence"]),
        spot=worst.spot,
        waste=True,
    )


def _low_occupancy(launch: ModelledLaunch) -> TimeReason | None:
    hardware, occupancy = launch.hardware, launch.occupancy
    warps = warps_per_block(launch.account)
    full = hardware.limits.threads_per_sm // (warps * WARP_LANES) if warps else 0
    if full <= launch.setting.blocks_per_sm:
        return None
    without_waste = launch.what_if(setting=replace(launch.setting, blocks_per_sm=full))
    limit = " and ".join(occupancy.limited_by)
    return TimeReason(
        code="low_occupancy",
        **_saved(launch, without_waste.time_us),
        explanation=(
            f"{occupancy.fraction:.0%} occupancy, limited by {limit}: too few warps to hide waits"
        ),
        advice=_OCCUPANCY_ADVICE[occupancy.limited_by[0]],
        waste=True,
    )


_OCCUPANCY_ADVICE = {
    "threads": "choose a block size that divides the threads an SM holds",
    "registers": "use fewer registers: smaller per-thread tiles, or __launch_bounds__",
    "shared": "use less shared memory per block, or let more threads share it",
    "blocks": "use larger blocks",
}


def _tail(launch: ModelledLaunch) -> TimeReason | None:
    blocks, sms = launch.account.blocks_total, launch.hardware.sm_count
    places = sms * launch.setting.blocks_per_sm
    without_waste = launch.what_if(
        setting=replace(launch.setting, even_split=True),
        waiting=max(_least_part(launch), min(1.0, blocks / places)),
    )
    if blocks < sms:
        explanation = f"{blocks} blocks leave {sms - blocks} of {sms} SMs without work"
        advice = WASTE_ADVICE["few_blocks"]
    elif blocks < places:
        explanation = f"{blocks} blocks are resident where {places} fit at once"
        advice = WASTE_ADVICE["few_blocks"]
    else:
        explanation = f"{blocks} blocks do not divide evenly among {sms} SMs: some idle at the end"
        advice = WASTE_ADVICE["uneven_grid"]
    return TimeReason(
        code="tail",
        **_saved(launch, without_waste.time_us),
        explanation=explanation,
        advice=advice,
        waste=True,
    )


def _least_part(launch: ModelledLaunch) -> float:
    """Return the part of a warp's path that is left where others take all but one round of its
    loops.
    """
    warps = warps_per_block(launch.account) * launch.account.blocks_total
    most = max(launch.account.block_warps, default=0.0)
    return min(1.0, warps / most) if most else 1.0


def _saved(launch: ModelledLaunch, without_waste_us: float) -> Saving:
    saved_us = launch.time.time_us - without_waste_us
    return Saving(saved_us=saved_us, share=saved_us / launch.time.time_us)


def _worst(
    launch: ModelledLaunch,
    concerns: Callable[[LineAccess], bool],
    cost: Callable[[LineAccess], float],
) -> LineAccess | None:
    lines = filter(concerns, accesses_by_line(launch.account, launch.table))
    costly = [line for line in lines if cost(line) > 0]
    return max(costly, key=cost, default=None)


def _is_on_banks(space: str, kind: str) -> bool:
    return kind != "atomic" and space not in CONSTANT_SPACES


def _is_plain_global(space: str, kind: str) -> bool:
    return space in ("global", "generic") and kind not in ("atomic", *BULK)


def _with_sites(
    account: LaunchCounters,
    table: KernelTable,
    adjust: Callable[[InstructionSite, SiteCounters], SiteCounters],
) -> LaunchCounters:
    pairs: Iterable[tuple[InstructionSite, SiteCounters]] = zip(
        table.sites, account.sites, strict=True
    )
    return replace(account, sites=tuple(adjust(site, count) for site, count in pairs))
