"""Objections to a technique: from the kernel's text and profile, from hints, from arithmetic, and
from attempts that changed this technique alone."""

import math
from collections.abc import Sequence, Set
from dataclasses import dataclass

from cuda_llm.agents.kernel_facts import SIGNS, SourceFacts, facts_of, part_of_kernel, signs_of
from cuda_llm.agents.limits import deciding_profile, left_to_gain, whole_profile
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.techniques.catalogue import CATALOGUE
from cuda_llm.agents.techniques.technique import AIMS, Technique, fitting
from cuda_llm.critique import Objection
from cuda_llm.profile import Profile
from cuda_llm.search import Attempt, Hint, Kind
from cuda_llm.tasks.sizes import least_time

LEAST_REACH = 0.25
"""Part of the arithmetic peak below which a structure is not worth a try where that peak limits."""
MOST_LAUNCH_COST = 0.25
"""Part of the attainable time that a second launch may add, as a mean over the timed sizes."""

SECOND_LAUNCH = "second_launch"
BRINGS = SIGNS | AIMS | {SECOND_LAUNCH}
"""Names of the additions that a change can make: a sign in the kernel's text, an aim, a second
launch."""
ENOUGH_WAVES = 4
"""Times that a grid fills the chip from which on smaller blocks leave no shorter tail."""
WIDE_SECTORS = 12.0
"""Sectors that a request needs, as a mean, from which on most accesses are 16-byte vectors, of
which a warp's needs 16."""
HARDLY_MORE = 1.15
"""Bytes through L2 over the least, up to which nothing is moved twice."""
NEARLY_ALL = 0.9
"""Part of the fetched bytes that are used, from which on misaligned rows are all that is left."""
CONVERGED = 0.97
"""Part of the lanes at work from which on branches cost nothing."""
LEAST_RESOURCE_CHANGE = 0.25
"""Least relative difference of registers or shared memory that counts as a change."""


def sensible_techniques(
    situation: Situation, kind: Kind, parent: Attempt | None, hints: Sequence[Hint]
) -> list[Technique]:
    """Return the techniques that answer such an order, and that nothing speaks against.

    Not what `parent` shows already, nor what one of `hints` or a figure of its profile says is of
    no use, nor, where the hardware may be told, what its arithmetic rules out.
    """
    kept = [one for one in fitting(CATALOGUE, situation) if _may_try(one, kind, situation)]
    if parent is None or kind == Kind.FIX:
        return kept
    facts = facts_of(situation.archive.source(parent.id))
    profile = profile_of(situation, parent)
    shown = _signs_at_work(parent, facts, profile)
    refused = refused_aims(hints) | (aims_ruled_out(situation, profile) if profile else set())
    if profile and _moves_least(situation, parent, profile):
        refused |= {"fewer_bytes", "larger_tiles"}
    if profile and _useful_bytes(profile) >= NEARLY_ALL:
        refused.add("coalescing")
    launches = sum(bool(all(one.grid)) for one in profile.launches) if profile else 0
    fills = profile is None or any(not all(one.grid) for one in profile.launches)
    return [
        one
        for one in kept
        if one.shown_by not in shown
        and not one.aims & refused
        and (not one.needs_signs or bool(one.needs_signs & shown) or not facts.text)
        and (not one.needs_shared or bool(facts.shared_arrays) or not facts.text)
        and (not profile or one.needs_launches <= max(1, launches))
        and (fills or not one.needs_fill)
    ]


def refused_aims(hints: Sequence[Hint]) -> set[str]:
    """Return the aims that hints say are of no use."""
    return {aim for hint in hints for aim in hint.rules_out}


def object_to(situation: Situation, brings: Set[str]) -> Objection | None:
    """Return what speaks against a change that brings these of `BRINGS`, if anything.

    What the GPU does not have, and a launch that the sizes cannot afford. A hint's rule of thumb
    does not: a critique has read it, and looks at this kernel.
    """
    if any(not _has_hardware(one, situation) for one in brings & SIGNS):
        return Objection.AGAINST_HARDWARE
    if SECOND_LAUNCH in brings and not _may_launch(2, situation):
        return Objection.AGAINST_HARDWARE
    return None


def signs_in_text(situation: Situation, attempt: Attempt) -> frozenset[str]:
    """Return the signs in the whole text of the attempt's kernel."""
    return signs_of(facts_of(situation.archive.source(attempt.id)))


def signs_of_attempt(situation: Situation, attempt: Attempt) -> frozenset[str]:
    """Return the signs in the text of the attempt's kernel that takes longest where the attempt has
    most to gain."""
    facts = facts_of(situation.archive.source(attempt.id))
    return _signs_at_work(attempt, facts, profile_of(situation, attempt))


def _signs_at_work(attempt: Attempt, facts: SourceFacts, profile: Profile | None) -> frozenset[str]:
    """Return the signs in the text of the kernel that takes longest where most is to be gained.

    Others of the same source may have other ones. None of a playbook, whose text stays hidden.
    """
    if attempt.written_by == "playbook":
        return frozenset()
    launches = profile.launches if profile else ()
    longest = max(launches, key=lambda one: one.time_us, default=None)
    return signs_of(part_of_kernel(facts, longest.kernel) if longest else facts)


def nameable(situation: Situation, parent: Attempt) -> tuple[str, ...]:
    """Return those of `BRINGS` that matter for a change of `parent`: signs of changes that fit the
    task and that it does not show, and a launch that the sizes cannot afford."""
    changes = [one for one in fitting(CATALOGUE, situation) if Kind.IMPROVE in one.kinds]
    signs = {one.shown_by for one in changes if one.shown_by} - signs_of_attempt(situation, parent)
    launch = () if _may_launch(2, situation) else (SECOND_LAUNCH,)
    return (*sorted(signs), *launch)


def _has_hardware(sign: str, situation: Situation) -> bool:
    """Return whether the GPU has what techniques that show this sign need."""
    needs = [one.needs for one in CATALOGUE if one.shown_by == sign]
    return min(needs, default=(0, 0)) <= situation.hardware.compute_capability


def aims_ruled_out(situation: Situation, profile: Profile) -> set[str]:
    """Return the aims that figures of the longest launch say are reached, or out of reach."""
    launches = [one for one in profile.launches if all(one.grid)]
    if not launches or not situation.config.components.profile:
        return set()
    longest = max(launches, key=lambda launch: launch.time_us)
    found = set()
    fits_at_once = longest.figures.get("blocks_per_sm", 0.0) * situation.hardware.sm_count
    # One whole wave is the fewest blocks that keep all multiprocessors at work.
    small = math.prod(longest.grid) <= fits_at_once
    if small:
        found |= {"fewer_blocks", "larger_tiles", "residency"}
    elif longest.occupancy >= 0.95:
        found.add("occupancy")
    figures = longest.figures
    if math.prod(longest.grid) >= ENOUGH_WAVES * fits_at_once > 0:
        found.add("more_blocks")
    if figures.get("useful_byte_share", 0.0) >= 0.99:
        found.add("coalescing")
        if figures.get("ideal_sectors_per_request", 0.0) >= WIDE_SECTORS:
            found.add("wide_accesses")
    if figures.get("simd_efficiency", 0.0) >= CONVERGED:
        found.add("less_divergence")
    if "worst_bank_ways" in figures and not _names(profile, "bank_conflicts"):
        found.add("padding")
    return found


def _names(profile: Profile, code: str) -> bool:
    """Return whether a bottleneck is listed, as those that take hardly any time are not."""
    return any(one.code == code for one in profile.bottlenecks)


def _useful_bytes(profile: Profile) -> float:
    """Return the part of the fetched bytes that the longest launch uses; 0 where not known."""
    longest = max(profile.launches, key=lambda one: one.time_us, default=None)
    return longest.figures.get("useful_byte_share", 0.0) if longest else 0.0


def _moves_least(situation: Situation, attempt: Attempt, profile: Profile) -> bool:
    """Return whether L2 serves hardly more bytes than any kernel of the task must move, at the size
    of that profile."""
    whole = whole_profile(situation, attempt)
    moved = sum(one.figures.get("l2_bytes", 0.0) for one in profile.launches)
    if whole is None or not moved or not situation.sizes:
        return False
    dims = situation.sizes[deciding_profile(situation, attempt, whole)[1]]
    least = least_time(situation.task, situation.hardware, dims).bytes_moved
    return moved <= HARDLY_MORE * least


def profile_of(situation: Situation, attempt: Attempt) -> Profile | None:
    """Return the profile of the size where the attempt has most to gain."""
    profile = whole_profile(situation, attempt)
    return profile and deciding_profile(situation, attempt, profile)[0]


def left_at_deciding(situation: Situation, attempt: Attempt) -> float | None:
    """Return the part of the time above the attainable at the size of `profile_of`; None where it
    is not known or not to be shown."""
    profile = whole_profile(situation, attempt)
    if profile is None:
        return None
    return left_to_gain(situation, attempt, deciding_profile(situation, attempt, profile)[1])


def _may_try(technique: Technique, kind: Kind, situation: Situation) -> bool:
    """Return whether it answers such an order and gives nothing away."""
    hidden = situation.config.hardware_context == "none"
    if kind not in technique.kinds:
        return False
    if hidden:
        return technique.needs == (0, 0)
    if not reaches_enough(technique.words_per_fma, situation):
        return False
    return _may_launch(technique.launches, situation)


@dataclass(frozen=True)
class Change:
    """One difference between a kernel and its parent."""

    name: str
    """A sign of `kernel_facts.SIGNS`, `threads`, `launches`, `registers` or `shared_bytes`."""
    before: int
    after: int
    """Count after the change; 0 or 1 for a sign."""

    @property
    def is_choice(self) -> bool:
        """Whether the author chose the change, which is no consequence of another change."""
        return self.name not in ("registers", "shared_bytes")


def changes_between(situation: Situation, parent: Attempt, child: Attempt) -> tuple[Change, ...]:
    """Return in what the child differs: signs in its text, then its launches and resources.

    Of a playbook kernel only the launches and resources: its text stays out of prompts.
    """
    found = []
    if "playbook" not in (parent.written_by, child.written_by):
        before, after = (signs_in_text(situation, one) for one in (parent, child))
        found += [Change(name, int(name in before), int(name in after)) for name in sorted(SIGNS)]
    profiles = [profile_of(situation, one) for one in (parent, child)]
    if all(profiles):
        older, newer = (_resources(one) for one in profiles if one)
        found += [Change(name, older[name], newer[name]) for name in older]
    return tuple(one for one in found if _is_change(one))


def _is_change(one: Change) -> bool:
    if one.is_choice:
        return one.before != one.after
    return abs(one.after - one.before) > LEAST_RESOURCE_CHANGE * max(one.before, one.after)


def _resources(profile: Profile) -> dict[str, int]:
    """Return launches, and what the longest of them has."""
    launches = [one for one in profile.launches if all(one.grid)]
    if not launches:
        return {"launches": 0, "threads": 0, "registers": 0, "shared_bytes": 0}
    longest = max(launches, key=lambda launch: launch.time_us)
    kernel = next((one for one in profile.resources if one.kernel == longest.kernel), None)
    return {
        "launches": len(launches),
        "threads": math.prod(longest.block),
        "registers": kernel.registers if kernel else 0,
        "shared_bytes": longest.shared_bytes,
    }


def reaches_enough(words_per_fma: float, situation: Situation) -> bool:
    """Return whether shared memory feeds the multiply-add units, where those are the limit.

    An SM serves so many words a clock, and each multiply-add of a lane takes `words_per_fma`.
    """
    if not words_per_fma or not situation.sizes:
        return True
    pipes = situation.hardware.pipes
    least = least_time(situation.task, situation.hardware, situation.sizes[-1])
    reach = pipes.load_store / (words_per_fma * pipes.fp32)
    return least.bound == "memory" or reach >= LEAST_REACH


def _may_launch(launches: int, situation: Situation) -> bool:
    """Return whether the timed sizes can afford so many launches."""
    if launches < 2 or not situation.sizes:
        return True
    task, hardware = situation.task, situation.hardware
    more = (launches - 1) * hardware.model.launch_us
    costs = [
        math.log1p(more / least_time(task, hardware, dims).reachable_us) for dims in situation.sizes
    ]
    return math.expm1(sum(costs) / len(costs)) <= MOST_LAUNCH_COST
