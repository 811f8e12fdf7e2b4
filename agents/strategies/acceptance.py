"""Who may be crowned: faster than the incumbent beyond doubt, and at no size much slower."""

from collections.abc import Sequence

from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategy import Choice
from cuda_llm.search import Attempt, Contested


def choose_fastest(situation: Situation, judged: Sequence[Attempt]) -> Choice:
    """The best ever: the incumbent, unless one of `judged` beats it.

    The fastest that passed is looked at first. A difference within `plan.tie` or within the two
    times' spread is a tie, and a tie crowns nobody; so does a size that becomes slower than the
    task's `regression_limit` allows (the next fastest is looked at then).
    """
    incumbent = situation.incumbent
    verdicts: dict[str, str] = {}
    winner: Attempt | None = None
    for contender in by_speed(judged):
        if winner is not None:
            verdicts[contender.id] = rank(situation, contender, winner)
        elif incumbent is None:
            winner = contender
        else:
            verdicts[contender.id] = compare(situation, contender, incumbent)
            winner = contender if verdicts[contender.id] == "won" else None
    if winner is not None:
        verdicts[winner.id] = "won"
    crowned = winner or incumbent
    return Choice(
        incumbent=None if crowned is None else crowned.id,
        reason=explain(situation, winner, incumbent, verdicts),
        verdicts=verdicts,
    )


def by_speed(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Those that passed, fastest first; equal ones in order of round and index."""
    passed = [one for one in attempts if one.passed and one.speedup is not None]
    return sorted(passed, key=lambda one: (-(one.speedup or 0.0), one.round, one.index))


def compare(situation: Situation, contender: Attempt, incumbent: Attempt) -> str:
    """`won`, or why not: `tie`, `slower`, `regression: ...`.

    Where both were timed in turn, that decides; else the speed-up of each over the baseline.
    """
    held = contest_of(situation, contender, incumbent)
    if held is not None and held.outcome != "faster":
        return held.outcome
    gain = gain_over(contender, incumbent)
    margin = doubt(situation, contender, incumbent)
    if held is None and gain < -margin:
        return "slower"
    if held is None and gain <= margin:
        return "tie"
    return find_regression(situation, contender, incumbent) or "won"


def contest_of(situation: Situation, contender: Attempt, incumbent: Attempt) -> Contested | None:
    """The contest of these two, where there was one."""
    held = situation.contests.get(contender.id)
    return held if held is not None and held.incumbent == incumbent.id else None


def rank(situation: Situation, loser: Attempt, winner: Attempt) -> str:
    """How an attempt stands to the winner of its own round."""
    close = -gain_over(loser, winner) <= doubt(situation, loser, winner)
    return "tie" if close else "slower"


def gain_over(contender: Attempt, incumbent: Attempt) -> float:
    """Relative gain in speed-up: 0.1 is 10 % faster."""
    return (contender.speedup or 0.0) / (incumbent.speedup or 1.0) - 1.0


def doubt(situation: Situation, one: Attempt, other: Attempt) -> float:
    """Relative difference below which two speed-ups are the same."""
    return max(situation.plan.tie, one.spread + other.spread)


def find_regression(situation: Situation, contender: Attempt, incumbent: Attempt) -> str:
    """The first size at which the contender is too much slower, or nothing."""
    limit = situation.task.regression_limit
    pairs = zip(situation.sizes, contender.times_us, incumbent.times_us, strict=False)
    for dims, time_us, before_us in pairs:
        if time_us > before_us * limit:
            size = ", ".join(f"{name} = {extent:,}" for name, extent in dims.items())
            return f"regression: {time_us / before_us:.2f}x the time at {size}"
    return ""


def explain(
    situation: Situation,
    winner: Attempt | None,
    incumbent: Attempt | None,
    verdicts: dict[str, str],
) -> str:
    """The choice in one sentence."""
    if winner is not None and incumbent is not None:
        held = contest_of(situation, winner, incumbent)
        if held is not None:
            gain = 100 * (held.speedup - 1)
            return f"{winner.id} is {gain:.1f} % faster than {incumbent.id}, timed in turn"
        gain = 100 * gain_over(winner, incumbent)
        return f"{winner.id} is {gain:.1f} % faster than {incumbent.id}"
    if winner is not None:
        return f"{winner.id} is the first kernel that passed, at {winner.speedup:.2f}x the baseline"
    if incumbent is None:
        return "nothing has passed yet"
    if not verdicts:
        return f"{incumbent.id} stays: nothing of this round passed"
    reasons = sorted({verdict.partition(":")[0] for verdict in verdicts.values()})
    return f"{incumbent.id} stays: the others were {' or '.join(reasons)}"
