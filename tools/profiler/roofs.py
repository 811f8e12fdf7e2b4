"""Roofs: resources that a launch keeps busy with work it needs, and what relieving them saves."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cuda_llm.hardware_profiles.occupancy import WARP_THREADS
from cuda_llm.source_file import SourceSpot
from cuda_llm.tools.profiler.counters import SiteCounters
from cuda_llm.tools.profiler.phases import find_phases
from cuda_llm.tools.profiler.relief import (
    FEWER,
    in_single_precision,
    with_data_kept,
    with_fewer_instructions,
    with_fewer_of,
    with_larger_tiles,
    with_values_reused,
)
from cuda_llm.tools.profiler.tables import InstructionClass, InstructionSite
from cuda_llm.tools.profiler.time_model import (
    WAITING,
    LaunchTime,
    ModelledLaunch,
    Term,
    TimeReason,
)
from cuda_llm.tools.profiler.traffic import block_clk, load_clk, site_traffic, wait_clk, warp_waits

_PIPES = {
    Term.FP32: (InstructionClass.FP32, "fp32 arithmetic"),
    Term.FP64: (InstructionClass.FP64, "fp64 arithmetic"),
    Term.FP16: (InstructionClass.FP16, "fp16 arithmetic"),
    Term.INT: (InstructionClass.INT, "integer arithmetic"),
    Term.SFU: (InstructionClass.SFU, "special functions (exp, sin, rsqrt ...)"),
    Term.CONVERT: (InstructionClass.CONVERT, "type conversions"),
    Term.SHUFFLE: (InstructionClass.SHUFFLE, "warp shuffles"),
    Term.TENSOR: (InstructionClass.TENSOR, "tensor operations"),
}

ROOF_ADVICE = {
    "dram_bandwidth": "move fewer bytes: fuse passes, use narrower types, keep data on chip",
    "l2_bandwidth": (
        "reuse data on the SM: stage tiles in shared memory or registers, larger tiles"
    ),
    "issue": "do more per instruction: vector loads, unrolled loops, simpler index arithmetic",
    "blocks": "launch fewer blocks: more elements a thread, or a loop over the grid",
    "atomics": "update less often: sum in registers or shared memory first",
    "launch_overhead": "do more work per launch, or fuse launches",
    "latency": "give each thread several independent loads (unroll), or raise occupancy",
    "fp32": "cut operations, or move the products to tensor cores where the tolerance allows",
    "fp64": "compute in fp32 where the tolerance allows",
    "fp16": "use half2 operations, or tensor cores",
    "int": "hoist address arithmetic out of the inner loop, unroll, use 32-bit indices",
    "sfu": "compute fewer special functions, or reuse their results",
    "convert": "convert once, outside the inner loop",
    "shuffle": "shuffle fewer values, or reduce in registers first",
    "tensor": "multiply less that is thrown away, or narrower types where the tolerance allows",
}
"""Advice that relieves a busy resource, by the reason's code, for modelled and counted times."""


_CHAIN_ADVICE = (
    "give each thread more elements before threads wait for each other, join by warp shuffles "
    "instead of barriers, keep several running results that do not depend on each other"
)
UNDER_WAY = 4.0
"""Loads of a warp under way for each that is now, at most `MOST_UNDER_WAY`."""
MOST_UNDER_WAY = 8.0


def find_roofs(launch: ModelledLaunch) -> tuple[TimeReason, ...]:
    """Return a reason for every term of the launch that takes time."""
    terms = launch.time.terms_us
    reasons = [
        _memory(launch),
        _l2(launch),
        _data_path(launch),
        _latency(launch),
        _issue(launch),
        _launch(launch),
        _blocks(launch),
        _atomics(launch),
        *(_pipe(launch, term) for term in _PIPES if terms[term] > 0),
    ]
    return tuple(reason for reason in reasons if reason.share > 0)


def _memory(launch: ModelledLaunch) -> TimeReason:
    moved, us = launch.time.dram_bytes, launch.time.terms_us[Term.DRAM]
    return TimeReason(
        code="dram_bandwidth",
        **launch.time.saving(with_data_kept(launch), Term.DRAM),
        explanation=f"{_megabytes(moved)} to and from DRAM take {us:.1f} us",
        advice=ROOF_ADVICE["dram_bandwidth"],
        spot=_costliest_site(launch, lambda _, count: count.dram_sectors),
    )


def _l2(launch: ModelledLaunch) -> TimeReason:
    moved, us = launch.time.l2_bytes, launch.time.terms_us[Term.L2]
    return TimeReason(
        code="l2_bandwidth",
        **launch.time.saving(with_larger_tiles(launch), Term.L2),
        explanation=f"{_megabytes(moved)} through L2 take {us:.1f} us",
        advice=ROOF_ADVICE["l2_bandwidth"],
        spot=_costliest_site(launch, lambda site, count: _traffic_bytes(launch, site, count)),
    )


def _data_path(launch: ModelledLaunch) -> TimeReason:
    terms = launch.time.terms_us
    on_shared = terms[Term.SHARED] >= terms[Term.L1]
    us = terms[Term.SHARED] + terms[Term.L1]
    where = "shared-memory" if on_shared else "L1"
    advice = (
        "keep more of each tile in registers, use wider shared loads (float4)"
        if on_shared
        else "load each value once: stage tiles in shared memory, use wider loads (float4)"
    )
    return TimeReason(
        code="shared_bandwidth" if on_shared else "l1_bandwidth",
        **launch.time.saving(with_values_reused(launch), Term.SHARED, Term.L1),
        explanation=f"{where} accesses keep the load/store path of an SM busy for {us:.1f} us",
        advice=advice,
        spot=_costliest_site(launch, lambda site, count: _data_path_clk(launch, site, count)),
    )


def _latency(launch: ModelledLaunch) -> TimeReason:
    shorter = _shorten(launch)
    resident, room = launch.resident_warps, launch.hardware.limits.threads_per_sm // WARP_THREADS
    return TimeReason(
        code="latency",
        **launch.time.saving(launch.what_if(waiting=shorter.part), *WAITING),
        explanation=(
            f"warps wait {sum(launch.time.terms_us[term] for term in WAITING):.1f} us, "
            f"{resident} of {room} of an SM resident"
        ),
        advice=(
            "launch more blocks: the grid does not fill the chip"
            if resident < launch.occupancy.warps_per_sm
            else ROOF_ADVICE["latency"]
            if shorter.by_loads
            else _CHAIN_ADVICE
        ),
        spot=_longest_wait(launch, by_loads=shorter.by_loads),
    )


def _longest_wait(launch: ModelledLaunch, *, by_loads: bool) -> SourceSpot | None:
    """Return the line that the longest path waits at longest; where no path was counted, the access
    that is waited for longest in the basic block that waits longest."""
    phases = find_phases(launch)
    if phases:
        alike = (one for one in phases if (one.kind == "load") == by_loads)
        return next(alike, phases[0]).spot
    loads = load_clk(launch.account, launch.table, launch.hardware)
    whole = block_clk(launch.account, launch.table, launch.hardware)
    clk = loads if by_loads else [one - load for one, load in zip(whole, loads, strict=True)]
    if not any(clk):
        return None
    slowest = max(range(len(clk)), key=clk.__getitem__)
    pairs = zip(launch.table.sites, launch.account.sites, strict=True)
    access = _costliest_line(
        (site.spot, wait_clk(site, count, launch.hardware))
        for site, count in pairs
        if site.block == slowest
    )
    return access or launch.table.blocks[slowest].spot


def _issue(launch: ModelledLaunch) -> TimeReason:
    us = launch.time.terms_us[Term.ISSUE]
    return TimeReason(
        code="issue",
        **launch.time.saving(with_fewer_instructions(launch), Term.ISSUE),
        explanation=f"issuing the instructions alone takes {us:.1f} us",
        advice=ROOF_ADVICE["issue"],
        spot=_busiest_block(launch, tuple(InstructionClass)),
    )


def _launch(launch: ModelledLaunch) -> TimeReason:
    us = launch.time.terms_us[Term.LAUNCH]
    return TimeReason(
        code="launch_overhead",
        **launch.time.saving(launch.time, Term.LAUNCH),
        explanation=f"starting a kernel takes {us:.1f} us whatever it does",
        advice=ROOF_ADVICE["launch_overhead"],
    )


def _blocks(launch: ModelledLaunch) -> TimeReason:
    us = launch.time.terms_us[Term.BLOCKS]
    return TimeReason(
        code="blocks",
        **launch.time.saving(launch.time.with_part(Term.BLOCKS, 1 / FEWER), Term.BLOCKS),
        explanation=f"starting {launch.account.blocks_total:,} blocks takes {us:.1f} us",
        advice=ROOF_ADVICE["blocks"],
    )


def _atomics(launch: ModelledLaunch) -> TimeReason:
    us = launch.time.terms_us[Term.ATOMIC]
    return TimeReason(
        code="atomics",
        **launch.time.saving(launch.time, Term.ATOMIC),
        explanation=f"updates of global memory by atomics take {us:.1f} us",
        advice=ROOF_ADVICE["atomics"],
        spot=_costliest_site(
            launch, lambda site, count: count.sectors if site.kind == "atomic" else 0.0
        ),
    )


def _pipe(launch: ModelledLaunch, term: Term) -> TimeReason:
    kind, name = _PIPES[term]
    return TimeReason(
        code=term.value,
        **launch.time.saving(_relieved(launch, term), term),
        explanation=f"{name} keeps its pipe busy for {launch.time.terms_us[term]:.1f} us",
        advice=ROOF_ADVICE[term.value],
        spot=_busiest_block(launch, (kind,)),
    )


def _relieved(launch: ModelledLaunch, term: Term) -> LaunchTime:
    """Model the launch with the load of a pipe relieved; the work of the task itself stays."""
    if term is Term.FP64:
        return in_single_precision(launch)
    if term in (Term.INT, Term.SFU, Term.CONVERT, Term.SHUFFLE):
        return with_fewer_of(launch, _PIPES[term][0])
    return launch.time


def _costliest_site(
    launch: ModelledLaunch, cost: Callable[[InstructionSite, SiteCounters], float]
) -> SourceSpot | None:
    pairs = zip(launch.table.sites, launch.account.sites, strict=True)
    return _costliest_line((site.spot, cost(site, count)) for site, count in pairs)


def _costliest_line(costs: Iterable[tuple[SourceSpot | None, float]]) -> SourceSpot | None:
    """Return the source line with the largest total cost: an unrolled loop has many instructions on
    one line."""
    by_line: dict[SourceSpot, float] = {}
    for spot, cost in costs:
        if spot is not None and cost > 0:
            by_line[spot] = by_line.get(spot, 0.0) + cost
    return max(by_line, key=by_line.__getitem__, default=None)


def _traffic_bytes(launch: ModelledLaunch, site: InstructionSite, count: SiteCounters) -> float:
    return site_traffic(site, count, launch.hardware).l2_bytes


def _data_path_clk(launch: ModelledLaunch, site: InstructionSite, count: SiteCounters) -> float:
    traffic = site_traffic(site, count, launch.hardware)
    return traffic.l1_clk + traffic.shared_clk


def _busiest_block(
    launch: ModelledLaunch, kinds: tuple[InstructionClass, ...]
) -> SourceSpot | None:
    blocks = zip(launch.table.blocks, launch.account.block_warps, strict=True)
    return _costliest_line(
        (block.spot, sum(block.mix.get(kind, 0) for kind in kinds) * runs) for block, runs in blocks
    )


def _megabytes(count: float) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"


@dataclass(frozen=True, kw_only=True)
class _Shorter:
    """Changes that shorten the path of a warp."""

    part: float
    """Part of the path that is left, 0 to 1."""
    by_loads: bool
    """Whether more loads in flight shorten the path, or fewer waits of other kinds."""


def _shorten(launch: ModelledLaunch) -> _Shorter:
    """Return the better of two: more loads under way at once, or shorter chains of other waits."""
    loads_clk, others_clk, all_clk = _waits_of_path(launch)
    if not all_clk:
        return _Shorter(part=1.0, by_loads=True)
    overlap = max(1.0, min(UNDER_WAY, MOST_UNDER_WAY / _loads_under_way(launch)))
    loads = loads_clk * (1 - 1 / overlap)
    others = others_clk * (1 - 1 / UNDER_WAY)
    return _Shorter(part=1 - max(loads, others) / all_clk, by_loads=loads >= others)


def _waits_of_path(launch: ModelledLaunch) -> tuple[float, float, float]:
    """Return the clocks of waiting for global memory, for other things, and in all: on the longest
    path, else of an average warp."""
    phases = find_phases(launch)
    if not phases:
        waits = warp_waits(launch.account, launch.table, launch.hardware)
        return waits.loads, waits.chains + waits.barriers, waits.all
    loads_clk = sum(one.clk for one in phases if one.kind == "load")
    all_clk = sum(one.clk for one in phases)
    stores_clk = sum(one.clk for one in phases if one.kind == "store")
    return loads_clk, all_clk - loads_clk - stores_clk, all_clk


def _loads_under_way(launch: ModelledLaunch) -> float:
    """Return how many loads of global memory a warp has under way at once, on average."""
    runs = [
        (block, warps)
        for block, warps in zip(launch.table.blocks, launch.account.block_warps, strict=True)
        if block.memory_batches and block.global_loads
    ]
    batches = sum(block.memory_batches * warps for block, warps in runs)
    return sum(block.global_loads * warps for block, warps in runs) / batches if batches else 1.0
