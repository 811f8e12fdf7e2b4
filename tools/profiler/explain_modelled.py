"""Models the time of a call from its counters, and ranks the reasons for the time."""

from collections.abc import Sequence

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.profile import KernelResources, LaunchProfile
from cuda_llm.source_file import SourceSpot
from cuda_llm.tools.profiler.bottlenecks import Explained, find_bottlenecks
from cuda_llm.tools.profiler.counters import LaunchCounters
from cuda_llm.tools.profiler.counts import (
    LineAccess,
    accesses_by_line,
    count_instructions,
    count_tensor_operations,
)
from cuda_llm.tools.profiler.emulated_counters import count_launch
from cuda_llm.tools.profiler.phases import find_phases
from cuda_llm.tools.profiler.tables import KernelTable
from cuda_llm.tools.profiler.time_model import ModelledLaunch, least_tensor_us, place_launch
from cuda_llm.tools.profiler.traffic import CONSTANT_SPACES

BUS_BYTES_PER_US = 25e3
"""Host to device and back: sixteen lanes of PCIe 4.0 at some 80 % of 31.5 GB/s (an estimate)."""
UNLIKE_PATHS = 1.1
"""Times the path through an average block from which on that through the longest has a figure."""
PIECE_US = 1e-3
"""A row of a rectangle that is copied or filled, however short (an estimate)."""


def copies_profile(
    count: int, device_bytes: int, host_bytes: int, hardware: Hardware, *, pieces: int = 0
) -> tuple[LaunchProfile, ...]:
    """Return all fills and copies of a call as a single profile; empty for a call without any.

    Each copy or fill costs a launch, and each of its `pieces` beyond the first some time; their
    bytes cross DRAM even where caches might hold them.
    """
    if count == 0:
        return ()
    terms_us = {
        "launch": count * (hardware.model.fill_us or hardware.model.launch_us),
        "dram": device_bytes / (hardware.peaks.dram_gb_s * 1e3 * hardware.model.dram_efficiency),
        "bus": host_bytes / BUS_BYTES_PER_US,
        "pieces": pieces * PIECE_US,
    }
    profile = LaunchProfile(
        kernel="copies and fills",
        grid=(0, 0, 0),
        block=(0, 0, 0),
        shared_bytes=0,
        occupancy=0.0,
        time_us=terms_us["launch"] + max(terms_us[term] for term in ("dram", "bus", "pieces")),
        terms_us={term: us for term, us in terms_us.items() if us > 0},
        figures={"copies": float(count), "dram_bytes": float(device_bytes)},
    )
    return (profile,)


def explain_call(
    accounts: Sequence[LaunchCounters],
    tables: Sequence[KernelTable],
    resources: Sequence[KernelResources],
    hardware: Hardware,
    copies: Sequence[LaunchProfile] = (),
) -> Explained:
    """Model the launches of a call of `solve`, in order, on `hardware`; `copies` are the profile of
    its copies and fills.

    `account.kernel` indexes `tables`; resources are matched by symbol. Every figure is modelled.
    """
    by_symbol = {kernel.symbol: kernel for kernel in resources}
    launches = [
        place_launch(
            account,
            tables[account.kernel],
            by_symbol.get(tables[account.kernel].symbol),
            hardware,
            resident_bytes=float(account.reused_bytes),
            is_first=number == 0,
        )
        for number, account in enumerate(accounts)
    ]
    bottlenecks = find_bottlenecks(launches, copies)
    spots: dict[str, dict[str, SourceSpot]] = {}
    for one in bottlenecks:
        if one.spot is not None:
            spots.setdefault(one.kernel, {}).setdefault(one.code, one.spot)
    return Explained(
        time_us=sum(launch.time.time_us for launch in launches)
        + sum(one.time_us for one in copies),
        launches=(*map(_profile, launches), *copies),
        bottlenecks=bottlenecks,
        counters=tuple(count_launch(launch, spots.get(launch.name)) for launch in launches),
    )


def _profile(launch: ModelledLaunch) -> LaunchProfile:
    account = launch.account
    return LaunchProfile(
        kernel=launch.name,
        grid=account.grid,
        block=account.block,
        shared_bytes=launch.shared_bytes,
        occupancy=launch.occupancy.fraction,
        time_us=launch.time.time_us,
        terms_us={term.value: us for term, us in launch.time.terms_us.items() if us > 0},
        figures=_figures(launch),
        phases=find_phases(launch),
    )


def _figures(launch: ModelledLaunch) -> dict[str, float]:
    mix = count_instructions(launch.account, launch.table)
    lines = accesses_by_line(launch.account, launch.table)
    onchip = [
        line
        for line in lines
        if line.wavefronts and line.kind != "atomic" and line.space not in CONSTANT_SPACES
    ]
    offchip = [line for line in lines if line.sectors and line.space in ("global", "generic")]
    figures = {
        "warp_instructions": mix.issued,
        "simd_efficiency": mix.simd_efficiency,
        "l2_bytes": launch.time.l2_bytes,
        "dram_bytes": launch.time.dram_bytes,
        "blocks_per_sm": float(launch.occupancy.blocks_per_sm),
    }
    if launch.account.sampled_blocks:
        figures["sampled_blocks"] = float(launch.account.sampled_blocks)
        figures["sample_spread"] = launch.account.spread
    if launch.account.longest_clk >= UNLIKE_PATHS * launch.account.path_clk > 0:
        figures["longest_path_clk"] = launch.account.longest_clk
    figures |= {f"{kind.value}_warp_instructions": count for kind, count in mix.warps.items()}
    tensor = count_tensor_operations(launch.account, launch.table)
    if tensor:
        figures["tensor_operations"] = sum(tensor.values())
        figures["least_tensor_us"] = least_tensor_us(tensor, launch.hardware)
    if offchip:
        figures["sectors_per_request"] = _ratio(offchip, "sectors", "requests")
        figures["ideal_sectors_per_request"] = _ratio(offchip, "ideal_sectors", "requests")
        figures["useful_byte_share"] = _ratio(offchip, "ideal_sectors", "sectors")
    if onchip:
        figures["bank_ways"] = _ratio(onchip, "wavefronts", "ideal_wavefronts")
        figures["worst_bank_ways"] = float(max(line.worst_ways for line in onchip))
    return figures


def _ratio(lines: Sequence[LineAccess], over: str, under: str) -> float:
    return _share(
        sum(getattr(line, over) for line in lines), sum(getattr(line, under) for line in lines)
    )


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
