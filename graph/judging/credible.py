"""Figures that no clock gives are our fault: a kernel is not crowned for them."""

import math

from cuda_llm.outcomes import InfraFailed, Passed, Verdict


def credible(verdict: Verdict) -> Verdict:
    """The verdict; an InfraFailed where its times or its speed-up are no numbers above zero."""
    profile = verdict.profile if isinstance(verdict, Passed) else None
    if profile is None:
        return verdict
    figures = [size.time_us for size in profile.sizes]
    figures += [] if profile.speedup is None else [profile.speedup]
    odd = next((one for one in figures if not (one > 0 and math.isfinite(one))), None)
    if odd is None:
        return verdict
    return InfraFailed(component="profiler", detail=f"measured {odd:g}, which cannot be")
