"""From a profile to the one thing that limits a kernel, what relieves it on this GPU, and what
was tried without gain.
"""

from collections.abc import Iterator, Sequence, Set

from cuda_llm.agents.limits import LIMIT_SHARE, bottleneck_text, share_of_limit
from cuda_llm.agents.prompting.quote import join_parts, one_line
from cuda_llm.agents.reflection.diagnosis import Diagnosis, FailureContext, context_of
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.acceptance import gain_over, noise_margin, passed_by_speed
from cuda_llm.agents.techniques.catalogue import CATALOGUE
from cuda_llm.agents.techniques.technique import Technique, fits
from cuda_llm.outcomes import Passed
from cuda_llm.predictions import rank
from cuda_llm.profile import Bottleneck, Profile
from cuda_llm.search import Attempt, Hint, Kind
from cuda_llm.tasks.sizes import least_time
from cuda_llm.wording import describe_share

MOST_TRIED = 4


def tried_without_gain(situation: Situation, parent: Attempt) -> tuple[str, ...]:
    """Return directions that led from `parent` to something no faster, newest first."""
    return tuple(dict.fromkeys(_without_gain(situation, parent)))[:MOST_TRIED]


def _without_gain(situation: Situation, parent: Attempt) -> Iterator[str]:
    for child in reversed(situation.attempts):
        what = child.direction or child.idea
        is_try = child.parent == parent.id and child.kind in {Kind.IMPROVE, Kind.DEPART}
        if not is_try or not what or child.speedup is None or parent.speedup is None:
            continue
        gain, margin = gain_over(child, parent), noise_margin(situation, child, parent)
        if gain <= margin:
            came = "no faster" if gain >= -margin else f"{-gain:.0%} slower"
            yield f"{one_line(what, 160)} (tried: {came})"


MOST_TECHNIQUES = 3


def techniques_against(code: str, situation: Situation, used: Set[str]) -> tuple[Technique, ...]:
    """Return changes against `code` that fit task and hardware and are not `used` yet."""
    found = [
        one
        for one in CATALOGUE
        if code in one.against
        and Kind.IMPROVE in one.kinds
        and one.shown_by not in used
        and fits(one, situation)
    ]
    return tuple(sorted(found, key=lambda one: one.against.index(code))[:MOST_TECHNIQUES])


def ruled_out(profile: Profile, dominating: Bottleneck) -> tuple[str, ...]:
    """Return what the figures say cannot help, whatever dominates."""
    words = bottleneck_text(dominating.code)
    found = list(words.no_use)
    if profile.launches:
        longest = max(profile.launches, key=lambda launch: launch.time_us)
        figures = longest.figures
        if longest.occupancy >= 0.95 and not words.names_occupancy:
            found.append("more occupancy")
        if figures.get("useful_byte_share", 0.0) >= 0.99:
            found.append("coalescing further: every byte fetched is used")
        if figures.get("worst_bank_ways") == 1.0:
            found.append("padding shared memory: there are no bank conflicts")
    return tuple(found)


MOST_PROFILED = 3
"""Passed attempts a round that get a performance hint: the incumbent and the next fastest."""


def find_limits(situation: Situation, judged: Sequence[Attempt]) -> Iterator[Hint]:
    """Yield hints on what limits the incumbent and the fastest others of the round."""
    for attempt in worth_profiling(situation, judged):
        verdict = situation.archive.verdict(attempt.id)
        profile = verdict.profile if isinstance(verdict, Passed) else None
        if profile is None:
            continue
        context = context_of(situation, attempt)
        for one in diagnose_speed(situation, attempt, profile, context):
            if one.code == HARDWARE_LIMIT and attempt != situation.incumbent:
                continue
            yield one.as_hint(situation.round, attempt.id)


def worth_profiling(situation: Situation, judged: Sequence[Attempt]) -> tuple[Attempt, ...]:
    """Return the incumbent, then the fastest of this round."""
    first = () if situation.incumbent is None else (situation.incumbent,)
    ordered = {one.id: one for one in (*first, *passed_by_speed(judged))}
    return tuple(ordered.values())[:MOST_PROFILED]


HARDWARE_LIMIT = "hardware_limit"
"""Code of a kernel that the same work cannot make much faster."""
_QUOTED_AS_EVIDENCE = {"bank_conflicts", "uncoalesced_global", "atomic_contention", "divergence"}
"""Bottlenecks whose explanation says nothing of the hardware."""


def diagnose_speed(
    situation: Situation, attempt: Attempt, profile: Profile, context: FailureContext
) -> tuple[Diagnosis, ...]:
    """Return at most two: that it is at its limit, or what dominates; and spilled registers."""
    found = []
    share = share_of_limit(situation, attempt)
    if share is not None and share >= LIMIT_SHARE:
        found.append(_at_the_limit(situation, attempt, share))
    elif profile.bottlenecks:
        found.append(_dominating(situation, attempt, profile, context))
    spills = _spills(profile)
    return (*found, *([spills] if spills else []))


def _dominating(
    situation: Situation, attempt: Attempt, profile: Profile, context: FailureContext
) -> Diagnosis:
    first, *others = rank(profile.bottlenecks, situation.predictions)
    words = bottleneck_text(first.code)
    techniques = techniques_against(first.code, situation, context.source.uses)
    plain = [one.text for one in techniques if one.needs == (0, 0)]
    return Diagnosis(
        code=first.code,
        cause="dominates",
        text=_advise(words.name, words.why, plain or [one_line(first.advice)]),
        evidence=join_parts(
            f"{describe_share(first)} at the largest size",
            context.quote_line(first.spot),
            one_line(first.explanation) if first.code in _QUOTED_AS_EVIDENCE else "",
            _next_in_line(others),
        ),
        hardware_text=join_parts(
            one_line(first.explanation) if first.code not in _QUOTED_AS_EVIDENCE else "",
            _bandwidth(profile, situation),
            *(_capable(one, situation) for one in techniques if one.needs > (0, 0)),
        ),
        avoid=(*ruled_out(profile, first), *tried_without_gain(situation, attempt)),
    )


def _advise(name: str, why: str, techniques: Sequence[str]) -> str:
    first, *rest = techniques
    then = "".join(f" Else: {one}." for one in rest)
    return f"Limited by {name}{': ' + why if why else ''}. Best first: {first}.{then}"


def _at_the_limit(situation: Situation, attempt: Attempt, share: float) -> Diagnosis:
    least = least_time(situation.task, situation.hardware, situation.sizes[-1])
    what = "bytes" if least.bound == "memory" else "operations"
    return Diagnosis(
        code=HARDWARE_LIMIT,
        cause=least.bound,
        text=(
            f"This kernel takes hardly longer than the {what} of the task need on this device: "
            "only small changes at the smaller sizes are left to gain from."
        ),
        evidence="",
        hardware_text=(
            f"It reaches {share:.0%} of what is attainable over the timed sizes; at the largest "
            f"{attempt.times_us[-1]:.1f} us, where {least.attainable_us:.1f} us is the least."
        ),
        avoid=tried_without_gain(situation, attempt),
    )


def _spills(profile: Profile) -> Diagnosis | None:
    spilled = [one for one in profile.resources if one.spill_store_bytes + one.spill_load_bytes]
    if not spilled:
        return None
    worst = max(spilled, key=lambda one: one.spill_store_bytes + one.spill_load_bytes)
    return Diagnosis(
        code="register_spills",
        cause="spills",
        text=(
            "Registers spill to local memory: use smaller per-thread tiles, unroll less, or relax "
            "__launch_bounds__. Arrays indexed by a runtime value cannot stay in registers."
        ),
        evidence=(
            f"{one_line(worst.kernel, 60)}: {worst.spill_store_bytes} bytes stored, "
            f"{worst.spill_load_bytes} loaded"
        ),
        hardware_text=f"It uses {worst.registers} registers a thread.",
    )


def _next_in_line(others: Sequence[Bottleneck]) -> str:
    if not others:
        return ""
    return f"next in line: {bottleneck_text(others[0].code).name} ({others[0].share:.0%})"


def _bandwidth(profile: Profile, situation: Situation) -> str:
    """Return the DRAM bandwidth of the longest launch against the published one."""
    if not profile.launches:
        return ""
    longest = max(profile.launches, key=lambda launch: launch.time_us)
    moved = longest.figures.get("dram_bytes", 0.0)
    peak = situation.hardware.peaks.dram_gb_s
    if not moved or not peak or longest.time_us <= 0:
        return ""
    return f"DRAM runs at {moved / longest.time_us / 1e3 / peak:.0%} of {peak:,.0f} GB/s"


def _capable(technique: Technique, situation: Situation) -> str:
    major, minor = situation.hardware.compute_capability
    return f"this GPU (compute capability {major}.{minor}) has also: {technique.text}"
