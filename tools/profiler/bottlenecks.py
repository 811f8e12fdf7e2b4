"""Finds the causes of a call's time, and lists those that limit it: `profile.limiter` is the first.

Every saving is the call modelled again without one cause, and leads below no floor: not below what
the task needs (`list_bottlenecks`), nor below what the kernel's own bytes, once, and its arithmetic
need (`ModelledLaunch.least_us`).
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cuda_llm.profile import Bottleneck, LaunchProfile
from cuda_llm.time_terms import PATH, unit_of
from cuda_llm.tools.device.inspection import KernelCounters
from cuda_llm.tools.profiler.counters import LaunchCounters, SiteCounters
from cuda_llm.tools.profiler.counts import SECTOR_BYTES
from cuda_llm.tools.profiler.roofs import ROOF_ADVICE, find_roofs
from cuda_llm.tools.profiler.time_model import ModelledLaunch, Term, TimeReason, model_launch
from cuda_llm.tools.profiler.wastes import find_wastes

LEAST_WASTE, LEAST_ROOF = 0.05, 0.1
"""Smaller shares are left out, but for the limiter."""
MOST = 6
"""Reasons that are listed."""

UNITS: Mapping[str, str] = {
    "dram_bandwidth": Term.DRAM,
    "l2_bandwidth": Term.L2,
    "shared_bandwidth": PATH,
    "l1_bandwidth": PATH,
    "issue": Term.ISSUE,
    "latency": Term.LATENCY,
    "atomics": Term.ATOMIC,
    "blocks": Term.BLOCKS,
    "launch_overhead": Term.LAUNCH,
    "copies": "copies",
    **{
        term.value: term
        for term in (
            *(Term.FP32, Term.FP64, Term.FP16, Term.INT),
            *(Term.SFU, Term.CONVERT, Term.SHUFFLE, Term.TENSOR),
        )
    },
}
"""Unit that a reason is the load of, by the reason's code; the others are wastes."""
EXPLAINED_BY = {
    "shared_bandwidth": ("bank_conflicts", "atomic_contention"),
    "l1_bandwidth": ("uncoalesced_global",),
    "l2_bandwidth": ("uncoalesced_global", "atomic_contention"),
    "atomics": ("atomic_contention",),
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
    """A call's time, launch by launch, and what the time goes to."""

    time_us: float
    """Microseconds of all launches one after another; 0 for a call without launches."""
    launches: tuple[LaunchProfile, ...]
    bottlenecks: tuple[Bottleneck, ...]
    """Of a modelled call all that was found, from which `list_bottlenecks` chooses; of a measured
    call those to list, the limiter first."""
    counters: tuple[KernelCounters, ...] = ()
    """Counters of each launch of a modelled call, in order, as if it took its modelled time."""


def as_bottleneck(
    finding: TimeReason,
    share: float,
    kernel: str = "",
    *,
    named: bool = False,
    saved_us: float = 0.0,
    time_us: float = 0.0,
    dominates: bool = False,
) -> Bottleneck:
    """Return a reason as it is listed; `named` puts its kernel's name before it, where a call has
    several."""
    return Bottleneck(
        code=finding.code,
        share=share,
        explanation=f"{kernel}: {finding.explanation}" if named else finding.explanation,
        spot=finding.spot,
        advice=finding.advice,
        saved_us=saved_us,
        time_us=time_us,
        kernel=kernel,
        dominates=dominates,
    )


@dataclass(frozen=True, kw_only=True)
class _Found:
    finding: TimeReason
    kernel: str
    saved_us: float
    weight_us: float
    """Microseconds of the call's time that the unit accounts for now."""
    freed_us: float = 0.0
    """Microseconds that would be saved if the unit took no time."""
    relieved_us: Mapping[str, float] = field(default_factory=dict)
    """Microseconds of each unit's time that go with the cause."""


def find_bottlenecks(
    launches: Sequence[ModelledLaunch], copies: Sequence[LaunchProfile] = ()
) -> tuple[Bottleneck, ...]:
    """Find every cause of a call's time: with its saving, where removing it saves time, and with
    the part of the time that it accounts for, where it is a unit."""
    total_us = sum(one.time.time_us for one in launches) + sum(one.time_us for one in copies)
    if total_us <= 0:
        return ()
    found = _merge_repeats([*_of_launches(launches), *_of_call(launches), *_of_copies(copies)])
    several = len({launch.name for launch in launches}) > 1
    unit, freed_us = _dominating_unit(found)

    def dominates(one: _Found) -> bool:
        if one.finding.code in UNITS and one.kernel:
            # What relieves a unit may relieve others, too, but its words are of the one unit.
            return UNITS[one.finding.code] == unit
        relieved_us = one.relieved_us.get(unit, 0.0)
        return relieved_us >= LEAST_WASTE * total_us or one.saved_us > freed_us

    def listed(one: _Found, share_us: float, saved_us: float = 0.0) -> Bottleneck:
        return as_bottleneck(
            one.finding,
            min(1.0, share_us / total_us),
            one.kernel,
            named=several and bool(one.kernel),
            saved_us=saved_us,
            time_us=total_us,
            dominates=dominates(one),
        )

    units = (one for one in found if one.finding.code in UNITS)
    return (
        *(listed(one, one.saved_us, one.saved_us) for one in found if one.saved_us > 0),
        *(listed(one, one.weight_us) for one in units if one.weight_us > 0),
    )


def _dominating_unit(found: Iterable[_Found]) -> tuple[str, float]:
    """Return the unit without whose work the call would be shortest, and what that would save."""
    freed: dict[str, float] = {}
    for one in found:
        unit = UNITS.get(one.finding.code)
        if unit is not None:
            freed[unit] = freed.get(unit, 0.0) + one.freed_us
    most = max(freed, key=freed.__getitem__, default="")
    return most, freed.get(most, 0.0)


def list_bottlenecks(found: Sequence[Bottleneck], least_us: float = 0.0) -> tuple[Bottleneck, ...]:
    """List what limits a modelled call, the limiter first (`profile.limiter`), of all that was
    found.

    `least_us` is the shortest time that is said to be possible: no saving leads below it. Behind
    the limiter stand causes, by saving, from 5 % of the time on; then units that no listed cause
    explains, by the part of the time that they account for, from 10 % on.
    """
    removable = [one for one in _limited(found, least_us) if one.share >= LEAST_WASTE]
    removable.sort(key=lambda one: one.saved_us, reverse=True)
    units = sorted((one for one in found if not one.saved_us), key=lambda one: -one.share)
    dominating = next((one for one in (*removable, *units) if one.dominates), None)
    first = () if dominating is None else (dominating,)
    named = {(one.kernel, one.code) for one in (*removable, *first)}
    busy = (
        one
        for one in units
        if one.share >= LEAST_ROOF and not _is_explained(one.kernel, one.code, named)
    )
    others = (one for one in (*removable, *busy) if one != dominating)
    return (*first, *others)[:MOST]


def _is_explained(kernel: str, code: str, named: Container[tuple[str, str]]) -> bool:
    """Return whether a resource is named already, of its kernel or of the call, or is busy because
    of a cause that is."""
    causes = EXPLAINED_BY.get(code, ())
    return ("", code) in named or any((kernel, one) in named for one in (code, *causes))


def _limited(found: Iterable[Bottleneck], least_us: float) -> Iterator[Bottleneck]:
    """Yield the causes that save time, none of them leading below `least_us`."""
    for one in found:
        saved_us = min(one.saved_us, max(0.0, one.time_us - least_us))
        if saved_us == one.saved_us > 0:
            yield one
        elif saved_us > 0:
            yield replace(one, saved_us=saved_us, share=saved_us / one.time_us)


def _of_launches(launches: Sequence[ModelledLaunch]) -> Iterator[_Found]:
    for launch in launches:
        most_us = launch.time.time_us - launch.least_us
        for finding in (*find_wastes(launch), *find_roofs(launch)):
            yield _Found(
                finding=finding,
                kernel=launch.name,
                saved_us=min(finding.saved_us, most_us),
                weight_us=finding.share * launch.time.time_us,
                freed_us=_freed_us(launch, UNITS[finding.code]) if finding.code in UNITS else 0.0,
                relieved_us=finding.relieved_us,
            )


def _freed_us(launch: ModelledLaunch, unit: str) -> float:
    terms = [term for term in launch.time.terms_us if unit_of(term) == unit]
    return launch.time.time_us - launch.time.without(*terms)


def _of_copies(copies: Sequence[LaunchProfile]) -> Iterator[_Found]:
    for one in copies:
        count = one.figures.get("copies", 0.0)
        yield _Found(
            finding=TimeReason(
                code="copies",
                saved_us=0.0,
                share=0.0,
                explanation=f"{count:,.0f} copies and fills take {one.time_us:.1f} us",
                advice="let a kernel that runs anyway fill or move what it needs",
            ),
            kernel="",
            saved_us=0.0,
            weight_us=one.time_us,
            freed_us=one.time_us,
            relieved_us={"copies": one.time_us},
        )


def _merge_repeats(found: Sequence[_Found]) -> list[_Found]:
    """Merge launches of the same kernel for the same reason; the costliest names the line."""
    merged: dict[tuple[str, str], _Found] = {}
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
            freed_us=known.freed_us + one.freed_us,
            relieved_us={
                unit: known.relieved_us.get(unit, 0.0) + us for unit, us in one.relieved_us.items()
            },
        )
    return list(merged.values())


def _of_call(launches: Sequence[ModelledLaunch]) -> Iterator[_Found]:
    """Yield reasons that show only in several launches together."""
    if len(launches) < 2:
        return
    total_us = sum(launch.time.time_us for launch in launches)
    least_us = max(_together_us(launches), *(launch.least_us for launch in launches))
    saved_us = max(0.0, total_us - least_us)
    starting_us = sum(launch.time.terms_us[Term.LAUNCH] for launch in launches)
    yield _Found(
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
        # What is not saved of the starts is saved of the waits at the end of each launch.
        relieved_us={
            Term.LAUNCH: min(saved_us, starting_us),
            Term.LATENCY: max(0.0, saved_us - starting_us),
        },
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
    yield _Found(
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
        relieved_us={Term.DRAM: total_us - fused_us},
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
