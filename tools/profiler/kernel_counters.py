"""The reasons for a kernel's time in its counters, of Nsight Compute or of the emulated device."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from cuda_llm.profile import LaunchProfile
from cuda_llm.tools.device.inspection import EMULATED, KernelCounters
from cuda_llm.tools.profiler.roofs import ROOF_ADVICE
from cuda_llm.tools.profiler.time_model import TimeReason
from cuda_llm.tools.profiler.wastes import WASTE_ADVICE

WARP_LANES = 32

_PIPES = ("fp32", "int", "fp64", "sfu", "tensor")
_ON_SHARED = ("short_scoreboard", "mio_throttle")
_ON_GLOBAL = ("long_scoreboard", "lg_throttle", "drain")
_LATENCY_ADVICE = {
    "long_scoreboard": ROOF_ADVICE["latency"],
    "barrier": "let fewer warps wait for each other: smaller blocks, or fewer barriers",
    "wait": "interleave independent instructions: unroll",
    "short_scoreboard": "load from shared memory earlier, and wider (float4)",
}

_UNITS = {
    *("dram_share", "l2_share", "l1_share", "issue_share"),
    *(f"{code}_share" for code in _PIPES),
}


def find_counted(one: KernelCounters) -> Iterator[TimeReason]:
    """Yield the reasons in the counters of one kernel, in no particular order."""
    yield from _memory(one)
    yield from _pipes(one)
    yield from _wastes(one)
    yield from _waits(one)


def _memory(one: KernelCounters) -> Iterator[TimeReason]:
    figures = one.figures
    dram = figures.get("dram_share", 0.0)
    moved = figures.get("dram_bytes", 0.0)
    yield _counted_reason(
        one,
        "dram_bandwidth",
        dram,
        f"DRAM is at {dram:.0%} of its peak, {moved / 1e6:.3g} MB to and from it",
        ROOF_ADVICE["dram_bandwidth"],
    )
    l2 = figures.get("l2_share", 0.0)
    yield _counted_reason(
        one,
        "l2_bandwidth",
        l2,
        f"L2 is at {l2:.0%} of its peak, {figures.get('l2_hit_share', 0.0):.0%} hits",
        ROOF_ADVICE["l2_bandwidth"],
    )
    l1 = figures.get("l1_share", 0.0)
    updates = figures.get("atomic_share", 0.0)
    yield _counted_reason(
        one,
        "atomics",
        updates,
        f"updates of global memory by atomics take {updates:.0%} of the time, as modelled",
        ROOF_ADVICE["atomics"],
    )
    on_shared = figures.get("shared_passes_share", 0.0) >= 0.5
    yield _counted_reason(
        one,
        "shared_bandwidth" if on_shared else "l1_bandwidth",
        l1,
        f"the data path of L1 and shared memory is at {l1:.0%} of its peak, "
        f"{figures.get('shared_passes_share', 0.0):.0%} of its passes for shared memory",
        "keep more of each tile in registers, use wider loads (float4)",
    )


def _pipes(one: KernelCounters) -> Iterator[TimeReason]:
    issue = one.figures.get("issue_share", 0.0)
    yield _counted_reason(
        one,
        "issue",
        issue,
        f"the schedulers issue in {issue:.0%} of all clocks",
        ROOF_ADVICE["issue"],
    )
    for code in _PIPES:
        share = one.figures.get(f"{code}_share", 0.0)
        yield _counted_reason(
            one, code, share, f"the {code} pipe is at {share:.0%} of its peak", ROOF_ADVICE[code]
        )


def _wastes(one: KernelCounters) -> Iterator[TimeReason]:
    figures = one.figures
    useful = figures.get("useful_byte_share", 1.0)
    on_shared = figures.get("shared_passes_share", 0.0)
    l1 = figures.get("l1_share", 0.0)
    busy = max(figures.get("dram_share", 0.0), figures.get("l2_share", 0.0), (1 - on_shared) * l1)
    yield _counted_reason(
        one,
        "uncoalesced_global",
        (1 - useful) * max(busy, _stalled(one, _ON_GLOBAL)),
        f"uncoalesced global accesses: {figures.get('sectors_per_request', 0.0):.1f} sectors a "
        f"request, {useful:.0%} of the bytes used",
        WASTE_ADVICE["uncoalesced_global"],
        waste=True,
    )
    ways = figures.get("bank_ways", 1.0)
    yield _counted_reason(
        one,
        "bank_conflicts",
        (1 - 1 / ways) * max(on_shared * l1, _stalled(one, _ON_SHARED)),
        f"shared-memory bank conflicts: {ways:.1f} passes an access where 1 would do",
        WASTE_ADVICE["bank_conflicts"],
        waste=True,
    )
    lanes = figures.get("simd_efficiency", 1.0)
    yield _counted_reason(
        one,
        "divergence",
        (1 - lanes) * figures.get("issue_share", 0.0),
        f"{lanes * WARP_LANES:.1f} of {WARP_LANES} lanes work on average",
        WASTE_ADVICE["divergence"],
        waste=True,
    )


def _waits(one: KernelCounters) -> Iterator[TimeReason]:
    """Yield what no busy unit accounts for, with the reasons why warps stalled, where known."""
    busiest = max((value for name, value in one.figures.items() if name in _UNITS), default=0.0)
    idle = one.figures.get("idle_sm_share", 0.0)
    wait = "wait, as modelled, for" if one.origin == EMULATED else "stall for"
    reasons = ", ".join(f"{stall.reason} {stall.share:.0%}" for stall in one.stalls[:3])
    stalled = f"; warps {wait} {reasons}" if reasons else ""
    first = one.stalls[0].reason if one.stalls else "long_scoreboard"
    achieved = one.figures.get("achieved_occupancy")
    occupancy = f", {achieved:.0%} occupancy achieved" if achieved is not None else ""
    yield _counted_reason(
        one,
        "latency",
        1 - busiest - idle,
        f"no unit is above {busiest:.0%} of its peak{stalled}{occupancy}",
        _LATENCY_ADVICE.get(first, _LATENCY_ADVICE["long_scoreboard"]),
    )


def _stalled(one: KernelCounters, reasons: tuple[str, ...]) -> float:
    """Return the part of the time that warps stall for these reasons: where an SM has no warp, none
    stalls."""
    active = 1 - one.figures.get("idle_sm_share", 0.0)
    return active * sum(stall.share for stall in one.stalls if stall.reason in reasons)


def _counted_reason(
    one: KernelCounters,
    code: str,
    share: float,
    explanation: str,
    advice: str,
    *,
    waste: bool = False,
) -> TimeReason:
    share = max(0.0, min(1.0, share))
    return TimeReason(
        code=code,
        saved_us=share * one.duration_us,
        share=share,
        explanation=f"{explanation} ({one.origin})",
        advice=advice,
        spot=one.spots.get(code),
        waste=waste,
    )


def with_counters(
    launches: Sequence[LaunchProfile], counters: Sequence[KernelCounters], time_us: float
) -> tuple[LaunchProfile, ...]:
    """Return the launches with their counters; a single launch took the call's time.

    Counters belong to launches in order where their kernels agree, and to nothing otherwise. Of
    several launches each has the time that it took where it was counted on a GPU.
    """
    kernels = [one for one in launches if all(one.grid)]
    if len(kernels) == len(launches) == 1:
        launches = (replace(launches[0], time_us=time_us),)
    if [_base(one.kernel) for one in kernels] != [_base(one.kernel) for one in counters]:
        return tuple(launches)
    rest = iter(counters)
    return tuple(_counted(one, next(rest)) if all(one.grid) else one for one in launches)


def _counted(launch: LaunchProfile, one: KernelCounters) -> LaunchProfile:
    counted_us = 0.0 if one.origin == EMULATED else one.duration_us
    return replace(
        launch,
        time_us=launch.time_us or counted_us,
        figures={**launch.figures, **one.figures},
    )


def _base(kernel: str) -> str:
    return kernel.partition("<")[0].rpartition("::")[2]
