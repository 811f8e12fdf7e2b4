"""Decides which attempt becomes the incumbent: faster beyond noise, and at no size much slower."""

import math
from collections.abc import Sequence, Set

from cuda_llm.agents.limits import whole_profile
from cuda_llm.agents.protocols import Choice
from cuda_llm.agents.situation import Situation
from cuda_llm.figure_wording import describe_attempt_speed
from cuda_llm.search import Attempt, DuelResult
from cuda_llm.tasks.objective import scoring_of

TIE = 0.02
"""Speed-ups closer than this, relatively, are a tie; beside it stands the times' own spread."""


def choose_fastest(situation: Situation, judged: Sequence[Attempt]) -> Choice:
    """Return the best of all rounds: the incumbent, unless one of `judged` beats it.

    The attempts that passed are compared from the fastest on. A difference within `TIE` or
    within the doubt of the two scores is a tie, and keeps the incumbent; so does a size that
    becomes slower than the task's `regression_limit` allows.
    """
    incumbent = situation.incumbent
    verdicts: dict[str, str] = {}
    reasons: set[str] = set()
    winner: Attempt | None = None
    for contender in passed_by_speed(judged):
        if winner is not None:
            verdicts[contender.id] = rank(situation, contender, winner)
        elif incumbent is None:
            winner = contender
        else:
            outcome, words = compare(situation, contender, incumbent)
            verdicts[contender.id] = words
            reasons.add(outcome)
            winner = contender if outcome == "won" else None
    if winner is not None:
        verdicts[winner.id] = "won"
    chosen = winner or incumbent
    return Choice(
        incumbent=None if chosen is None else chosen.id,
        reason=describe_choice(situation, winner, incumbent, reasons),
        verdicts=verdicts,
    )


def passed_by_speed(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Sort the attempts that passed, fastest first; equal ones by round and index."""
    passed = [one for one in attempts if one.passed and one.speedup is not None]
    return sorted(passed, key=lambda one: (-(one.speedup or 0.0), one.round, one.index))


def compare(situation: Situation, contender: Attempt, incumbent: Attempt) -> tuple[str, str]:
    """Return `won`, `tie`, `slower` or `regression`, and what to tell: a regression names its size.

    A duel of the two decides where there was one; else the speed-up of each over the baseline.
    """
    duel = duel_of(situation, contender, incumbent)
    if duel is not None and duel.outcome != "faster":
        return duel.outcome, duel.outcome
    gain = gain_over(contender, incumbent)
    margin = noise_margin(situation, contender, incumbent)
    if duel is None and gain < -margin:
        return "slower", "slower"
    if duel is None and gain <= margin:
        return "tie", "tie"
    regression = find_regression(situation, contender, incumbent)
    return ("regression", regression) if regression else ("won", "won")


def duel_of(situation: Situation, contender: Attempt, incumbent: Attempt) -> DuelResult | None:
    """Return the duel of these two attempts; None where they held no duel."""
    duel = situation.duels.get(contender.id)
    return duel if duel is not None and duel.incumbent == incumbent.id else None


def rank(situation: Situation, loser: Attempt, winner: Attempt) -> str:
    """Return `tie` or `slower` for an attempt beside the winner of its own round."""
    close = -gain_over(loser, winner) <= noise_margin(situation, loser, winner)
    return "tie" if close else "slower"


def gain_over(contender: Attempt, incumbent: Attempt) -> float:
    """Return the relative gain in speed-up: 0.1 is 10 % faster."""
    return (contender.speedup or 0.0) / (incumbent.speedup or 1.0) - 1.0


def noise_margin(situation: Situation, one: Attempt, other: Attempt) -> float:
    """Return the relative difference below which two speed-ups count as equal."""
    return max(TIE, score_doubt(situation, one, other))


def is_faster(situation: Situation, one: Attempt, other: Attempt) -> bool:
    """Return whether the speed-up of `one` is more than a tie above that of `other`."""
    return gain_over(one, other) > noise_margin(situation, one, other)


def tie_margin(spread: float, other: float) -> float:
    """Return the relative difference below which two speed-ups tie whose times have intervals of
    these relative half-widths."""
    return max(TIE, math.hypot(spread, other))


def faster_at(one: Attempt, other: Attempt) -> tuple[int, ...]:
    """Return the indices of the timed sizes at which `one` is faster than `other` by more than a
    tie."""
    margin = 1.0 + tie_margin(one.spread, other.spread)
    pairs = zip(one.times_us, other.times_us, strict=False)
    return tuple(index for index, (mine, its) in enumerate(pairs) if its > mine * margin)


def score_doubt(situation: Situation, one: Attempt, other: Attempt) -> float:
    """Return the relative half-width of the interval of the ratio of two speed-ups.

    The doubts of the sizes are independent, and each counts with the size's own weight: one size
    that was hard to time leaves the score of five known well enough.
    """
    doubts = [
        math.hypot(mine, its)
        for mine, its in zip(spreads_of(situation, one), spreads_of(situation, other), strict=True)
    ]
    if not doubts:
        return math.hypot(one.spread, other.spread)
    return scoring_of(situation.task, situation.sizes).doubt(doubts)


def spreads_of(situation: Situation, attempt: Attempt) -> tuple[float, ...]:
    """Return the relative half-width of the interval of the time at each size; the widest for every
    size where the verdict is not at hand, as for what stands for the baseline."""
    profile = whole_profile(situation, attempt) if attempt.id else None
    sizes = () if profile is None else profile.sizes
    if len(sizes) == len(situation.sizes):
        return tuple(one.spread for one in sizes)
    return (attempt.spread,) * len(situation.sizes)


def find_regression(situation: Situation, contender: Attempt, incumbent: Attempt) -> str:
    """Describe the first size at which the contender is too much slower; empty for none."""
    limit = situation.task.regression_limit
    pairs = zip(situation.sizes, contender.times_us, incumbent.times_us, strict=False)
    for dims, time_us, before_us in pairs:
        if time_us > before_us * limit:
            size = ", ".join(f"{name} = {extent:,}" for name, extent in dims.items())
            return f"regression: {time_us / before_us:.2f}x the time at {size}"
    return ""


def describe_choice(
    situation: Situation,
    winner: Attempt | None,
    incumbent: Attempt | None,
    reasons: Set[str],
) -> str:
    """Say why, not what was chosen; `reasons`: why the others do not beat the incumbent."""
    if winner is not None and incumbent is not None:
        duel = duel_of(situation, winner, incumbent)
        if duel is not None:
            gain = 100 * (duel.speedup - 1)
            return f"{winner.id} is {gain:.1f} % faster than {incumbent.id}, timed in turn"
        gain = 100 * gain_over(winner, incumbent)
        return f"{winner.id} is {gain:.1f} % faster than {incumbent.id}"
    if winner is not None:
        speed = describe_attempt_speed(winner, " the baseline")
        return f"{winner.id} is the first kernel that passed, at {speed}"
    if incumbent is None:
        return "nothing has passed yet"
    if not reasons:
        return "nothing of this round passed"
    nouns = {"tie": "a tie", "regression": "a regression"}
    return f"the others were {' or '.join(nouns.get(one, one) for one in sorted(reasons))}"
