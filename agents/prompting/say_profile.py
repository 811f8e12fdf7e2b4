"""A kernel that passed, in words: its times, and what limits it."""

from cuda_llm.agents.bottlenecks import words_for
from cuda_llm.agents.quote import one_line, quote_line
from cuda_llm.agents.situation import Situation
from cuda_llm.outcomes import Passed
from cuda_llm.profile import Bottleneck, KernelResources, LaunchProfile, Profile
from cuda_llm.search import Attempt, Components
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.wording import say_dims


def say_times(situation: Situation, attempt: Attempt, components: Components) -> tuple[str, ...]:
    """One line a timed size, then all together."""
    lines = []
    baselines = situation.baseline_us if components.baseline else ()
    for index, time_us in enumerate(attempt.times_us):
        dims = situation.sizes[index] if index < len(situation.sizes) else {}
        line = f"{say_dims(dims)}: {say_us(time_us)}" if dims else say_us(time_us)
        if index < len(baselines):
            line += f" (baseline {say_us(baselines[index])}, {baselines[index] / time_us:.2f}x)"
        lines.append(line)
    if components.baseline and attempt.speedup is not None and len(lines) > 1:
        lines.append(f"over all sizes: {attempt.speedup:.2f}x the baseline's speed")
    if attempt.spread:
        lines.append(f"times are known within {attempt.spread:.1%}")
    return tuple(lines)


def say_headline(situation: Situation, attempt: Attempt, components: Components) -> str:
    """Its time at the largest size, its speed-up, its bandwidth and its limit in one line."""
    parts = [say_us(attempt.times_us[-1])] if attempt.times_us else []
    if components.baseline and attempt.speedup is not None:
        parts.append(f"{attempt.speedup:.2f}x the baseline")
    if not components.profile:
        return ", ".join(parts)
    full = situation.plan.hardware_context == "full"
    verdict = situation.archive.verdict(attempt.id)
    profile = verdict.profile if isinstance(verdict, Passed) else None
    if full and attempt.times_us:
        parts.append(_bandwidth(situation, profile, attempt.times_us[-1]))
    headline = ", ".join(parts)
    bottlenecks = profile.bottlenecks if profile else ()
    code = bottlenecks[0].code if bottlenecks else attempt.limited_by
    if not code:
        return headline
    spot = bottlenecks[0].spot if bottlenecks and attempt.written_by != "playbook" else None
    where = f" at line {spot.line}" if spot else ""
    return f"{headline}; limited by {words_for(code).name}{where}"


def say_profile(
    situation: Situation, attempt: Attempt, profile: Profile, *, advise: bool = True
) -> tuple[str, ...]:
    """What limits it: bottlenecks, dominating first, then its launches and its kernels.

    The profiler's own advice is left out where hints say it better.
    """
    full = situation.plan.hardware_context == "full"
    shown = attempt.written_by != "playbook"
    found = [
        _bottleneck(one, first=index == 0, full=full, shown=shown, advise=advise)
        for index, one in enumerate(profile.bottlenecks)
    ]
    return (
        *found,
        *(_launch(one, full=full) for one in profile.launches),
        *(_resources(one) for one in profile.resources),
    )


def say_us(time_us: float) -> str:
    """`41.4 us`, three digits at least."""
    return f"{time_us:,.0f} us" if time_us >= 1000 else f"{time_us:.3g} us"


def _bottleneck(one: Bottleneck, *, first: bool, full: bool, shown: bool, advise: bool) -> str:
    word = "limited by" if first else "also"
    what = one_line(one.explanation) if full else words_for(one.code).name
    spot = f" at {quote_line(one.spot)}" if shown and one.spot else ""
    advice = f"; what usually helps: {one_line(one.advice)}" if one.advice and advise else ""
    return f"{word} {what}{spot}, {one.share:.0%} of the time{advice}"


def _launch(one: LaunchProfile, *, full: bool) -> str:
    grid, block = (", ".join(map(str, extent)) for extent in (one.grid, one.block))
    name = one_line(one.kernel)
    if not all(one.grid):
        return f"{name}: {say_us(one.time_us)}" if one.time_us else name
    line = f"launch {name}<<<({grid}), ({block})>>>"
    # Measured alone, a call of several launches says nothing of how its time is divided.
    line += f": {say_us(one.time_us)}" if one.time_us else ""
    shared = f", {one.shared_bytes:,} B of shared memory a block" if one.shared_bytes else ""
    return f"{line}{shared}" + (f", room for {one.occupancy:.0%} occupancy" if full else "")


def _resources(one: KernelResources) -> str:
    spills = one.spill_store_bytes + one.spill_load_bytes
    spilled = f"{spills:,} B of spills" if spills else "no spills"
    return f"kernel {one_line(one.kernel)}: {one.registers} registers a thread, {spilled}"


def _bandwidth(situation: Situation, profile: Profile | None, time_us: float) -> str:
    """The part of DRAM's published bandwidth: of counted bytes, else of the least there can be."""
    launches = profile.launches if profile else ()
    moved = sum(launch.figures.get("dram_bytes", 0.0) for launch in launches)
    if not moved and situation.sizes:
        moved = float(evaluate(situation.task.roofline.bytes, situation.sizes[-1]))
    share = moved / (time_us * 1e3) / situation.hardware.peaks.dram_gb_s
    return f"{share:.0%} of DRAM bandwidth"
