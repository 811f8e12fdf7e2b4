"""How fast a kernel is, in one line."""

from cuda_llm.profile import Profile


def pace(profile: Profile) -> str:
    """`31.2 us, 2.82x the baseline, limited by bank_conflicts`: the time at the largest size."""
    time = f"{profile.sizes[-1].time_us:.4g} us" if profile.sizes else "not timed"
    speedup = "" if profile.speedup is None else f", {profile.speedup:.3g}x the baseline"
    limit = f", limited by {profile.bottlenecks[0].code}" if profile.bottlenecks else ""
    return f"{time}{speedup}{limit}"
