"""A model's critique checked against profile, source and hardware before it is passed on.

Parts that the check refutes are dropped or corrected, each with a typed reason.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cuda_llm.agents.limits import (
    BOTTLENECK_TEXTS,
    NEGLIGIBLE,
    deciding_profile,
    left_to_gain,
    possible_saving,
    whole_profile,
)
from cuda_llm.agents.prompting.describe_kernel import describe_change
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.acceptance import gain_over, is_faster, noise_margin
from cuda_llm.agents.techniques.objections import (
    BRINGS,
    Change,
    changes_between,
    object_to,
    signs_of_attempt,
)
from cuda_llm.critique import CheckedCritique, Correction, Objection
from cuda_llm.profile import Profile, limiter
from cuda_llm.search import Attempt

ROUNDING = 0.005
"""Excess of an expected gain over a limit that is tolerated: prompts show whole per cents."""

_WORDS: Mapping[str, str] = {
    "padding": r"\bpad(?:s|ded|ding)?\b",
    "swizzle": r"\bswizzl",
    "unrolling": r"\bunroll",
    "warp_shuffle": r"__shfl_|\bshuffl",
    "launch_bounds": r"__launch_bounds__",
    "grid_stride": r"\bgrid[- ]stride",
    "double_buffering": r"\bdouble[- ]buffer",
    "async_copy": r"cp\.async\b(?!\.bulk)|memcpy_async",
    "bulk_copy": r"cp\.async\.bulk|\bTMA\b|tensor memory accelerator",
    "register_blocking": r"\bregister[- ](?:block|til)",
    "cache_hints": r"__(?:ldg|ldcs|stcs)\b",
    "constant_memory": r"__constant__|\bconstant memory",
    "occupancy": r"\b(?:more|higher|raise|increase)(?: the)? occupancy",
}
_OTHERWISE = re.compile(
    r"\b(?:drop|remov|without|instead|replac|rather|avoid|no longer|not|more than|deeper|wider|"
    r"larger|smaller|fewer|another|further|stages?)",
    re.IGNORECASE,
)
"""Words that say that a change alters or replaces a technique instead of adding it."""


@dataclass(frozen=True, kw_only=True)
class Avoided:
    """A change that would be in vain, with its evidence: an attempt that made it without gain."""

    changed: str
    attempt: str = ""
    """Id of the attempt; empty where the critique names none."""


@dataclass(frozen=True, kw_only=True)
class Fix:
    """Why one attempt of a round in which nothing passed was refused, and the way out."""

    attempt: str
    fix: str


@dataclass(frozen=True, kw_only=True)
class Critique:
    """A critique as the model gave it: one bottleneck, one change with its gain, what to avoid."""

    change: str
    bottleneck: str = ""
    """Code or name of the bottleneck."""
    brings: tuple[str, ...] = ()
    """Words for what the change adds; those of `BRINGS` are its tags."""
    avoid: tuple[Avoided, ...] = ()
    fixes: tuple[Fix, ...] = ()
    reason: str = ""
    gain_percent: float = 0.0
    """Expected saving of the change, in per cent of the kernel's time; 0 where not given."""


def check(situation: Situation, about: Attempt, said: Critique) -> CheckedCritique:
    """Check a critique of `about`."""
    change = said.change.rstrip(".")
    named = dict.fromkeys(snake_case(one) for one in said.brings)
    tags = tuple(one for one in named if one in BRINGS) or read_brings(change)
    shown = signs_of_attempt(situation, about) if about.passed else frozenset[str]()
    brings = tuple(one for one in tags if one not in shown)
    corrections = list[Correction]()
    code, gain = about.code, 0.0
    if about.passed:
        code, gain, corrections = _check_figures(situation, about, said)
    corrections += (
        Correction(part="brings", why=Objection.HAS_ALREADY, said=tag)
        for tag in tags
        if tag in shown
    )
    why = object_to(situation, set(tags))
    if why is None and any(one.direction.rstrip(".") == change for one in situation.attempts):
        why = Objection.ORDERED_BEFORE
    if why is not None:
        corrections.append(Correction(part="change", why=why, said=change))
    avoid = list[str]()
    for one in said.avoid:
        found = _evidence(situation, about, one)
        if isinstance(found, Objection):
            corrections.append(Correction(part="avoid", why=found, said=one.changed))
        else:
            avoid.append(found)
    return CheckedCritique(
        about=about.id,
        bottleneck=code,
        change=change,
        gain=gain,
        brings=brings,
        avoid=tuple(avoid),
        corrections=tuple(corrections),
    )


def snake_case(text: str) -> str:
    """Return `Shared-memory bandwidth` as `shared_memory_bandwidth`."""
    return "_".join(re.findall(r"[a-z0-9]+", text.lower()))


CODES: Mapping[str, str] = {
    **{snake_case(text.name): code for code, text in BOTTLENECK_TEXTS.items()},
    **{code: code for code in BOTTLENECK_TEXTS},
}
"""Codes by the names that prompts give to bottlenecks, and by themselves."""


def _check_figures(
    situation: Situation, about: Attempt, said: Critique
) -> tuple[str, float, list[Correction]]:
    """Return code of the bottleneck, expected gain, and the corrections of both."""
    whole = whole_profile(situation, about)
    named = CODES.get(snake_case(said.bottleneck), "")
    gain = said.gain_percent / 100
    if whole is None:
        return named or about.limited_by or "critique", gain, []
    profile, size = deciding_profile(situation, about, whole)
    code = named or _listed(profile, snake_case(said.bottleneck))
    found = list[Correction]()
    if not code:
        named_first = limiter(profile.bottlenecks)
        code = named_first.code if named_first else about.limited_by or "critique"
        found.append(Correction(part="bottleneck", why=Objection.UNKNOWN, said=said.bottleneck))
    most = possible_saving(profile, code)
    if most is not None and most < NEGLIGIBLE and not _listed(profile, code):
        why = Objection.NEXT_TO_NOTHING
        found.append(Correction(part="bottleneck", why=why, said=said.bottleneck, most=most))
    for why, limit in (
        (Objection.BEYOND_TERM, most),
        (Objection.BEYOND_ROOFLINE, left_to_gain(situation, about, size)),
    ):
        if limit is not None and gain > limit + ROUNDING:
            percent = f"{said.gain_percent:g}"
            found.append(Correction(part="gain", why=why, said=percent, most=limit))
            gain = limit
    return code, gain, found


def _listed(profile: Profile, code: str) -> str:
    """Return `code` where the profile lists it, as a user's profiler may; else nothing."""
    return code if any(one.code == code for one in profile.bottlenecks) else ""


def _evidence(situation: Situation, about: Attempt, said: Avoided) -> str | Objection:
    """Return the change that was in vain in words, or the reason why the named attempt is no
    evidence."""
    tried = next((one for one in situation.attempts if one.id == said.attempt.strip()), None)
    before = next((one for one in situation.attempts if tried and one.id == tried.parent), None)
    if tried is None or before is None or tried.speedup is None or before.speedup is None:
        return Objection.NO_EVIDENCE
    choices = [one for one in changes_between(situation, before, tried) if one.is_choice]
    named = [one for one in choices if _names(said.changed, one)]
    gain = gain_over(tried, before)
    if not named or is_faster(situation, tried, before):
        return Objection.NO_EVIDENCE
    if len(choices) > 1:
        return Objection.CONFOUNDED
    if before.id == about.id:
        return Objection.KNOWN
    came = "no faster" if gain >= -noise_margin(situation, tried, before) else f"{-gain:.0%} slower"
    return f"{describe_change(named[0])} ({tried.id}: {came} than {before.id})"


def _names(text: str, change: Change) -> bool:
    return change.name in snake_case(text)


def read_brings(change: str) -> tuple[str, ...]:
    """Return the names of `BRINGS` that a sentence clearly adds, for a critique that names none."""
    if _OTHERWISE.search(change):
        return ()
    return tuple(_found_in(change))


def _found_in(change: str) -> Iterator[str]:
    for name, pattern in _WORDS.items():
        if name in BRINGS and re.search(pattern, change, re.IGNORECASE):
            yield name
