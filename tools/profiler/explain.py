"""From the account of one call to its modelled time and the reasons for it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.profile import Bottleneck, KernelResources, LaunchProfile
from cuda_llm.tools.emulator.account import LaunchAccount
from cuda_llm.tools.emulator.tables import KernelTable
from cuda_llm.tools.profiler.bottlenecks import find_bottlenecks
from cuda_llm.tools.profiler.counts import LineAccess, accesses_by_line, count_instructions
from cuda_llm.tools.profiler.launch import Launch, place_launch


@dataclass(frozen=True, kw_only=True)
class Explained:
    """A call's modelled time, launch by launch, and what limits it."""

    time_us: float
    """Launches one after another; 0 for a call without launches."""
    launches: tuple[LaunchProfile, ...]
    bottlenecks: tuple[Bottleneck, ...]
    """Dominating one first."""


def explain_call(
    accounts: Sequence[LaunchAccount],
    tables: Sequence[KernelTable],
    resources: Sequence[KernelResources],
    hardware: Hardware,
) -> Explained:
    """Model the launches of one call of `solve`, in order, on `hardware`.

    `account.kernel` indexes `tables`; resources are matched by symbol. Every figure is modelled.
    """
    by_symbol = {kernel.symbol: kernel for kernel in resources}
    launches = [
        place_launch(
            account,
            tables[account.kernel],
            by_symbol.get(tables[account.kernel].symbol),
            hardware,
            resident_bytes=_left_in_l2(before, account, hardware),
        )
        for before, account in pairwise((None, *accounts))
        if account is not None
    ]
    return Explained(
        time_us=sum(launch.time.time_us for launch in launches),
        launches=tuple(_profile(launch) for launch in launches),
        bottlenecks=find_bottlenecks(launches),
    )


def _left_in_l2(before: LaunchAccount | None, account: LaunchAccount, hardware: Hardware) -> float:
    """Bytes that `account` finds in L2: all it reuses, unless the launch before overflowed it."""
    if before is None:
        return 0.0
    overflow = max(1.0, before.footprint_bytes / hardware.l2_bytes)
    return min(account.reused_bytes / overflow, float(hardware.l2_bytes))


def _profile(launch: Launch) -> LaunchProfile:
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
    )


def _figures(launch: Launch) -> dict[str, float]:
    mix = count_instructions(launch.account, launch.table)
    lines = accesses_by_line(launch.account, launch.table)
    onchip = [line for line in lines if line.wavefronts and line.kind != "atomic"]
    offchip = [line for line in lines if line.sectors and line.space in ("global", "generic")]
    figures = {
        "warp_instructions": mix.issued,
        "simd_efficiency": mix.simd_efficiency,
        "l2_bytes": launch.time.l2_bytes,
        "dram_bytes": launch.time.dram_bytes,
        "blocks_per_sm": float(launch.occupancy.blocks_per_sm),
        "counted_blocks_share": _share(launch.account.blocks_counted, launch.account.blocks_total),
    }
    figures |= {f"{kind.value}_warp_instructions": count for kind, count in mix.warps.items()}
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
