"""The ranked reasons for the measured time of a call."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cuda_llm.hardware_profiles.ceilings import Ceilings, find_ceilings
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.profile import Bottleneck, LaunchProfile, Profile
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device.inspection import KernelCounters
from cuda_llm.tools.profiler.achieved import Achieved, achieve, find_rates, find_shapes
from cuda_llm.tools.profiler.bottlenecks import (
    EXPLAINED_BY,
    MOST,
    Explained,
    as_bottleneck,
    least_share,
)
from cuda_llm.tools.profiler.kernel_counters import find_counted, with_counters
from cuda_llm.tools.profiler.time_model import TimeReason

WASTE_WEIGHT = 2.0
"""A waste is listed before a busy unit of up to this many times its share: it can be avoided. Less
than for modelled times, which include what the kernel would take without the waste."""
BUSY = 0.6
"""Share of its peak below which a unit does not limit a kernel, whose warps wait instead. The
threshold is that of Nsight Compute's "Speed Of Light" rule; below it, a unit's share counts half.
"""
REPLACED = {"dram_bandwidth", "fp32", "fp64", "fp16", "tensor", "latency"}
"""Reasons that counters show better than rates do."""


@dataclass(frozen=True)
class _LaunchReason:
    kernel: str
    finding: TimeReason
    share: float


def explain_measured(
    achieved: Achieved,
    launches: Sequence[LaunchProfile],
    hardware: Hardware,
    ceilings: Ceilings,
    counters: Sequence[KernelCounters] = (),
) -> tuple[Bottleneck, ...]:
    """Find what limits a call that took `achieved.time_us`, dominating reason first.

    `share` is the part of the time during which the named unit was busy, or the named waste cost:
    counted where there are counters, else inferred from rates, occupancy and waves. Shares overlap.
    """
    found: dict[tuple[str, str], list[_LaunchReason]] = {}
    for one in _collect(achieved, launches, hardware, ceilings, counters):
        found.setdefault((one.kernel, one.finding.code), []).append(one)
    merged = {key: _merge(ones) for key, ones in found.items()}
    causes = {key: one.share for key, one in merged.items() if one.finding.waste}
    ranked = sorted(
        (one for one in merged.values() if not _is_explained(one, causes)), key=_rank, reverse=True
    )
    kept = [one for one in ranked if one.share >= least_share(one.finding)][:MOST] or ranked[:1]
    names = {one.kernel for one in launches if all(one.grid)}
    return tuple(
        as_bottleneck(one.finding, one.share, one.kernel if len(names) > 1 else "") for one in kept
    )


def _merge(ones: Sequence[_LaunchReason]) -> _LaunchReason:
    """Add up what launches of the same kernel spend for the same reason; the launch that spends
    most names it."""
    most = max(ones, key=lambda one: one.share)
    return replace(most, share=min(1.0, sum(one.share for one in ones)))


def _collect(
    achieved: Achieved,
    launches: Sequence[LaunchProfile],
    hardware: Hardware,
    ceilings: Ceilings,
    counters: Sequence[KernelCounters],
) -> Iterator[_LaunchReason]:
    for finding in find_rates(achieved, launches, ceilings, counters):
        if not counters or finding.code not in REPLACED:
            yield _LaunchReason("", finding, finding.share)
    counted_us = sum(one.duration_us for one in counters)
    for one in counters:
        for finding in find_counted(one):
            yield _LaunchReason(one.kernel, finding, finding.share * one.duration_us / counted_us)
    kernels = [one for one in launches if all(one.grid)]
    busiest = max(achieved.memory_share, achieved.compute_share)
    parts = [one.duration_us / counted_us for one in counters]
    if len(parts) != len(kernels):
        parts = [1 / len(kernels) for _ in kernels]
    for launch, part in zip(kernels, parts, strict=True):
        for finding in find_shapes(
            launch, hardware, time_us=achieved.time_us * part, idle_share=max(0.0, 1 - busiest)
        ):
            yield _LaunchReason(launch.kernel, finding, finding.share * part)


def _is_explained(one: _LaunchReason, causes: Mapping[tuple[str, str], float]) -> bool:
    """Return whether a unit is busy only because of a waste that is listed anyway."""
    found = EXPLAINED_BY.get(one.finding.code, ())
    return any(causes.get((one.kernel, cause), 0.0) > 0.5 * one.share for cause in found)


def _rank(one: _LaunchReason) -> float:
    if one.finding.waste:
        return WASTE_WEIGHT * one.share
    if one.finding.code == "atomics":
        # How long updates of a word wait for each other is modelled, and not counted.
        return one.share / 2
    is_rest = one.finding.code in ("latency", "launch_overhead")
    return one.share if is_rest or one.finding.share >= BUSY else one.share / 2


def profile_call(
    task: Task,
    dims: Mapping[str, int],
    time_us: float,
    launches: Sequence[LaunchProfile],
    hardware: Hardware,
    counters: Sequence[KernelCounters] = (),
) -> Explained:
    """Explain a call at one size that took `time_us`, from its launch log and its counters.

    Ceilings come from a probe of this GPU where a probe exists. Raises HardwareError where the
    probe's file cannot be read.
    """
    ceilings = find_ceilings(hardware)
    achieved = achieve(task, dims, time_us, hardware, ceilings)
    shown = with_counters(launches, counters, time_us)
    return Explained(
        time_us=time_us,
        launches=shown,
        bottlenecks=explain_measured(achieved, shown, hardware, ceilings, counters),
    )


def explain_with_counters(
    task: Task, hardware: Hardware, profile: Profile, counters: Sequence[KernelCounters]
) -> Profile:
    """Explain the largest timed size by its counters, where there are counters.

    The counters must be those of that size. Raises HardwareError where the file of a probe cannot
    be read.
    """
    if not counters or not profile.sizes:
        return profile
    largest = profile.sizes[-1]
    call = profile_call(task, largest.dims, largest.time_us, profile.launches, hardware, counters)
    return replace(profile, launches=call.launches, bottlenecks=call.bottlenecks)
