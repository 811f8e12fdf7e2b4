"""Selects the reasons for a time that are listed as bottlenecks, and ranks modelled reasons.

Modelled reasons are ranked by the time that removing each alone would save of the call; reasons
that no known change relieves follow, by their share of the time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cuda_llm.profile import Bottleneck, LaunchProfile
from cuda_llm.tools.profiler.counters import LaunchCounters, SiteCounters
from cuda_llm.tools.profiler.counts import SECTOR_BYTES
from cuda_llm.tools.profiler.roofs import ROOF_ADVICE, find_roofs
from cuda_llm.tools.profiler.time_model import ModelledLaunch, Term, TimeReason, model_launch
from cuda_llm.tools.profiler.wastes import find_wastes

LEAST_WASTE, LEAST_ROOF = 0.05, 0.1
"""Smaller shares are left out; the largest is always listed."""
MOST = 6
"""Reasons that are listed."""

EXPLAINED_BY = {
    "shared_bandwidth": ("bank_conflicts", "atomic_contention"),
    "l1_bandwidth": ("uncoalesced_global",),
    "l2_bandwidth": ("uncoalesced_global", "atomic_contention"),
    "latency": ("low_occupancy",),
    "issue": ("divergence",),
    "fp32": ("divergence",),
}
"""Codes of the wastes that cause a busy resource, by the resource's code."""


def least_share(finding: TimeReason) -> float:
    """Return the smallest share with which a reason is listed."""
    return LEAST_WASTE if finding.waste else LEAST_ROOF


@dataclass(frozen=True, kw_only=True)
class Explained:
    """A call's time, launch by launch, and what limits it."""

    time_us: float
    """Microseconds of all launches one after another; 0 for a call without launches."""
    launches: tuple[LaunchProfile, ...]
    bottlenecks: tuple[Bottleneck, ...]
    """Bottlenecks of the call, the dominating bottleneck first."""


def as_bottleneck(
    finding: TimeReason,
    share: float,
    kernel: str = "",
    *,
    saved_us: float = 0.0,
    time_us: float = 0.0,
) -> Bottleneck:
    """Return a reason as it is listed; `kernel` names its kernel where a call has several."""
    return Bottleneck(
        code=finding.code,
        share=share,
        explanation=f"{kernel}: {finding.explanation}" if kernel else finding.explanation,
        spot=finding.spot,
        advice=finding.advice,
        saved_us=saved_us,
        time_us=time_us,
    )


@dataclass(frozen=True, kw_only=True)
class _Ranked:
    finding: TimeReason
    kernel: str
    saved_us: float
    weight_us: float
    """Microseconds of the call's time that the resource accounts for now."""


def find_bottlenecks(launches: Sequence[ModelledLaunch]) -> tuple[Bottleneck, ...]:
    """Find what limits a call, first the cause whose removal alone saves most."""
    total_us = sum(launch.time.time_us for launch in launches)
    if total_us <= 0:
        return ()
    ranked = _merge_repeats([*_of_launches(launches), *_of_call(launches)])
    removable = [one for one in ranked if one.saved_us >= LEAST_WASTE * total_us]
    removable.sort(key=lambda one: one.saved_us, reverse=True)
    codes = {one.finding.code for one in removable}
    roofs = [one for one in ranked if not one.finding.waste and one.finding.code not in codes]
    roofs.sort(key=lambda one: one.weight_us, reverse=True)
    busy = [one for one in roofs if one.weight_us >= LEAST_ROOF * total_us]
    listed = [*removable, *busy][:MOST] or roofs[:1]
    name_kernels = len({launch.name for launch in launches}) > 1
    return tuple(
        as_bottleneck(
            one.finding,
            min(1.0, (one.saved_us if one in removable else one.weight_us) / total_us),
            one.kernel if name_kernels else "",
            saved_us=one.saved_us if one in removable else 0.0,
            time_us=total_us,
        )
        for one in listed
    )


def limit_savings(bottlenecks: Sequence[Bottleneck], least_us: float) -> tuple[Bottleneck, ...]:
    """Return bottlenecks of which none promises a time below `least_us`, which the task needs on
    any kernel; those that save nothing then stay as the part of the time that they account for."""
    return tuple(_limited(one, least_us) for one in bottlenecks)


def _limited(one: Bottleneck, least_us: float) -> Bottleneck:
    most_us = max(0.0, one.time_us - least_us)
    if one.saved_us <= most_us:
        return one
    return replace(one, saved_us=most_us, share=most_us / one.time_us if most_us else one.share)


def _of_launches(launches: Sequence[ModelledLaunch]) -> Iterator[_Ranked]:
    for launch in launches:
        wastes = find_wastes(launch)
        saved = {waste.code: waste.saved_us for waste in wastes}
        most_us = launch.time.time_us - launch.least_us
        for finding in (*wastes, *find_roofs(launch)):
            weight_us = finding.share * launch.time.time_us
            causes = [saved.get(cause, 0.0) for cause in EXPLAINED_BY.get(finding.code, ())]
            explained = max(causes, default=0.0) >= LEAST_WASTE * launch.time.time_us
            yield _Ranked(
                finding=finding,
                kernel=launch.name,
                saved_us=min(finding.saved_us, most_us),
                weight_us=0.0 if explained else weight_us,
            )


def _merge_repeats(found: Sequence[_Ranked]) -> list[_Ranked]:
    """Merge launches of the same kernel for the same reason; the costliest names the line."""
    merged: dict[tuple[str, str], _Ranked] = {}
    for one in found:
        key = (one.kernel, one.finding.code)
        known = merged.get(key)
        if known is None:
            merged[key] = one
            continue
        costly = max(known, one, key=lambda one: (one.saved_us, one.weight_us))
        merged[key] = replace(
            costly,
            saved_us=known.saved_us + one.saved_us,
            weight_us=known.weight_us + one.weight_us,
        )
    return list(merged.values())


def _of_call(launches: Sequence[ModelledLaunch]) -> Iterator[_Ranked]:
    """Yield reasons that show only in several launches together."""
    if len(launches) < 2:
        return
    total_us = sum(launch.time.time_us for launch in launches)
    saved_us = total_us - _together_us(launches)
    starting_us = sum(launch.time.terms_us[Term.LAUNCH] for launch in launches)
    yield _Ranked(
        finding=TimeReason(
            code="launch_overhead",
            saved_us=saved_us,
            share=starting_us / total_us,
            explanation=(
                f"{len(launches)} launches, one after another, take {starting_us:.1f} us to start "
                "and leave the chip partly idle at the end of each"
            ),
            advice=ROOF_ADVICE["launch_overhead"],
        ),
        kernel="",
        saved_us=saved_us,
        weight_us=0.0,
    )
    passed = _passed_on(launches)
    if not sum(passed):
        return
    fused_us = sum(
        launch.what_if(
            setting=replace(
                launch.setting, resident_bytes=launch.setting.resident_bytes + bytes_passed
            )
        ).time_us
        for launch, bytes_passed in zip(launches, passed, strict=True)
    )
    yield _Ranked(
        finding=TimeReason(
            code="dram_bandwidth",
            saved_us=total_us - fused_us,
            share=0.0,
            explanation=f"{sum(passed) / 1e6:.1f} MB go through DRAM from one launch to the next",
            advice="fuse the launches, so that what one leaves for the next stays on chip",
        ),
        kernel="",
        saved_us=total_us - fused_us,
        weight_us=0.0,
    )


def _together_us(launches: Sequence[ModelledLaunch]) -> float:
    """Model the microseconds of a single launch with the work of all launches; work of the same
    kernel is added."""
    groups: dict[int, list[ModelledLaunch]] = {}
    for launch in launches:
        groups.setdefault(launch.account.kernel, []).append(launch)
    spared = len(groups) - 1
    return sum(map(_one_launch_us, groups.values())) - spared * launches[0].hardware.model.launch_us


def _one_launch_us(launches: Sequence[ModelledLaunch]) -> float:
    first, *others = launches
    if not others:
        return first.time.time_us
    accounts = [launch.account for launch in launches]
    resident = sum(launch.setting.resident_bytes for launch in launches)
    setting = replace(first.setting, resident_bytes=resident)
    return model_launch(_added(accounts), first.table, first.hardware, setting).time_us


def _added(accounts: Sequence[LaunchCounters]) -> LaunchCounters:
    blocks = sum(one.blocks_total for one in accounts)
    return replace(
        accounts[0],
        blocks_total=blocks,
        block_warps=tuple(map(sum, zip(*(one.block_warps for one in accounts), strict=True))),
        block_lanes=tuple(map(sum, zip(*(one.block_lanes for one in accounts), strict=True))),
        sites=tuple(
            map(_added_sites, zip(*(one.sites for one in accounts), strict=True)),
        ),
        footprint_bytes=sum(one.footprint_bytes for one in accounts),
        heaviest={},
        path_clk=sum(one.path_clk * one.blocks_total for one in accounts) / max(1, blocks),
        longest_clk=max(one.longest_clk for one in accounts),
        worst_line=sum(one.worst_line for one in accounts),
        grid_barriers=sum(one.grid_barriers for one in accounts),
        barriers=sum(one.barriers for one in accounts),
    )


def _added_sites(counts: Sequence[SiteCounters]) -> SiteCounters:
    return SiteCounters(
        requests=sum(one.requests for one in counts),
        lanes=sum(one.lanes for one in counts),
        sectors=sum(one.sectors for one in counts),
        lines=sum(one.lines for one in counts),
        wavefronts=sum(one.wavefronts for one in counts),
        ideal_wavefronts=sum(one.ideal_wavefronts for one in counts),
        worst_ways=max(one.worst_ways for one in counts),
        l2_sectors=sum(one.l2_sectors for one in counts),
        dram_sectors=sum(one.dram_sectors for one in counts),
        serial=sum(one.serial for one in counts),
    )


def _passed_on(launches: Sequence[ModelledLaunch]) -> list[float]:
    """Return bytes of each launch that go through DRAM to or from a launch of another kernel.

    Loads of a kernel count as data that earlier kernels stored, up to the stored bytes.
    """
    passed = [0.0] * len(launches)
    for number, launch in enumerate(launches):
        earlier = [
            index
            for index in range(number)
            if launches[index].account.kernel != launch.account.kernel
        ]
        stored = {
            index: _moved_bytes(launches[index], "store") - passed[index] for index in earlier
        }
        whole = sum(max(0.0, one) for one in stored.values())
        loaded = min(whole, _moved_bytes(launch, "load") - launch.setting.resident_bytes)
        if loaded <= 0:
            continue
        passed[number] += loaded
        for index, one in stored.items():
            passed[index] += loaded * max(0.0, one) / whole
    return passed


def _moved_bytes(launch: ModelledLaunch, kind: str) -> float:
    pairs = zip(launch.table.sites, launch.account.sites, strict=True)
    return SECTOR_BYTES * sum(count.dram_sectors for site, count in pairs if site.kind == kind)
