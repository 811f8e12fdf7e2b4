"""Counters of a launch from its counts on the emulated device, where nothing on a GPU counts.

What a launch moves, issues and passes follows from its instructions, so the emulated device counts
it as Nsight Compute would; only the time has to be measured. `count_launch` divides the counts by
the peaks of the hardware profile and by the modelled time; `at_measured_time` puts the measured
time of the call in place of the modelled one. Stalls alone stay modelled: they are the parts of the
longest path through a block. docs/time-model.md names what is estimated.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.occupancy import WARP_THREADS
from cuda_llm.profile import LaunchProfile, PhaseKind
from cuda_llm.source_file import SourceSpot
from cuda_llm.tools.device.inspection import EMULATED, SHARES_OF_TIME, KernelCounters, Stall
from cuda_llm.tools.profiler.counters import SiteCounters
from cuda_llm.tools.profiler.counts import (
    SECTOR_BYTES,
    count_instructions,
    count_tensor_operations,
    ideal_sectors,
)
from cuda_llm.tools.profiler.phases import find_phases
from cuda_llm.tools.profiler.tables import InstructionClass, InstructionSite
from cuda_llm.tools.profiler.time_model import ModelledLaunch, least_tensor_us
from cuda_llm.tools.profiler.traffic import (
    CONSTANT_SPACES,
    L2_SLICE_BYTES_PER_CLK,
    launch_traffic,
)

L2_PEAK = 2.0
"""Bytes per clock that L2's counters call their peak, for each that the profile says loads reach:
an H200 shows 15 % in a kernel that takes 0.83 kB per clock out of L2."""
DIRTY_SHARE = 0.6
"""Part of L2 that a launch fills before L2 begins to write its stores back. An H200 writes 43 to 49
of 67 MB back during a transpose, 3 to 6 of 17 MB during an addition; 48 and 4 MB by this part."""
ON_ALU = 0.5
"""Part of the integer instructions that the pipe of integers takes; ptxas gives the others to the
pipe of multiply-adds. Counters of an H200 show 0.36 to 0.58."""
BESIDE_US = 0.4
"""Microseconds of a measured call beside its kernels and what the profile says of a launch: by our
clock an H200 takes 1.1 us more for a call of one kernel than its counters show of the kernel."""
FILL_US = 3.3
"""Microseconds of a fill or copy in the graph that a GPU is timed with, without its bytes."""
STALL_OF_PHASE: Mapping[PhaseKind, str] = {
    "load": "long_scoreboard",
    "merge": "long_scoreboard",
    "shared": "short_scoreboard",
    "reduce": "short_scoreboard",
    "compute": "wait",
    "barrier": "barrier",
    "store": "lg_throttle",
}
"""Nsight Compute's name for the wait of each phase of the path."""
_PLAIN = ("load", "store", "async_copy")
_NO_TIME_US = 1e-3


def count_launch(
    launch: ModelledLaunch, spots: Mapping[str, SourceSpot] | None = None
) -> KernelCounters:
    """Return the counters of a launch as if it took its modelled time; `spots` are the lines of its
    reasons, by their codes."""
    kernel_us = max(launch.time.time_us - launch.hardware.model.launch_us, _NO_TIME_US)
    blocks, sms = launch.account.blocks_total, launch.hardware.sm_count
    idle = {"idle_sm_share": 1 - blocks / sms} if blocks < sms else {}
    parts = _memory_us(launch) | _pipes_us(launch)
    return KernelCounters(
        kernel=launch.name,
        duration_us=kernel_us,
        flushed=True,
        figures={
            **{f"{unit}_share": us / kernel_us for unit, us in parts.items()},
            **_memory_figures(launch),
            **_coalescing(launch),
            **_banks(launch),
            **idle,
        },
        stalls=_stalls(launch),
        origin=EMULATED,
        spots=spots or {},
    )


def at_measured_time(
    counters: Sequence[KernelCounters],
    launches: Sequence[LaunchProfile],
    time_us: float,
    hardware: Hardware,
) -> tuple[KernelCounters, ...]:
    """Return the counters of all launches of a call that took `time_us`, measured.

    Copies and fills among its modelled `launches` are taken off, as is what each launch needs to
    begin. The kernels share the rest as their modelled times do: only the call was measured.
    """
    modelled_us = sum(one.duration_us for one in counters)
    others_us = sum(_copying_us(one) for one in launches if not all(one.grid))
    gaps_us = BESIDE_US + others_us + len(counters) * hardware.model.launch_us
    if modelled_us <= 0 or time_us <= 0:
        return ()
    # A call in which nothing but gaps is left was modelled too slow in its gaps.
    kernels_us = max(time_us - gaps_us, time_us * modelled_us / (modelled_us + gaps_us))
    return tuple(_stretch(one, kernels_us / modelled_us) for one in counters)


def _copying_us(copies: LaunchProfile) -> float:
    bytes_us = copies.time_us - copies.terms_us.get("launch", 0.0)
    return bytes_us + copies.figures.get("copies", 0.0) * FILL_US


def _stretch(one: KernelCounters, factor: float) -> KernelCounters:
    figures = {
        name: min(1.0, value / factor) if name in SHARES_OF_TIME else value
        for name, value in one.figures.items()
    }
    return replace(one, duration_us=one.duration_us * factor, figures=figures)


def _memory_us(launch: ModelledLaunch) -> dict[str, float]:
    """Return the microseconds for which each level of memory is busy at its peak, all SMs, or all
    slices of L2, side by side."""
    hardware = launch.hardware
    traffic = launch_traffic(launch.account, launch.table, hardware)
    clk_us = 1.0 / hardware.boost_clock_mhz
    path_clk = (traffic.l1_clk + _shared_clk(launch)) / hardware.sm_count
    lines = sum(_lines_in_l2(*pair) for pair in _accesses(launch))
    slots = max(traffic.l2_bytes / L2_PEAK, lines * L2_SLICE_BYTES_PER_CLK)
    return {
        "dram": _dram_bytes(launch) / (hardware.peaks.dram_gb_s * 1e3),
        "l2": slots / hardware.model.l2_bytes_per_clk * clk_us,
        "l1": path_clk * clk_us,
        "atomic": traffic.atomic_clk * clk_us,
    }


def _memory_figures(launch: ModelledLaunch) -> dict[str, float]:
    traffic = launch_traffic(launch.account, launch.table, launch.hardware)
    shared_clk = _shared_clk(launch)
    path_clk = traffic.l1_clk + shared_clk
    figures = {"dram_bytes": _dram_bytes(launch), "l2_bytes": traffic.l2_bytes}
    if traffic.l2_bytes:
        figures["l2_hit_share"] = max(0.0, 1 - traffic.dram_bytes / traffic.l2_bytes)
    if path_clk:
        figures["shared_passes_share"] = shared_clk / path_clk
    return figures


def _shared_clk(launch: ModelledLaunch) -> float:
    """Return the clocks of passes over shared memory, all SMs together: an asynchronous copy writes
    there, too."""
    request_clk = WARP_THREADS / launch.hardware.pipes.load_store
    copied = sum(count.requests for site, count in _accesses(launch) if site.kind == "async_copy")
    traffic = launch_traffic(launch.account, launch.table, launch.hardware)
    return traffic.shared_clk + copied * request_clk


def _dram_bytes(launch: ModelledLaunch) -> float:
    """Return the bytes that cross DRAM while the launch runs: what L2 holds of its stores at the
    end is written back later."""
    moved = launch_traffic(launch.account, launch.table, launch.hardware).dram_bytes
    stored = SECTOR_BYTES * sum(
        count.dram_sectors for site, count in _accesses(launch) if site.kind == "store"
    )
    written = min(stored, launch.time.dram_bytes)
    kept = min(1.0, DIRTY_SHARE * launch.hardware.l2_bytes / moved) if moved else 0.0
    return launch.time.dram_bytes - written * kept


def _lines_in_l2(site: InstructionSite, count: SiteCounters) -> float:
    """Return the lines of an access that L2 looks up: of loads, as L1 leaves sectors."""
    if not count.sectors:
        return 0.0
    left = min(1.0, count.l2_sectors / count.sectors) if site.kind != "store" else 1.0
    return count.lines * left


def _pipes_us(launch: ModelledLaunch) -> dict[str, float]:
    """Return the microseconds for which issue slots and pipes are busy, all SMs side by side."""
    hardware = launch.hardware
    mix = count_instructions(launch.account, launch.table)
    warp_us = WARP_THREADS / (hardware.sm_count * hardware.boost_clock_mhz)
    pipes = hardware.pipes

    def lanes(*kinds: InstructionClass) -> float:
        return sum(mix.warps.get(kind, 0.0) for kind in kinds) * warp_us

    integers = lanes(InstructionClass.INT)
    multiplied = (
        lanes(InstructionClass.FP32) / pipes.fp32 + lanes(InstructionClass.FP16) / pipes.fp16
    )
    slots = WARP_THREADS * hardware.schedulers_per_sm
    tensor = count_tensor_operations(launch.account, launch.table)
    return {
        "issue": mix.issued * warp_us / slots,
        "fp32": multiplied + (1 - ON_ALU) * integers / pipes.fp32,
        "int": ON_ALU * integers / pipes.int32,
        "fp64": lanes(InstructionClass.FP64) / pipes.fp64,
        "sfu": lanes(InstructionClass.SFU) / pipes.sfu
        + lanes(InstructionClass.CONVERT) / pipes.convert,
        "tensor": least_tensor_us(tensor, hardware),
    }


def _coalescing(launch: ModelledLaunch) -> dict[str, float]:
    plain = [
        (site, count)
        for site, count in _accesses(launch)
        if site.kind in _PLAIN and site.space in ("global", "generic") and count.sectors
    ]
    sectors = sum(count.sectors for _, count in plain)
    mix = count_instructions(launch.account, launch.table)
    figures = {"simd_efficiency": mix.simd_efficiency}
    if sectors:
        figures["sectors_per_request"] = sectors / sum(count.requests for _, count in plain)
        figures["useful_byte_share"] = sum(ideal_sectors(*pair) for pair in plain) / sectors
    return figures


def _banks(launch: ModelledLaunch) -> dict[str, float]:
    on_banks = [
        count
        for site, count in _accesses(launch)
        if count.ideal_wavefronts and site.kind != "atomic" and site.space not in CONSTANT_SPACES
    ]
    ideal = sum(count.ideal_wavefronts for count in on_banks)
    return {"bank_ways": sum(count.wavefronts for count in on_banks) / ideal} if ideal else {}


def _stalls(launch: ModelledLaunch) -> tuple[Stall, ...]:
    """Return the phases of the path by the names of stalls, largest first."""
    phases = find_phases(launch)
    whole_clk = sum(one.clk for one in phases)
    clk: dict[str, float] = {}
    for one in phases:
        reason = STALL_OF_PHASE[one.kind]
        clk[reason] = clk.get(reason, 0.0) + one.clk
    found = [Stall(reason=reason, share=part / whole_clk) for reason, part in clk.items()]
    return tuple(sorted(found, key=lambda one: -one.share))


def _accesses(launch: ModelledLaunch) -> Iterator[tuple[InstructionSite, SiteCounters]]:
    pairs = zip(launch.table.sites, launch.account.sites, strict=True)
    return ((site, count) for site, count in pairs if site.space and count.requests)
