"""What limits a kernel: names of bottlenecks, possible savings, distance from the attainable
time."""

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from cuda_llm.agents.situation import Situation
from cuda_llm.figure_wording import BOTTLENECK_NAMES, name_bottleneck
from cuda_llm.outcomes import Passed
from cuda_llm.profile import KernelResources, LaunchProfile, Profile, limiter
from cuda_llm.search import Attempt
from cuda_llm.tasks.objective import scoring_of
from cuda_llm.tasks.sizes import least_time
from cuda_llm.time_terms import DATA_PATH, FIRST_TURN, LATENCY, combine

WASTES = frozenset(
    {
        *("bank_conflicts", "uncoalesced_global", "atomic_contention", "divergence"),
        *("local_memory", "low_occupancy", "tail"),
    }
)
"""Bottlenecks that a profile of modelled times always looks for: unlisted means absent."""
TERMS_OF: Mapping[str, frozenset[str]] = {
    "dram_bandwidth": frozenset({"dram"}),
    "l2_bandwidth": frozenset({"l2"}),
    "shared_bandwidth": DATA_PATH,
    "l1_bandwidth": DATA_PATH,
    "launch_overhead": frozenset({"launch"}),
    "latency": frozenset({LATENCY, FIRST_TURN}),
    "bank_conflicts": frozenset({"shared"}),
    "uncoalesced_global": frozenset({"l1", "l2", "dram"}),
    "atomic_contention": frozenset({"atomic"}),
    "atomics": frozenset({"atomic"}),
    "copies": frozenset(),
    "divergence": frozenset({"issue"}),
    "local_memory": frozenset({"l1", "l2", "dram"}),
    "low_occupancy": frozenset({"latency"}),
    "tail": frozenset(),
}
"""Keys of `LaunchProfile.terms_us` that a bottleneck adds to; any other code is its own key."""
LAUNCHES = "launch_overhead"
NEGLIGIBLE = 0.05
"""Saving, as a part of the time, below which removing a bottleneck is not worth a try."""
LIMIT_SHARE = 0.9
"""Attainable over actual time from which on nearly nothing is left to gain."""


@dataclass(frozen=True)
class BottleneckText:
    """Words for one bottleneck, without facts of the hardware."""

    name: str
    """Name, as in `limited by shared-memory bank conflicts`."""
    why: str = ""
    """Reason why the bottleneck costs time."""
    no_use: tuple[str, ...] = ()
    """Changes that cannot help while this bottleneck dominates."""
    refuses: str = ""
    """Aims of techniques that `no_use` rules out, words of `techniques.technique.AIMS`."""


BOTTLENECK_TEXTS: Mapping[str, BottleneckText] = {
    "bank_conflicts": BottleneckText(
        BOTTLENECK_NAMES["bank_conflicts"],
        "lanes of a warp hit one bank in turn, so that an access takes several passes",
        ("more shared memory or larger tiles of the same layout",),
        refuses="larger_tiles",
    ),
    "uncoalesced_global": BottleneckText(
        BOTTLENECK_NAMES["uncoalesced_global"],
        "lanes of a warp touch scattered addresses, and most of what is fetched is thrown away",
        ("unrolling or more occupancy before the accesses are coalesced",),
        refuses="unrolling occupancy",
    ),
    "atomic_contention": BottleneckText(
        BOTTLENECK_NAMES["atomic_contention"],
        "updates of one address wait for each other",
        ("more threads: they only queue",),
        refuses="occupancy",
    ),
    "atomics": BottleneckText(
        BOTTLENECK_NAMES["atomics"],
        "the second-level cache executes them, a sector at a time",
        ("more threads: they only queue",),
        refuses="occupancy",
    ),
    "divergence": BottleneckText(
        BOTTLENECK_NAMES["divergence"],
        "lanes of a warp take different ways and idle in turn",
        ("larger tiles",),
        refuses="larger_tiles",
    ),
    "local_memory": BottleneckText(
        BOTTLENECK_NAMES["local_memory"],
        "an array that is indexed at run time cannot stay in registers",
        ("a smaller array that is still indexed at run time",),
    ),
    "low_occupancy": BottleneckText(
        BOTTLENECK_NAMES["low_occupancy"],
        "too few warps are resident to hide each other's waits",
        ("larger tiles or more registers a thread",),
        refuses="larger_tiles more_registers",
    ),
    "tail": BottleneckText(
        BOTTLENECK_NAMES["tail"],
        "part of the chip has no work at the end",
        ("larger blocks of work",),
        refuses="larger_tiles fewer_blocks",
    ),
    "dram_bandwidth": BottleneckText(
        BOTTLENECK_NAMES["dram_bandwidth"],
        "the bytes moved take that long, whatever the arithmetic",
        ("more occupancy, unrolling or fewer instructions while memory is this busy",),
        refuses="occupancy unrolling fewer_instructions",
    ),
    "l2_bandwidth": BottleneckText(
        BOTTLENECK_NAMES["l2_bandwidth"],
        "data go through L2 more often than they need to",
        ("more occupancy",),
        refuses="occupancy",
    ),
    "shared_bandwidth": BottleneckText(
        BOTTLENECK_NAMES["shared_bandwidth"],
        "each operand is fetched from shared memory again",
        ("more occupancy", "larger tiles with one output a thread"),
        refuses="occupancy larger_tiles",
    ),
    "l1_bandwidth": BottleneckText(
        BOTTLENECK_NAMES["l1_bandwidth"],
        "values are loaded again and again, or in narrow pieces",
        ("more occupancy",),
        refuses="occupancy",
    ),
    "latency": BottleneckText(
        BOTTLENECK_NAMES["latency"],
        "warps wait for memory or for each other, with nothing else to do meanwhile",
        ("fewer bytes or fewer instructions on their own",),
        refuses="fewer_bytes fewer_instructions",
    ),
    "blocks": BottleneckText(
        BOTTLENECK_NAMES["blocks"],
        "blocks are handed to the multiprocessors one after another, however little each does",
        ("smaller blocks of work",),
        refuses="more_blocks",
    ),
    "issue": BottleneckText(
        BOTTLENECK_NAMES["issue"],
        "the instructions alone take that long to issue",
        ("more occupancy", "prefetching"),
        refuses="occupancy prefetching",
    ),
    "launch_overhead": BottleneckText(
        BOTTLENECK_NAMES["launch_overhead"],
        "starting kernels takes longer than their work at these sizes",
        ("tuning the inner loop",),
        refuses="unrolling fewer_instructions",
    ),
    "copies": BottleneckText(
        BOTTLENECK_NAMES["copies"],
        "what the CUDA API copies or fills takes a launch and its bytes, beside the kernels",
        ("tuning a kernel",),
        refuses="unrolling fewer_instructions",
    ),
    "fp32": BottleneckText(
        BOTTLENECK_NAMES["fp32"],
        "the multiply-add units are busy",
        ("faster memory accesses",),
        refuses="faster_memory fewer_bytes",
    ),
    "fp64": BottleneckText(
        BOTTLENECK_NAMES["fp64"], "double precision runs at a fraction of single precision"
    ),
    "fp16": BottleneckText(BOTTLENECK_NAMES["fp16"], "the half-precision units are busy"),
    "int": BottleneckText(
        BOTTLENECK_NAMES["int"],
        "index arithmetic outweighs the work",
        ("faster memory accesses",),
        refuses="faster_memory fewer_bytes",
    ),
    "sfu": BottleneckText(BOTTLENECK_NAMES["sfu"], "exp, sin, rsqrt and the like share few units"),
    "convert": BottleneckText(BOTTLENECK_NAMES["convert"], "type conversions share few units"),
    "shuffle": BottleneckText(BOTTLENECK_NAMES["shuffle"], "exchanges between lanes take turns"),
    "tensor": BottleneckText(BOTTLENECK_NAMES["tensor"], "the tensor cores are busy"),
}
"""Texts by the code of a `profile.Bottleneck`."""


def bottleneck_text(code: str) -> BottleneckText:
    """Return the words for a bottleneck; an unknown code, of a user's profiler, names itself."""
    return BOTTLENECK_TEXTS.get(code, BottleneckText(name_bottleneck(code)))


def terms_of(code: str) -> frozenset[str]:
    """Return the keys of `LaunchProfile.terms_us` that a bottleneck adds to."""
    return TERMS_OF.get(code, frozenset({code}))


def possible_saving(profile: Profile, code: str) -> float | None:
    """Return the most that removing the bottleneck `code` can save, as a part of the call's time.

    0 to 1; None where the profile has neither that bottleneck nor terms.
    """
    listed = [one for one in profile.bottlenecks if one.code == code]
    fixed = max((one.share for one in listed if one.saved_us > 0), default=0.0)
    launches = [one for one in profile.launches if combine(one.terms_us) > 0]
    if code in WASTES or not launches:
        nowhere = 0.0 if code in WASTES and profile.source == "modelled" else None
        return max((one.share for one in listed), default=nowhere)
    # One launch has to stay.
    spare = sorted(launches, key=lambda one: one.time_us)[:-1] if code == LAUNCHES else launches
    saved_us = sum(one.time_us * _saved_without(one, terms_of(code)) for one in spare)
    return min(1.0, max(fixed, saved_us / sum(one.time_us for one in launches)))


def possible_savings(profile: Profile, left: float | None = None) -> Mapping[str, float]:
    """Return the most that removing each bottleneck can save, largest first: the listed
    bottlenecks, and those that the terms of the time show, where the saving is worth a try.

    None saves more than the part `left` of the time, where that is known to lie above the
    attainable.
    """
    terms = {term for launch in profile.launches for term in launch.terms_us}
    shown = {code for code in BOTTLENECK_TEXTS if code not in WASTES and terms_of(code) <= terms}
    path = [one for one in profile.bottlenecks if terms_of(one.code) == DATA_PATH]
    # One name is enough for the one data path: the name in the profile.
    shown -= {code for code in shown if terms_of(code) == DATA_PATH} if path else set()
    codes = dict.fromkeys([*(one.code for one in profile.bottlenecks), *sorted(shown)])
    most_left = 1.0 if left is None else left
    found = {code: min(most_left, possible_saving(profile, code) or 0.0) for code in codes}
    listed = {one.code for one in profile.bottlenecks}
    kept = {
        code: most
        for code, most in found.items()
        if most >= NEGLIGIBLE or (most and code in listed)
    }
    return dict(sorted(kept.items(), key=lambda pair: -pair[1]))


def _saved_without(launch: LaunchProfile, terms: Set[str]) -> float:
    """Return the part of a launch's time that would go if `terms` took no time."""
    kept = {term: us for term, us in launch.terms_us.items() if term not in terms}
    return 1.0 - combine(kept) / combine(launch.terms_us)


def shares_of_limit(situation: Situation, attempt: Attempt) -> tuple[float, ...]:
    """Return attainable over actual time at each timed size; empty where times are missing.

    Above 1 a kernel works from the cache.
    """
    return _shares(situation, attempt.times_us)


def _shares(situation: Situation, times_us: Sequence[float]) -> tuple[float, ...]:
    if len(times_us) != len(situation.sizes):
        return ()
    return tuple(
        least_time(situation.task, situation.hardware, dims).reachable_us / time_us
        for dims, time_us in zip(situation.sizes, times_us, strict=True)
    )


def left_to_gain(situation: Situation, attempt: Attempt, size: int) -> float | None:
    """Return the part of the time at a size above the attainable time; None where it is not known
    or not to be shown."""
    shares = shares_of_limit(situation, attempt)
    shown = situation.config.hardware_context == "full" and 0 <= size < len(shares)
    return 1.0 - shares[size] if shown and shares[size] < 1.0 else None


def share_of_limit(situation: Situation, attempt: Attempt) -> float | None:
    """Return the attempt's score over the attainable score, 0 to about 1.

    None where there is no time to compare. Above 1 a kernel works from the cache.
    """
    return _score_share(situation, attempt.times_us)


def open_above_baseline(situation: Situation) -> float:
    """Return the part of the baseline's time, 0 to 1, above the attainable time.

    Over all sizes, as the task's score combines them; 0 where nothing was timed.
    """
    return max(0.0, 1.0 - (_score_share(situation, situation.baseline_us) or 1.0))


def _score_share(situation: Situation, times_us: Sequence[float]) -> float | None:
    shares = _shares(situation, times_us)
    if not shares:
        return None
    scoring = scoring_of(situation.task, situation.sizes)
    if scoring.objective != "worst" or len(situation.baseline_us) != len(shares):
        return scoring.score(shares)
    speedups = _speedups(situation, times_us)
    attainable = [one / share for one, share in zip(speedups, shares, strict=True)]
    return scoring.score(speedups) / scoring.score(attainable)


def _speedups(situation: Situation, times_us: Sequence[float]) -> tuple[float, ...]:
    pairs = zip(situation.baseline_us, times_us, strict=True)
    return tuple(baseline_us / time_us for baseline_us, time_us in pairs)


def possible_gains(situation: Situation, attempt: Attempt) -> tuple[float, ...]:
    """Return for each size the largest amount by which the size could raise the logarithm of the
    score."""
    shares = shares_of_limit(situation, attempt)
    if not shares:
        return ()
    scoring = scoring_of(situation.task, situation.sizes)
    deciding = scoring.deciding(_ratios(situation, attempt.times_us))
    pairs = zip(deciding, shares, strict=True)
    return tuple(-weight * math.log(share) for weight, share in pairs)


def score_gain(situation: Situation, attempt: Attempt, size: int, saving: float) -> float:
    """Return by which part the score rises if the attempt's time at that size shrinks by the part
    `saving`, 0 to 1; 0 where times are missing."""
    if not 0 <= size < len(attempt.times_us) or not 0 < saving < 1:
        return 0.0
    return gain_of_savings(situation, attempt, {size: saving})


def gain_of_savings(situation: Situation, attempt: Attempt, savings: Mapping[int, float]) -> float:
    """Return by which part the score rises if the times at these sizes shrink by these parts, each
    below 1; 0 where times are missing."""
    ratios = _ratios(situation, attempt.times_us)
    if not ratios:
        return 0.0
    scoring = scoring_of(situation.task, situation.sizes)
    faster = [one / (1.0 - savings.get(at, 0.0)) for at, one in enumerate(ratios)]
    return scoring.score(faster) / scoring.score(ratios) - 1.0


def _ratios(situation: Situation, times_us: Sequence[float]) -> tuple[float, ...]:
    """Return what the score is made of: the speed-ups, or the shares of the attainable speed where
    no baseline was timed; empty where times are missing."""
    known = len(situation.baseline_us) == len(times_us)
    shares = _shares(situation, times_us)
    return _speedups(situation, times_us) if known and shares else shares


def most_to_gain(situation: Situation, attempt: Attempt) -> int | None:
    """Return the index of the timed size where most is to be gained; None without times."""
    gains = possible_gains(situation, attempt)
    return max(range(len(gains)), key=lambda index: gains[index]) if gains else None


def deciding_profile(
    situation: Situation, attempt: Attempt, profile: Profile
) -> tuple[Profile, int]:
    """Return the profile of the size where most is to be gained, and the index of that size.

    Only sizes with a profile count: a measured kernel has one at the largest size alone.
    """
    last = len(situation.sizes) - 1
    gains = possible_gains(situation, attempt)
    known = {one.size: one for one in profile.smaller if one.bottlenecks and one.size < len(gains)}
    best = max((*known, last), key=lambda index: gains[index]) if gains else last
    return profile_at(profile, best, last) or profile, best


def profile_at(profile: Profile, size: int, last: int) -> Profile | None:
    """Return the profile at the timed size of that index; `last` is the index of the largest."""
    if size == last:
        return replace(profile, resources=_launched(profile, profile.launches))
    chosen = next((one for one in profile.smaller if one.size == size), None)
    if chosen is None:
        return None
    return replace(
        profile,
        launches=chosen.launches,
        bottlenecks=chosen.bottlenecks,
        resources=_launched(profile, chosen.launches),
    )


def _launched(profile: Profile, launches: Sequence[LaunchProfile]) -> tuple[KernelResources, ...]:
    """Return the resources of the kernels that were launched; of all where no launch is known."""
    names = {one.kernel for one in launches}
    kept = tuple(one for one in profile.resources if {one.kernel, one.symbol} & names)
    return kept if names else profile.resources


def whole_profile(situation: Situation, attempt: Attempt) -> Profile | None:
    """Return the profile of an attempt that passed, of all sizes."""
    verdict = situation.archive.verdict(attempt.id)
    return verdict.profile if isinstance(verdict, Passed) else None


def limiters(situation: Situation, profile: Profile) -> tuple[str, ...]:
    """Return the code of what limits the kernel at each timed size; empty where a size has no
    profile."""
    last = len(situation.sizes) - 1
    profiles = (profile_at(profile, size, last) for size in range(last + 1))
    found = (limiter(one.bottlenecks) if one else None for one in profiles)
    return tuple(one.code if one else "" for one in found)


def deciding_limiter(situation: Situation, attempt: Attempt) -> tuple[str, int | None]:
    """Return the code of what limits the attempt where most is to be gained, and the index of that
    size where another size has, or may have, another limiter."""
    profile = whole_profile(situation, attempt)
    if profile is None:
        return attempt.limited_by, None
    chosen, size = deciding_profile(situation, attempt, profile)
    found = limiter(chosen.bottlenecks)
    if found is None:
        return attempt.limited_by, None
    return found.code, size if set(limiters(situation, profile)) != {found.code} else None
