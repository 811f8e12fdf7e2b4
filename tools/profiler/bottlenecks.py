"""Rank the reasons for a call's time: the dominating one first."""

from collections.abc import Sequence
from dataclasses import dataclass

from cuda_llm.profile import Bottleneck
from cuda_llm.tools.profiler.finding import Finding
from cuda_llm.tools.profiler.launch import Launch
from cuda_llm.tools.profiler.roofs import find_roofs
from cuda_llm.tools.profiler.wastes import find_wastes

LEAST_WASTE, LEAST_ROOF = 0.05, 0.1
"""Smaller shares are not worth a person's time; the largest is always told."""
WASTE_WEIGHT = 5.0
"""A waste is told before a roof of up to this many times its cost: it can be mended."""
MOST = 6

EXPLAINED_BY = {
    "shared_bandwidth": ("bank_conflicts", "atomic_contention"),
    "l1_bandwidth": ("uncoalesced_global",),
    "l2_bandwidth": ("uncoalesced_global", "atomic_contention"),
    "latency": ("low_occupancy",),
    "issue": ("divergence",),
    "fp32": ("divergence",),
}
"""Which wastes are the cause of a busy resource, where they cost nearly as much."""


@dataclass(frozen=True)
class _Ranked:
    rank: float
    share: float
    finding: Finding
    kernel: str


def find_bottlenecks(launches: Sequence[Launch]) -> tuple[Bottleneck, ...]:
    """What limits a call. `share` is the part of the call's time a reason accounts for."""
    total_us = sum(launch.time.time_us for launch in launches)
    if total_us <= 0:
        return ()
    ranked = [
        _Ranked(
            rank=finding.saved_us * (WASTE_WEIGHT if finding.waste else 1.0),
            share=min(1.0, finding.share * launch.time.time_us / total_us),
            finding=finding,
            kernel=launch.name,
        )
        for launch in launches
        for finding in _findings(launch)
    ]
    ranked.sort(key=lambda one: one.rank, reverse=True)
    merged = _merge_repeats(ranked)
    told = [one for one in merged if one.share >= _least(one.finding)][:MOST] or merged[:1]
    name_kernels = len({launch.name for launch in launches}) > 1
    return tuple(_tell(one, name_kernels) for one in told)


def _findings(launch: Launch) -> tuple[Finding, ...]:
    wastes = find_wastes(launch)
    saved = {waste.code: waste.saved_us for waste in wastes}

    def is_explained(roof: Finding) -> bool:
        causes = EXPLAINED_BY.get(roof.code, ())
        return any(saved.get(cause, 0.0) > 0.5 * roof.saved_us for cause in causes)

    roofs = find_roofs(launch)
    return (*wastes, *(roof for roof in roofs if not is_explained(roof)))


def _least(finding: Finding) -> float:
    return LEAST_WASTE if finding.waste else LEAST_ROOF


def _merge_repeats(ranked: Sequence[_Ranked]) -> list[_Ranked]:
    """One entry for launches of the same kernel with the same reason on the same line."""
    merged: dict[object, _Ranked] = {}
    for one in ranked:
        key = (one.kernel, one.finding.code, one.finding.spot)
        held = merged.get(key)
        merged[key] = (
            _Ranked(
                held.rank + one.rank,
                min(1.0, held.share + one.share),
                held.finding,
                held.kernel,
            )
            if held
            else one
        )
    return sorted(merged.values(), key=lambda one: one.rank, reverse=True)


def _tell(one: _Ranked, name_kernel: bool) -> Bottleneck:
    explanation = one.finding.explanation
    return Bottleneck(
        code=one.finding.code,
        share=one.share,
        explanation=f"{one.kernel}: {explanation}" if name_kernel else explanation,
        spot=one.finding.spot,
        advice=one.finding.advice,
    )
