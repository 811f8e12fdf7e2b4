"""One kernel beside another: what differs, and which other kernel of the run to compare with.

That is a kernel that is faster at some size, else one that takes less time for what limits the
first, else the parent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from cuda_llm.agents.limits import (
    deciding_profile,
    possible_savings,
    profile_at,
    terms_of,
    whole_profile,
)
from cuda_llm.agents.prompting.describe_kernel import describe_differences, place_size
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.acceptance import faster_at
from cuda_llm.agents.strategies.partners import find_partners
from cuda_llm.agents.techniques.objections import profile_of
from cuda_llm.components import Components
from cuda_llm.figure_wording import describe_ratio, describe_us, name_sizes
from cuda_llm.predictions import rank
from cuda_llm.profile import Profile
from cuda_llm.search import Attempt

LEAST_LESS = 0.1
"""Least relative difference of a counter that counts as less, and is shown."""
LEAST_SHARE = 0.1
"""Least part of the time, 0 to 1, of a term that is shown."""
MOST_SLOWER = 2.0
"""A kernel that takes more than this many times as long is no example of a counter."""
COUNTERS = (
    *("dram_bytes", "l2_bytes", "warp_instructions", "load_store_warp_instructions"),
    *("sectors_per_request", "worst_bank_ways"),
)
"""Figures of launches that say nothing of the hardware: counts add up, ratios are the largest."""
RATIOS = frozenset({"sectors_per_request", "worst_bank_ways"})
MOST_SHOWN = 4
"""Most terms, and most counters."""


@dataclass(frozen=True, kw_only=True)
class Sibling:
    """Another kernel of the run that passed, and where it is faster than the kernel at hand."""

    attempt: Attempt
    faster_at: tuple[int, ...] = ()
    """Indices of timed sizes."""
    less_of: str = ""
    """Code of a bottleneck of the kernel at hand on which this kernel spends less time."""


def find_sibling(situation: Situation, about: Attempt) -> Sibling | None:
    """Return the kernel that is most worth comparing with `about`; None without such a kernel."""
    others = [
        one
        for one in situation.attempts
        if one.passed and one.id != about.id and len(one.times_us) == len(about.times_us)
    ]
    if not about.passed or not about.times_us:
        return None
    best = next(iter(find_partners(situation, about)), None)
    if best is not None:
        return Sibling(attempt=best, faster_at=faster_at(best, about))
    lighter = _lighter(situation, about, others)
    if lighter is not None:
        return lighter
    parent = next((one for one in others if one.id == about.parent), None)
    return None if parent is None else Sibling(attempt=parent)


def _lighter(situation: Situation, about: Attempt, others: Sequence[Attempt]) -> Sibling | None:
    """Return the kernel that spends least on what limits `about`, of those not much slower."""
    profile = profile_of(situation, about)
    if profile is None or not profile.bottlenecks:
        return None
    near = [one for one in others if one.times_us[-1] <= MOST_SLOWER * about.times_us[-1]]
    profiles = [(_profile_at(situation, one, about), one) for one in near]
    listed = [one.code for one in rank(profile.bottlenecks, situation.predictions)]
    for code in dict.fromkeys((*listed, *possible_savings(profile))):
        ours_us = _spent_on(profile, code)
        found = [(_spent_on(theirs, code), one) for theirs, one in profiles if _has_terms(theirs)]
        least_us, best = min(found, key=lambda pair: pair[0], default=(ours_us, None))
        if best is not None and least_us < (1.0 - LEAST_LESS) * ours_us:
            return Sibling(attempt=best, less_of=code)
    return None


def _has_terms(profile: Profile | None) -> TypeGuard[Profile]:
    return profile is not None and any(one.terms_us for one in profile.launches)


def _spent_on(profile: Profile, code: str) -> float:
    terms = _sum_terms(profile)
    return sum(terms.get(name, 0.0) for name in terms_of(code))


def _profile_at(situation: Situation, attempt: Attempt, about: Attempt) -> Profile | None:
    """Return the attempt's profile at the size that decides about `about`; None without a
    profile."""
    ours, theirs = (whole_profile(situation, one) for one in (about, attempt))
    if ours is None or theirs is None:
        return None
    size = deciding_profile(situation, about, ours)[1]
    return profile_at(theirs, size, len(situation.sizes) - 1)


def describe_sibling(
    situation: Situation, about: Attempt, components: Components
) -> tuple[str, ...]:
    """Describe the sibling of `about`: where it wins, what differs, the counters beside each other.

    Empty where there is none, or prompts hold no history.
    """
    found = find_sibling(situation, about) if components.history else None
    if found is None:
        return ()
    other = found.attempt
    lines = [f"{other.id}{_wins(situation, found)}"]
    # The difference from its parent stands with the kernel itself.
    is_parent = other.id == about.parent
    shown = components.profile and not is_parent
    changed = describe_differences(situation, about, other) if shown else ""
    if changed:
        lines.append(f"its difference: {changed}")
    if components.profile:
        lines.append(_beside(situation, about, other))
    return tuple(filter(None, lines))


def _wins(situation: Situation, found: Sibling) -> str:
    """Render where it is faster, or by what; the history holds the times."""
    if found.less_of:
        return f" takes less time for {found.less_of}"
    names = name_sizes(situation.sizes) if len(situation.sizes) > 1 else ("the timed size",)
    won = "; ".join(names[index] for index in found.faster_at)
    return f" is faster at {won}" if won else ", its parent"


def _beside(situation: Situation, about: Attempt, other: Attempt) -> str:
    """Render terms of the time, then counters, of both; those that say something."""
    ours, theirs = profile_of(situation, about), _profile_at(situation, other, about)
    if ours is None or theirs is None:
        return ""
    shown = list[str]()
    if situation.config.hardware_context == "full":
        shown += [
            f"{name.replace('_', ' ')} {describe_us(pair[0])} / {describe_us(pair[1])}"
            for name, pair in _terms(ours, theirs).items()
        ]
    counted = ", ".join(
        f"{name.replace('_', ' ')} {describe_ratio(ratio)}"
        for name, ratio in _counters(ours, theirs).items()
    )
    shown += [f"its {counted}"] if counted else []
    whole = whole_profile(situation, about)
    size = deciding_profile(situation, about, whole)[1] if whole else 0
    where = f" {place_size(situation, size)}" if len(situation.sizes) > 1 else ""
    return f"{about.id} / {other.id}{where}: {'; '.join(shown)}" if shown else ""


def _terms(ours: Profile, theirs: Profile) -> dict[str, tuple[float, float]]:
    """Return the terms that weigh something in either, those of `ours` longest first."""
    sums = [_sum_terms(one) for one in (ours, theirs)]
    least = [LEAST_SHARE * sum(one.time_us for one in it.launches) for it in (ours, theirs)]
    names = [
        name
        for name in {**sums[0], **sums[1]}
        if any(it.get(name, 0.0) >= us > 0 for it, us in zip(sums, least, strict=True))
    ]
    names.sort(key=lambda name: -sums[0].get(name, 0.0))
    return {name: (sums[0].get(name, 0.0), sums[1].get(name, 0.0)) for name in names[:MOST_SHOWN]}


def _sum_terms(profile: Profile) -> dict[str, float]:
    found: dict[str, float] = {}
    for launch in profile.launches:
        for name, us in launch.terms_us.items():
            found[name] = found.get(name, 0.0) + us
    return found


def _counters(ours: Profile, theirs: Profile) -> dict[str, float]:
    """Return the counters that both have and that differ: theirs over ours."""
    found = {}
    for name in COUNTERS:
        pair = [_counter(one, name) for one in (ours, theirs)]
        if all(pair) and abs(pair[0] - pair[1]) > LEAST_LESS * max(pair):
            found[name] = pair[1] / pair[0]
    return dict(list(found.items())[:MOST_SHOWN])


def _counter(profile: Profile, name: str) -> float:
    values = [launch.figures.get(name, 0.0) for launch in profile.launches]
    return max(values, default=0.0) if name in RATIOS else sum(values)
