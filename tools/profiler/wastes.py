"""Wastes: work a launch could do without, found by modelling it again without them."""

from collections.abc import Callable
from dataclasses import replace

from cuda_llm.tools.profiler.counts import (
    WARP_LANES,
    LineAccess,
    accesses_by_line,
    count_instructions,
)
from cuda_llm.tools.profiler.relief import (
    coalesced,
    elected_blocks,
    is_on_banks,
    is_plain_global,
    without_bank_conflicts,
    without_contention,
    without_divergence,
    without_local_memory,
)
from cuda_llm.tools.profiler.tables import InstructionClass
from cuda_llm.tools.profiler.time_model import ModelledLaunch, Term, TimeReason
from cuda_llm.tools.profiler.traffic import warps_per_block

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
"""Advice that removes a waste, by its code, for modelled and counted times."""

JOIN_LATENCIES = 4
"""Latencies of L2 that the last block of several takes to join their results (an estimate)."""
_OCCUPANCY_ADVICE = {
    "threads": "choose a block size that divides the threads an SM holds",
    "registers": "use fewer registers: smaller per-thread tiles, or __launch_bounds__",
    "shared": "use less shared memory per block, or let more threads share it",
    "blocks": "use larger blocks",
}


def find_wastes(launch: ModelledLaunch) -> tuple[TimeReason, ...]:
    """Find every waste of a launch that costs time."""
    reasons = (
        _bank_conflicts(launch),
        _uncoalesced(launch),
        _atomic_contention(launch),
        _divergence(launch),
        _local_memory(launch),
        _low_occupancy(launch),
        _tail(launch),
    )
    return tuple(reason for reason in reasons if reason and reason.saved_us > 0)


def _bank_conflicts(launch: ModelledLaunch) -> TimeReason | None:
    worst = _worst(
        launch,
        lambda line: is_on_banks(line.space, line.kind),
        lambda line: line.wavefronts - line.ideal_wavefronts,
    )
    if worst is None or worst.worst_ways < 2:
        return None
    without_waste = launch.what_if(account=without_bank_conflicts(launch.account, launch.table))
    return TimeReason(
        code="bank_conflicts",
        **launch.time.saving(without_waste),
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
        lambda line: is_plain_global(line.space, line.kind),
        lambda line: line.sectors - line.ideal_sectors,
    )
    if worst is None:
        return None
    without_waste = launch.what_if(account=coalesced(launch.account, launch.table))
    return TimeReason(
        code="uncoalesced_global",
        **launch.time.saving(without_waste),
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
        **launch.time.saving(without_waste.with_part(Term.ATOMIC, 0.0)),
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
    elected = elected_blocks(account, table)

    def idle(index: int) -> float:
        issued = sum(table.blocks[index].mix.values())
        lanes = account.block_warps[index] * WARP_LANES - account.block_lanes[index]
        return 0.0 if index in elected else issued * lanes

    worst_index = max(range(len(table.blocks)), key=idle)
    if not idle(worst_index):
        return None
    worst = table.blocks[worst_index]
    x, y, z = account.block
    partial = x * y * z < WARP_LANES
    return TimeReason(
        code="divergence",
        **launch.time.saving(without_waste),
        explanation=f"{mix.simd_efficiency * WARP_LANES:.1f} of 32 lanes work on average",
        advice=("launch blocks of at least 32 threads" if partial else WASTE_ADVICE["divergence"]),
        spot=worst.spot,
        waste=True,
    )


def _local_memory(launch: ModelledLaunch) -> TimeReason | None:
    worst = _worst(launch, lambda line: line.space == "local", lambda line: line.sectors)
    if worst is None:
        return None
    account, table = without_local_memory(launch.account, launch.table)
    without_waste = launch.what_if(account=account, table=table)
    return TimeReason(
        code="local_memory",
        **launch.time.saving(without_waste),
        explanation="an array that is indexed at run time lies in local memory, not in registers",
        advice="unroll the loops over it, so that every index is known when it is compiled",
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
        **launch.time.saving(without_waste),
        explanation=(
            f"{occupancy.fraction:.0%} occupancy, bounded by {limit}: too few warps to hide waits"
        ),
        advice=_OCCUPANCY_ADVICE[occupancy.limited_by[0]],
        waste=True,
    )


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
    saving = launch.time.saving(without_waste)
    join_us = _join_us(launch) if blocks < places else 0.0
    if join_us:
        explanation += f"; to join the results of more blocks costs {join_us:.1f} us"
        saved_us = max(0.0, saving["saved_us"] - join_us)
        saving |= {"saved_us": saved_us, "share": saved_us / launch.time.time_us}
    return TimeReason(
        code="tail",
        **saving,
        explanation=explanation,
        advice=advice,
        waste=True,
    )


def _join_us(launch: ModelledLaunch) -> float:
    """Return the microseconds to join the results of several blocks, where a block makes a single
    result; 0 where it is not known to.

    Threads that meet at barriers and exchange values between lanes, or store fewer values than the
    block has warps, make one. The blocks' parts are joined by a second launch, or by the last block
    to arrive: a fence, a kept atomic of two latencies of L2, and a load.
    """
    account, table, model = launch.account, launch.table, launch.hardware.model
    exchanges = any(block.mix.get(InstructionClass.SHUFFLE) for block in table.blocks)
    pairs = zip(table.sites, account.sites, strict=True)
    stored = sum(
        count.lanes for site, count in pairs if site.kind in ("store", "atomic") and count.sectors
    )
    few = stored < warps_per_block(account) * account.blocks_total
    if not account.barriers or not (exchanges or few):
        return 0.0
    clk_us = 1.0 / launch.hardware.boost_clock_mhz
    by_launch_us = model.launch_us + model.latency_l2_clk * clk_us
    return min(by_launch_us, JOIN_LATENCIES * model.latency_l2_clk * clk_us)


def _least_part(launch: ModelledLaunch) -> float:
    """Return the part of a warp's path that is left where other warps take all but one round of its
    loops."""
    warps = warps_per_block(launch.account) * launch.account.blocks_total
    most = max(launch.account.block_warps, default=0.0)
    return min(1.0, warps / most) if most else 1.0


def _worst(
    launch: ModelledLaunch,
    concerns: Callable[[LineAccess], bool],
    cost: Callable[[LineAccess], float],
) -> LineAccess | None:
    lines = filter(concerns, accesses_by_line(launch.account, launch.table))
    costly = [line for line in lines if cost(line) > 0]
    return max(costly, key=cost, default=None)
