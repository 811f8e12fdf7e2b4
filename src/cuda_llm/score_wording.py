"""A score in words: never a speed-up without what it is over, nor a time without its size."""

from collections.abc import Mapping, Sequence

from cuda_llm.profile import Objective, Profile
from cuda_llm.search import Attempt

OVER: Mapping[Objective, str] = {
    "geomean": "over all sizes",
    "largest": "at the largest size",
    "worst": "at its worst size",
}
"""What a speed-up is over."""

SCORES: Mapping[Objective, str] = {
    "geomean": "the geometric mean of the speed-ups",
    "largest": "the speed-up at the largest size",
    "worst": "the smallest of the speed-ups",
}
"""What the one score is."""


def describe_over(objective: Objective, sizes: int = 2) -> str:
    """Return ` over all sizes`, as it follows a speed-up; empty where there is one size."""
    return f" {OVER[objective]}" if sizes > 1 else ""


def describe_speedup(speedup: float, objective: Objective, sizes: int = 2) -> str:
    """Return `10.96x over all sizes`."""
    return f"{speedup:.2f}x{describe_over(objective, sizes)}"


def describe_attempt_speed(attempt: Attempt, of: str = "") -> str:
    """Return `10.96x over all sizes`; `of` follows the factor: ` the baseline's speed`."""
    over = describe_over(attempt.objective, len(attempt.times_us))
    return f"{attempt.speedup or 0:.2f}x{of}{over}"


def describe_profile_speed(profile: Profile) -> str:
    """Return `10.96x over all sizes`; empty where no speed-up is known."""
    if profile.speedup is None:
        return ""
    return describe_speedup(profile.speedup, profile.objective, len(profile.sizes))


def describe_largest(time: str, sizes: int) -> str:
    """Return `5.72 us at the largest`, so that a time is not read as one over all sizes."""
    return f"{time} at the largest" if sizes > 1 else time


def describe_scoring(objective: Objective, shares: Sequence[float], largest: str) -> str:
    """Describe for a prompt how the timed sizes make one score; `largest` names that size."""
    score = f"Their one score is {SCORES[objective]}"
    if objective == "worst":
        return f"{score}: only the worst size counts."
    if objective == "largest":
        return f"{score}, {largest}: no other size counts."
    least = min(shares)
    if max(shares) > least:
        how = f"sizes count {' : '.join(f'{one / least:.3g}' for one in shares)}"
    else:
        how = "every size counts alike: 10% at the smallest is worth 10% at the largest"
    return f"{score}, in which {how}."
