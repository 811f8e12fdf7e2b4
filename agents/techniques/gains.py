"""What a technique can add to the score: at each timed size the saving of the bottleneck that it
relieves, less what it costs there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from cuda_llm.agents.limits import (
    NEGLIGIBLE,
    deciding_profile,
    gain_of_savings,
    left_to_gain,
    possible_saving,
    profile_at,
    whole_profile,
)
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.techniques.technique import Technique
from cuda_llm.predictions import tally
from cuda_llm.profile import Profile
from cuda_llm.search import Attempt
from cuda_llm.tasks.sizes import item_bytes, shape_of

MOST_SAVED = 0.99
"""Largest part of the time that a bottleneck is said to cost: something has to be left."""
Savings = Mapping[str, tuple[float, ...]]
"""By code of a bottleneck: the most that taking it away saves of the time at each timed size, 0 to
1; a single figure where no size has a time."""


@dataclass(frozen=True, kw_only=True)
class Gain:
    """What a technique can gain at most, and where."""

    code: str = ""
    """Code of the bottleneck that the technique relieves; empty where it relieves none."""
    share: float = 0.0
    """Part of the time that is saved over all sizes, as the score combines them, 0 to 1."""
    sizes: tuple[int, ...] = ()
    """Indices of the timed sizes at which it saves more than next to nothing."""


def savings_of(situation: Situation, attempt: Attempt) -> Savings:
    """Return what taking each bottleneck of the attempt away can save, most of the score first, as
    far as earlier predictions about that bottleneck came true.

    A size without the bottleneck saves nothing, and no size more than is left until the attainable
    time. A size without a profile, as of a measured kernel, is taken for one like the largest.
    """
    profile = whole_profile(situation, attempt)
    if profile is None or not situation.config.components.profile:
        return {}
    last = len(situation.sizes) - 1
    timed = range(last + 1) if len(attempt.times_us) == last + 1 else range(0)
    at_sizes = [
        _savings_at(
            profile_at(profile, size, last) or profile, left_to_gain(situation, attempt, size)
        )
        for size in timed
    ] or [_savings_at(profile, None)]
    codes = dict.fromkeys(code for one in at_sizes for code in one)
    found = {code: tuple(one.get(code, 0.0) for one in at_sizes) for code in codes}
    trust = {one.code: one.trust for one in tally(situation.predictions) if one.by == "diagnosis"}

    def worth(code: str) -> float:
        return share_of_score(situation, attempt, found[code]) * trust.get(code, 1.0)

    return {code: found[code] for code in sorted(found, key=worth, reverse=True)}


def _savings_at(profile: Profile, left: float | None) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in profile.bottlenecks:
        known = (MOST_SAVED, one.share, possible_saving(profile, one.code), left)
        found.setdefault(one.code, min(share for share in known if share is not None))
    return found


def share_of_score(situation: Situation, attempt: Attempt, savings: Sequence[float]) -> float:
    """Return the part of the time, 0 to 1, that savings at each size are worth in the score."""
    if len(savings) != len(attempt.times_us):
        return max(savings, default=0.0)
    rise = gain_of_savings(situation, attempt, dict(enumerate(savings)))
    return max(0.0, 1.0 - 1.0 / (1.0 + rise))


def gain_expected(
    situation: Situation, attempt: Attempt, code: str, saving: float, limits: Savings
) -> Gain:
    """Return the gain of a change that a critique expects to save that part of the time at the size
    where most is to be gained, and no more where the bottleneck costs less; 0 says nothing.
    """
    profile = whole_profile(situation, attempt)
    costs = limits.get(code, ())
    if profile is None or len(attempt.times_us) < 2:
        return Gain(code=code, share=saving or max(costs, default=0.0))
    size = deciding_profile(situation, attempt, profile)[1]
    known = costs or (0.0,) * len(attempt.times_us)
    savings = [
        saving if at == size and saving else min(saving or 1.0, cost)
        for at, cost in enumerate(known)
    ]
    return _gain(situation, attempt, code, savings)


def _gain(situation: Situation, attempt: Attempt, code: str, savings: Sequence[float]) -> Gain:
    sizes = tuple(at for at, one in enumerate(savings) if one >= NEGLIGIBLE)
    share = share_of_score(situation, attempt, savings)
    return Gain(code=code, share=share, sizes=sizes if len(savings) > 1 else ())


def gain_of(situation: Situation, attempt: Attempt, technique: Technique, savings: Savings) -> Gain:
    """Return the largest gain of the technique among the bottlenecks that it relieves."""
    added = _added(situation, attempt, technique)
    gains = []
    for code in savings:
        if code in technique.against:
            least = added or (0.0,) * len(savings[code])
            net = [max(0.0, saved - more) for saved, more in zip(savings[code], least, strict=True)]
            gains.append(_gain(situation, attempt, code, net))
    return max(gains, key=lambda one: one.share, default=Gain())


def _added(situation: Situation, attempt: Attempt, technique: Technique) -> tuple[float, ...]:
    """Return the part of the time at each size that launches and passes over the outputs add.

    Empty where nothing is added, where it is not known, or where the hardware must not show.
    """
    hidden = situation.config.hardware_context == "none"
    if hidden or (technique.launches < 2 and not technique.output_passes):
        return ()
    profile = whole_profile(situation, attempt)
    if profile is None or len(attempt.times_us) != len(situation.sizes):
        return ()
    launches = sum(bool(all(one.grid)) for one in profile.launches)
    more = max(0, technique.launches - max(1, launches))
    if not more and not technique.output_passes:
        return ()
    hardware = situation.hardware
    outputs = [one for one in situation.task.arguments if one.is_output]
    passes_us = [
        technique.output_passes
        * sum(prod(shape_of(one, dims)) * item_bytes(one.dtype) for one in outputs)
        / (hardware.peaks.dram_gb_s * 1e3)
        for dims in situation.sizes
    ]
    return tuple(
        (more * hardware.model.launch_us + pass_us) / time_us
        for pass_us, time_us in zip(passes_us, attempt.times_us, strict=True)
    )
