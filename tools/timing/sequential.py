"""When a contest between two kernels is decided: intervals of one score that hold at every look.

The score of a contender is s = sum of w_i m_i over the sizes i, with weights w_i whose sum is 1 and
m_i the mean over blocks of log(its time / the incumbent's). Its standard error is E with
E^2 = sum of w_i^2 (d_i^2 / n_i + p^2), where d_i is the deviation of one of n_i blocks, and p that
of what two processes of one kernel differ by, which no further block lessens.

Looks are repeated, so each may err only a little: look k spends a / (k (k + 1)) of an error a, and
all of them together a, however many there are and however they depend on each other (a spending
function, Lan and DeMets, Biometrika 70, 1983, held by Bonferroni's inequality); a look that is the
last whatever it says spends what is left, a / k. The half-width is Student's t at 1 - half of that
times E, with f degrees of freedom (Satterthwaite, Biometrics Bulletin 2, 1946):
f = E^4 / sum of ((w_i^2 (d_i^2 / n_i + p^2))^2 / f_i).

Few blocks say little of a deviation. So d_i^2 = (F P^2 + (n_i - 1) r_i^2) / (F + n_i - 1) is that
of the blocks, r_i, drawn to a usual one, P, with the weight of F degrees of freedom, and f_i is
F + n_i - 1 (Smyth, Statistical Applications in Genetics and Molecular Biology 3, 2004).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from cuda_llm.profile import Outcome
from cuda_llm.tools.timing.comparison import SMALLEST_FLOOR, decide_outcome

TIE_MARGIN = 0.02
"""Kernels that differ by less are equivalent. `agents.strategies.acceptance.TIE` is the same of two
separate times."""
ERROR = 0.05
"""Probability that any look of a contest, on either side, leaves the true ratio outside its
interval."""
USUAL_DEVIATION = 0.025
"""Deviation of the log ratio of one block, towards which deviations of few blocks are moderated. Of
the kernels of `h200_timing.json` two have more: additions and transposes of some microseconds."""
USUAL_FREEDOM = 2.0
PROCESS_DEVIATION = 0.003
"""In that file 106 of 127 kernels differ from themselves by less, what few blocks leave open
included; but an addition of 4 M elements, whose inputs take half of L2, by up to 1.5 %."""
MOST_DEVIATIONS = 3.0
"""From the median: what is farther counts as this far, for a batch was held up."""
NORMAL_FROM_MAD = 1.4826
"""Standard deviations in the median distance from the median, of normal values."""

FAR = 4.0
"""Standard errors: a size that is farther from being the worst is not the worst."""
LAST_MARGIN = 0.0175
"""Log ratio that a difference has to exceed where time is up. Simulated, no task then calls a
kernel faster than itself in 1 of 100 contests, or misses a difference of 3 % in 5 of 100
(docs/evidence.md)."""
GAIN_OF_A_PASS = 1.6
"""The variance of a score before a pass over that after it: looks after less would cost more error
than they save time."""
STEP = 2
"""Blocks that are planned at once."""


@dataclass(frozen=True, kw_only=True)
class SizeScore:
    """Log ratios of two kernels at one size, by the formulas of this module's docstring."""

    mean: float
    deviation: float
    blocks: int

    @property
    def variance(self) -> float:
        """Return that of the mean."""
        return self.deviation**2 / self.blocks + PROCESS_DEVIATION**2

    @property
    def freedom(self) -> float:
        """Return the degrees of freedom of `deviation`."""
        return USUAL_FREEDOM + self.blocks - 1


def score_size(logs: Sequence[float]) -> SizeScore:
    """Return the score of blocks at one size. Raises ValueError where there are no blocks."""
    if not logs:
        raise ValueError("no blocks to score")
    values = np.asarray(logs, np.float64)
    middle = float(np.median(values))
    spread = NORMAL_FROM_MAD * float(np.median(np.abs(values - middle)))
    far = MOST_DEVIATIONS * moderate(spread, values.size)
    kept = np.clip(values, middle - far, middle + far)
    own = float(kept.std(ddof=1)) if values.size > 1 else 0.0
    return SizeScore(
        mean=float(kept.mean()), deviation=moderate(own, values.size), blocks=values.size
    )


def moderate(deviation: float, blocks: int) -> float:
    """Return the deviation moderated towards USUAL_DEVIATION."""
    own = blocks - 1
    squares = USUAL_FREEDOM * USUAL_DEVIATION**2 + own * deviation**2
    return math.sqrt(squares / (USUAL_FREEDOM + own))


@dataclass(frozen=True, kw_only=True)
class Score:
    """One score over all sizes, with its standard error."""

    mean: float
    """Logarithm of the contender's time over the incumbent's."""
    error: float
    freedom: float
    lasting_error: float = 0.0
    """The part of `error` that processes make, which no block lessens."""
    sizes: int = 1
    """Number of sizes whose means have to lie within the interval."""

    @property
    def is_settled(self) -> bool:
        """Return whether more blocks would hardly make it surer."""
        return self.error < math.sqrt(2) * self.lasting_error

    def half_width(self, look: int, *, last: bool = False) -> float:
        """Return that of the interval at a look, from 1; `last`: no other will follow."""
        spent = ERROR / look if last else ERROR / (look * (look + 1))
        return self.error * student_quantile(1 - spent / 2 / self.sizes, self.freedom)


def join_sizes(sizes: Sequence[SizeScore], weights: Sequence[float]) -> Score:
    """Return the score over sizes; weights are equal unless there is one for each size."""
    shares = shares_of(weights, len(sizes))
    parts = [share**2 * one.variance for share, one in zip(shares, sizes, strict=True)]
    variance = sum(parts)
    return Score(
        mean=sum(share * one.mean for share, one in zip(shares, sizes, strict=True)),
        error=math.sqrt(variance),
        freedom=variance**2
        / sum(part**2 / one.freedom for part, one in zip(parts, sizes, strict=True)),
        lasting_error=PROCESS_DEVIATION * math.hypot(*shares),
    )


def worst_sizes(sizes: Sequence[SizeScore], places: Sequence[float]) -> list[int]:
    """Return the indices of the sizes that may be a contender's worst.

    `places` are the logarithms of the incumbent's time over the baseline's.
    """
    errors = [FAR * math.sqrt(one.variance) for one in sizes]
    reached = [one.mean + place for one, place in zip(sizes, places, strict=True)]
    least = max(one - error for one, error in zip(reached, errors, strict=True))
    pairs = enumerate(zip(reached, errors, strict=True))
    return [at for at, (one, error) in pairs if one + error >= least]


def join_worst(sizes: Sequence[SizeScore], places: Sequence[float]) -> Score:
    """Return the score of a contender's worst size over that of the incumbent's worst.

    With p_i the place of a size (see `worst_sizes`), it is the largest of m_i + p_i less the
    largest of p_i, which is off by no more than the m_i of sizes that may be the worst: its
    interval holds where each of theirs does. Where that may be another size than the incumbent's,
    the incumbent's own time there counts as doubtful, too.
    """
    may_be, own = worst_sizes(sizes, places), max(range(len(places)), key=places.__getitem__)
    error = max(math.sqrt(sizes[at].variance) for at in may_be)
    if may_be != [own]:
        error = math.hypot(error, math.sqrt(sizes[own].variance))
    return Score(
        mean=max(one.mean + place for one, place in zip(sizes, places, strict=True)) - places[own],
        error=error,
        freedom=min(sizes[at].freedom for at in {*may_be, own}),
        lasting_error=PROCESS_DEVIATION,
        sizes=len(may_be),
    )


def shares_of(weights: Sequence[float], count: int) -> list[float]:
    """Return weights whose sum is 1; equal weights where there are not `count` of them."""
    known = list(weights) if len(weights) == count else [1.0] * count
    return [one / sum(known) for one in known]


def student_quantile(probability: float, freedom: float) -> float:
    """Return the quantile of Student's t, by the expansion of Cornish and Fisher.

    Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5: within 2 % for 4 degrees of
    freedom at 0.999, better for more.
    """
    z = NormalDist().inv_cdf(probability)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, start=1))


def decide(score: Score, look: int) -> Outcome | None:
    """Return the outcome of a contender at this look; None where it is not decided.

    `faster` and `slower`: the whole interval lies beyond what equal kernels may differ by. `tie`:
    all of it lies within the margin of equivalence.
    """
    half_width = score.half_width(look)
    if abs(score.mean) - half_width > math.log1p(SMALLEST_FLOOR):
        return "faster" if score.mean < 0 else "slower"
    return "tie" if abs(score.mean) + half_width < math.log1p(TIE_MARGIN) else None


def decide_at_last(score: Score, look: int) -> Outcome:
    """Return the outcome where there is no more time: what is likelier, if the interval allows it.

    A difference needs an interval without 1, and to be nearer to the margin of equivalence than to
    what equal kernels may differ by: where another process alone makes most of that difference,
    more blocks only make it surer.
    """
    half_width = score.half_width(look, last=True)
    low, high = (math.exp(score.mean + sign * half_width) for sign in (-1, 1))
    return decide_outcome(math.exp(score.mean), low, high, LAST_MARGIN)


def plan_pass(
    sizes: Sequence[SizeScore], weights: Sequence[float], seconds: Sequence[float]
) -> list[int]:
    """Return how many more blocks of each size make the score surer soonest.

    Each step goes where the variance falls most a second: sizes whose times vary, weigh much and
    cost little are measured most (Neyman's allocation with costs, Cochran, Sampling Techniques,
    5.5). `seconds` are those of a block.
    """
    shares = shares_of(weights, len(sizes))
    parts = [(share * one.deviation) ** 2 for share, one in zip(shares, sizes, strict=True)]
    counts = [one.blocks for one in sizes]
    goal = sum(part / count for part, count in zip(parts, counts, strict=True)) / GAIN_OF_A_PASS

    def saved_a_second(at: int) -> float:
        return parts[at] * (1 / counts[at] - 1 / (counts[at] + STEP)) / seconds[at]

    while sum(part / count for part, count in zip(parts, counts, strict=True)) > goal:
        counts[max(range(len(counts)), key=saved_a_second)] += STEP
    return [count - one.blocks for count, one in zip(counts, sizes, strict=True)]
