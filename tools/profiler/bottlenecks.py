"""What the explanations of measured and of modelled times share: which reasons are listed."""

from dataclasses import dataclass

from cuda_llm.profile import Bottleneck, LaunchProfile
from cuda_llm.tools.profiler.time_model import TimeReason

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
"""Which wastes are the cause of a busy resource, where they cost nearly as much."""


def least_share(finding: TimeReason) -> float:
    """Return the share from which on a reason is listed."""
    return LEAST_WASTE if finding.waste else LEAST_ROOF


@dataclass(frozen=True, kw_only=True)
class Explained:
    """A call's time, launch by launch, and what limits it."""

    time_us: float
    """Launches one after another; 0 for a call without launches."""
    launches: tuple[LaunchProfile, ...]
    bottlenecks: tuple[Bottleneck, ...]
    """Dominating one first."""


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
