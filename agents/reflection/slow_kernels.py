"""From a profile to the one thing that limits a kernel, what relieves it on this GPU, and what
was tried without gain.
"""

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace

from cuda_llm.agents.limits import (
    LIMIT_SHARE,
    bottleneck_text,
    deciding_profile,
    share_of_limit,
    whole_profile,
)
from cuda_llm.agents.prompting.quote import join_parts, one_line
from cuda_llm.agents.reflection.kernel_context import KernelContext, context_of
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.acceptance import gain_over, noise_margin, passed_by_speed
from cuda_llm.agents.techniques.objections import (
    aims_ruled_out,
    changes_between,
    sensible_techniques,
)
from cuda_llm.agents.techniques.refuted import withdrawals
from cuda_llm.agents.techniques.technique import Technique
from cuda_llm.figure_wording import describe_share, name_bottleneck, name_sizes
from cuda_llm.predictions import rank
from cuda_llm.profile import Bottleneck, Profile, limiter
from cuda_llm.search import Attempt, Hint, Kind
from cuda_llm.source_file import short_kernel_name
from cuda_llm.tasks.sizes import least_time

MOST_TRIED = 4
MOST_TECHNIQUES = 3
MOST_PROFILED = 3
"""Largest number of attempts of a round that get a performance hint: the incumbent and the next
fastest."""
HARDWARE_LIMIT = "hardware_limit"
"""Code of the hint that a kernel is near the attainable time."""

SETTLED = {
    "occupancy": "more occupancy",
    "coalescing": "coalescing further: every byte fetched is used",
    "padding": "padding shared memory: bank conflicts take no time",
    "fewer_blocks": "fewer or larger blocks: those there are fill the chip once at most",
}
"""Words for a change that figures of the profile rule out, by the aim of the change."""
_QUOTED_AS_EVIDENCE = {"bank_conflicts", "uncoalesced_global", "atomic_contention", "divergence"}
"""Bottlenecks whose explanation holds no fact of the hardware."""


def tried_without_gain(situation: Situation, parent: Attempt) -> tuple[str, ...]:
    """Return directions that led from `parent` to a kernel that is no faster, newest first.

    A kernel that changed several things at once condemns none of them.
    """
    return tuple(dict.fromkeys(_without_gain(situation, parent)))[:MOST_TRIED]


def _without_gain(situation: Situation, parent: Attempt) -> Iterator[str]:
    for child in reversed(situation.attempts):
        what = child.direction or child.idea
        is_try = child.parent == parent.id and child.kind in {Kind.IMPROVE, Kind.DEPART}
        if not is_try or not what or child.speedup is None or parent.speedup is None:
            continue
        gain, margin = gain_over(child, parent), noise_margin(situation, child, parent)
        choices = [one for one in changes_between(situation, parent, child) if one.is_choice]
        if gain <= margin and len(choices) <= 1:
            came = "no faster" if gain >= -margin else f"{-gain:.0%} slower"
            yield f"{one_line(what, 160)} (tried: {came})"


def techniques_against(
    code: str, situation: Situation, attempt: Attempt, refused: Set[str]
) -> tuple[Technique, ...]:
    """Return techniques against `code` that neither the attempt nor `refused` rules out."""
    sensible = sensible_techniques(situation, Kind.IMPROVE, attempt, ())
    found = [one for one in sensible if code in one.against and not one.aims & refused]
    return tuple(sorted(found, key=lambda one: one.against.index(code))[:MOST_TECHNIQUES])


def ruled_out(
    situation: Situation, profile: Profile, dominating: Bottleneck
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return in words what cannot help while `dominating` dominates, and the aims ruled out.

    Where blocks fill the chip once at most, a word on occupancy would be untrue.
    """
    settled = aims_ruled_out(situation, profile)
    words = bottleneck_text(dominating.code)
    refused = words.refuses.split()
    if "fewer_blocks" in settled and "occupancy" in refused:
        words, refused = replace(words, no_use=()), []
    found = [SETTLED[aim] for aim in SETTLED if aim in settled and aim not in refused]
    return (*words.no_use, *found), tuple(sorted({*refused, *(settled & SETTLED.keys())}))


def find_limits(situation: Situation, judged: Sequence[Attempt]) -> Iterator[Hint]:
    """Yield hints on what limits the incumbent and the fastest others of the round."""
    for attempt in worth_profiling(situation, judged):
        profile = whole_profile(situation, attempt)
        if profile is None:
            continue
        profile, _ = deciding_profile(situation, attempt, profile)
        context = context_of(situation, attempt)
        for one in diagnose_speed(situation, attempt, profile, context):
            if one.code == HARDWARE_LIMIT and attempt != situation.incumbent:
                continue
            yield one


def worth_profiling(situation: Situation, judged: Sequence[Attempt]) -> tuple[Attempt, ...]:
    """Return the incumbent, then the fastest of this round."""
    first = () if situation.incumbent is None else (situation.incumbent,)
    ordered = {one.id: one for one in (*first, *passed_by_speed(judged))}
    return tuple(ordered.values())[:MOST_PROFILED]


def diagnose_speed(
    situation: Situation, attempt: Attempt, profile: Profile, context: KernelContext
) -> tuple[Hint, ...]:
    """Return at most two hints: at the limit, or what dominates; and spilled registers."""
    found = []
    share = share_of_limit(situation, attempt)
    if share is not None and share >= LIMIT_SHARE:
        found.append(_at_the_limit(situation, attempt, share, context))
    elif profile.bottlenecks:
        found.append(_dominating(situation, attempt, profile, context))
    spills = _spills(profile, context)
    return (*found, *([spills] if spills else []))


def _dominating(
    situation: Situation, attempt: Attempt, profile: Profile, context: KernelContext
) -> Hint:
    refuted = {one.code for one in withdrawals(situation, attempt)}
    open_ones = [one for one in profile.bottlenecks if one.code not in refuted]
    first, *others = rank(open_ones or profile.bottlenecks, situation.predictions)
    limit = limiter(profile.bottlenecks) or first
    no_use, aims = ruled_out(situation, profile, first)
    techniques = techniques_against(first.code, situation, attempt, set(aims))
    plain = [one.text for one in techniques if one.needs == (0, 0)]
    return Hint(
        round=context.round,
        about=context.about,
        code=first.code,
        cause="dominates",
        text=_advise(limit, first, plain or [one_line(first.advice)]),
        evidence=join_parts(
            f"{describe_share(first)}{_where(situation, attempt)}",
            context.quote_line(first.spot),
            one_line(first.explanation) if first.code in _QUOTED_AS_EVIDENCE else "",
            _next_in_line(others),
        ),
        hardware_text=join_parts(
            *(_capable(one, situation) for one in techniques if one.needs > (0, 0)),
        ),
        hardware_evidence=join_parts(
            one_line(first.explanation) if first.code not in _QUOTED_AS_EVIDENCE else "",
            _bandwidth(profile, situation),
        ),
        avoid=(*no_use, *tried_without_gain(situation, attempt)),
        rules_out=aims,
    )


def _where(situation: Situation, attempt: Attempt) -> str:
    """Return the size of the profile, where several sizes are timed."""
    profile = whole_profile(situation, attempt)
    if profile is None or len(situation.sizes) < 2:
        return ""
    return f" at {name_sizes(situation.sizes)[deciding_profile(situation, attempt, profile)[1]]}"


def _advise(limit: Bottleneck, chosen: Bottleneck, techniques: Sequence[str]) -> str:
    """Say what limits the kernel, and what to try against `chosen`, which may be another bottleneck
    that more is to be gained from."""
    words = bottleneck_text(chosen.code)
    why = f": {words.why}" if words.why else ""
    what = f"Limited by {words.name}{why}."
    if limit.code != chosen.code:
        name = name_bottleneck(limit.code)
        what = f"Limited by {name}. Most is to be gained from {words.name}{why}."
    best, *rest = techniques
    return f"{what} Best first: {best}.{''.join(f' Else: {one}.' for one in rest)}"


def _at_the_limit(
    situation: Situation, attempt: Attempt, share: float, context: KernelContext
) -> Hint:
    least = least_time(situation.task, situation.hardware, situation.sizes[-1])
    what = "bytes" if least.bound == "memory" else "operations"
    return Hint(
        round=context.round,
        about=context.about,
        code=HARDWARE_LIMIT,
        cause=least.bound,
        text=(
            f"This kernel takes hardly longer than the {what} of the task need on this device: "
            "little is left to gain."
        ),
        hardware_text=(
            f"It reaches {share:.0%} of what is attainable over the timed sizes; at the largest "
            f"{attempt.times_us[-1]:.1f} us, where {least.reachable_us:.1f} us is the least."
        ),
        avoid=tried_without_gain(situation, attempt),
    )


def _spills(profile: Profile, context: KernelContext) -> Hint | None:
    spilled = [one for one in profile.resources if one.spill_store_bytes + one.spill_load_bytes]
    if not spilled:
        return None
    worst = max(spilled, key=lambda one: one.spill_store_bytes + one.spill_load_bytes)
    return Hint(
        round=context.round,
        about=context.about,
        code="register_spills",
        cause="spills",
        text=(
            "Registers spill to local memory: use smaller per-thread tiles, unroll less, or relax "
            "__launch_bounds__. Arrays indexed by a runtime value cannot stay in registers."
        ),
        evidence=(
            f"{one_line(short_kernel_name(worst.kernel))}: {worst.spill_store_bytes} bytes stored, "
            f"{worst.spill_load_bytes} loaded"
        ),
        hardware_text=f"It uses {worst.registers} registers a thread.",
    )


def _next_in_line(others: Sequence[Bottleneck]) -> str:
    if not others:
        return ""
    return f"next in line: {name_bottleneck(others[0].code)} ({others[0].share:.0%})"


def _bandwidth(profile: Profile, situation: Situation) -> str:
    """Return the DRAM bandwidth of the longest launch as a part of the published bandwidth."""
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
