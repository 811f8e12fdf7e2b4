"""Contenders and the incumbent, timed together until it is known of each whether it is faster.

All of them are in each block, at one size after the other. After a first pass over the sizes each
contender has a score (`sequential`). Who is faster, slower or equivalent beyond doubt is timed no
more; further passes measure what tells most of the others. The calls of the fastest are then
verified as a confirmed candidate's are: no other may become the incumbent.
"""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from cuda_llm.outcomes import Verdict
from cuda_llm.profile import Outcome, TimeSource
from cuda_llm.tasks.objective import Scoring, scoring_of
from cuda_llm.tools.device import TimeClass, TimedSession
from cuda_llm.tools.timing.batches import EMPTY, INCUMBENT
from cuda_llm.tools.timing.blocks import (
    TimedGroup,
    TimedSize,
    begin_size,
    lay_out,
    reserve_slots,
    time_blocks,
    verify_calls,
)
from cuda_llm.tools.timing.comparison import QUICK_RESAMPLES, call_us, compare_blocks
from cuda_llm.tools.timing.failures import FailedCase, hidden_by_noise
from cuda_llm.tools.timing.measurement import Measurement, shuffled, time_baseline_at
from cuda_llm.tools.timing.options import Tier
from cuda_llm.tools.timing.sequential import (
    Score,
    SizeScore,
    decide,
    decide_at_last,
    join_sizes,
    join_worst,
    plan_pass,
    score_size,
    worst_sizes,
)
from cuda_llm.tools.timing.slope import usual_slope_us
from cuda_llm.tools.timing.stopping import (
    RULES,
    VAGUE_US,
    VAGUE_WIDTH,
    ContestRule,
    contest_rule,
)


@dataclass(frozen=True, kw_only=True)
class DuelSize:
    """One size of a duel."""

    dims: Mapping[str, int]
    first_us: float
    second_us: float
    ratio: float
    """First over second, from the blocks in which both were timed."""
    low: float
    high: float
    floor: float
    """Relative difference that equal kernels may show."""
    blocks: int = 0
    time_class: str = ""
    """`host-inclusive` where either was timed so."""


@dataclass(frozen=True, kw_only=True)
class Duel:
    """The outcome for the first of two kernels."""

    sizes: tuple[DuelSize, ...]
    ratio: float
    """Time of the first over the second's, as sizes make one score."""
    low: float
    high: float
    """Interval of `ratio`, 95 %, which holds however often was looked."""
    outcome: Outcome
    """Of the first: `faster` where `ratio` is below 1 by more than the noise."""
    source: TimeSource
    faults: Mapping[str, Verdict]
    """`first` or `second` to its verdict, where being timed found it wrong; no times then."""
    failed: FailedCase | None = None
    """Of the one at fault, where a GPU said no more than an error code."""


@dataclass(frozen=True, kw_only=True)
class ContestResult:
    """The end of a contest, by number of the contender."""

    ended: Mapping[int, Duel]
    faults: Mapping[int, Verdict | FailedCase]
    """Faults of contenders, whatever their duel said; one of `INCUMBENT` ends the contest."""
    fastest: int | None = None
    """Number of the contender that is faster than the incumbent and whose calls have been verified.
    """
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds of the parts `open`, `first pass`, `passes` (after the first look) and `proof`."""


@dataclass(kw_only=True)
class Competition(TimedGroup):
    """A contest under way."""

    rule: ContestRule
    ended: dict[int, Duel] = field(default_factory=dict)

    def score(self, number: int) -> tuple[list[SizeScore], Score]:
        """Return a contender's scores at each of `sizes`, and over all."""
        sizes = [score_at(one, number) for one in self.sizes]
        if self.scoring.objective == "worst":
            return sizes, join_worst(sizes, self.places)
        return sizes, join_sizes(sizes, self.scoring.shares)

    @property
    def scoring(self) -> Scoring:
        """Return how `sizes` make one score."""
        return scoring_of(self.measurement.task, [one.size.dims for one in self.sizes])

    @property
    def places(self) -> list[float]:
        """Return the logarithm of the incumbent's time over the baseline's, at each size."""
        return [
            math.log((one.time_us(INCUMBENT) or math.inf) / one.baseline_time.call_us)
            for one in self.sizes
            if one.baseline_time is not None
        ]

    def deciding_shares(self, sizes: list[SizeScore]) -> tuple[float, ...]:
        """Return how much the doubt of each size counts in a contender's score."""
        if self.scoring.objective != "worst":
            return self.scoring.shares
        counted = worst_sizes(sizes, self.places)
        return tuple(float(at in counted) for at in range(len(sizes)))

    def end(self, number: int, outcome: Outcome, half_width: float) -> None:
        """Note how it ended for a contender, which is timed no more."""
        ratio = math.exp(self.score(number)[1].mean)
        self.ended[number] = Duel(
            sizes=tuple(
                duel_at(one, number) for one in sorted(self.sizes, key=lambda size: size.number)
            ),
            ratio=ratio,
            low=ratio * math.exp(-half_width),
            high=ratio * math.exp(half_width),
            outcome=outcome,
            source="measured",
            faults={},
        )
        self.active.remove(number)


def score_at(size: TimedSize, number: int) -> SizeScore:
    """Return the score of a contender at one size."""
    blocks = size.blocks_of(number)
    empty_us = usual_slope_us([one.empty for one in blocks])
    return score_size(
        [math.log(call_us(one.first, empty_us) / call_us(one.second, empty_us)) for one in blocks]
    )


def duel_at(size: TimedSize, number: int) -> DuelSize:
    """Return a contender beside the incumbent at one size."""
    comparison = compare_blocks(size.blocks_of(number))
    includes_host = bool(size.by_host & {number, INCUMBENT})
    return DuelSize(
        dims=dict(size.size.dims),
        first_us=comparison.first_us.value,
        second_us=comparison.second_us.value,
        ratio=comparison.ratio,
        low=comparison.low,
        high=comparison.high,
        floor=comparison.floor,
        blocks=comparison.blocks,
        time_class=str(TimeClass.HOST_INCLUSIVE if includes_host else TimeClass.DEVICE),
    )


def is_vague(size: TimedSize, number: int) -> bool:
    """Return whether an interval is too wide to decide: beyond ±10 % and ±0.5 us of the longer
    call.

    A slope below that of empty batches counts as a time near zero: its ratio would seem sure.
    """
    found = compare_blocks(size.blocks_of(number), resamples=QUICK_RESAMPLES)
    longer_us = max(found.first_us.value, found.second_us.value)
    allowed = max(VAGUE_WIDTH, VAGUE_US / longer_us)
    widest_us = max(one.half_width for one in (found.first_us, found.second_us, found.empty))
    return found.half_width > allowed or widest_us > allowed * longer_us


async def hold_contest(
    measurement: Measurement,
    contenders: Mapping[int, TimedSession],
    incumbent: TimedSession,
    baseline: TimedSession,
    *,
    prove_incumbent: bool = False,
) -> ContestResult:
    """Time all contenders, by number, and the incumbent; a fault of the incumbent ends it.

    `prove_incumbent`: where it stays, its calls are verified too. Raises TaskError where the
    baseline is refused.
    """
    now_s = asyncio.get_running_loop().time
    rule = contest_rule(measurement.limit_s)
    contest = Competition(
        measurement=measurement,
        sessions={INCUMBENT: incumbent, **contenders, EMPTY: baseline},
        trusted=frozenset({EMPTY}),
        aim=rule.aim,
        most_calls=rule.slots,
        active=[*contenders],
        rule=rule,
    )
    await reserve_slots(contest)
    begun_s, looks = now_s(), 0
    for number, size in shuffled(measurement.plan.sizes):
        if contest.active:
            baseline_time = await time_baseline_at(measurement, baseline, size)
            called = (INCUMBENT, *contest.active)
            timed = await begin_size(contest, number, size, baseline_time, called=called)
            await add_blocks(contest, timed, rule.first_blocks)
    passes_s = now_s()
    while contest.active:
        looks += 1
        until_s = begun_s + decide_all(contest, looks, now_s() - begun_s)
        for timed, blocks in plan_visits(contest):
            if now_s() < until_s:
                await add_blocks(contest, timed, blocks)
    proof_s = now_s()
    fastest = await prove_fastest(contest)
    if prove_incumbent and fastest is None:
        await prove(contest, INCUMBENT)
    return ContestResult(
        ended=contest.ended,
        faults=contest.faults,
        fastest=fastest,
        seconds={
            "first pass": passes_s - begun_s,
            "passes": proof_s - passes_s,
            "proof": now_s() - proof_s,
        },
    )


async def add_blocks(contest: Competition, size: TimedSize, count: int) -> None:
    """Run `count` more blocks at one size, or until no contender is left."""
    wanted = len(size.blocks) + count
    await time_blocks(contest, size, lambda: len(size.blocks) >= wanted)


def decide_all(contest: Competition, look: int, spent_s: float) -> float:
    """End the contest for each contender that is decided, and return the seconds after which all
    must be.

    Figures that are too wide decide nothing; at the time limit such a contest ends as noise.
    """
    rule, ends_s = contest.rule, contest.rule.wall_s
    for number in [*contest.active]:
        vague = any(is_vague(one, number) for one in contest.sizes)
        if vague and spent_s >= rule.longest_s:
            contest.note_fault(number, hidden_by_noise("times differ too much to be compared"))
        elif vague:
            ends_s = rule.longest_s
        else:
            decide_one(contest, number, look, late=spent_s >= rule.wall_s)
    return ends_s


def decide_one(contest: Competition, number: int, look: int, *, late: bool) -> None:
    """End the contest for one contender where it is decided or this look is the last."""
    _, score = contest.score(number)
    outcome = decide(score, look)
    if outcome is not None:
        contest.end(number, outcome, score.half_width(look))
    elif late or score.is_settled:
        contest.end(number, decide_at_last(score, look), score.half_width(look, last=True))


def plan_visits(contest: Competition) -> list[tuple[TimedSize, int]]:
    """Return how many blocks of which sizes come next, the size that is laid out now first.

    They are those that tell most of the contender of whom least is known.
    """
    if not contest.active:
        return []
    least_known = max(contest.active, key=lambda number: contest.score(number)[1].error)
    seconds = [one.seconds / len(one.blocks) for one in contest.sizes]
    scores = contest.score(least_known)[0]
    planned = plan_pass(scores, contest.deciding_shares(scores), seconds)
    at = None if contest.laid_out is None else contest.laid_out.at
    visits = zip(contest.sizes, planned, strict=True)
    return sorted(
        ((size, blocks) for size, blocks in visits if blocks), key=lambda visit: visit[0] is not at
    )


async def prove_fastest(contest: Competition) -> int | None:
    """Verify the calls of contenders that are faster, fastest first, until one contender has no
    fault."""
    faster = [
        (one.ratio, number)
        for number, one in contest.ended.items()
        if one.outcome == "faster" and INCUMBENT not in contest.faults
    ]
    for _, number in sorted(faster):
        await prove(contest, number)
        if number not in contest.faults:
            return number
    return None


async def prove(contest: Competition, number: int) -> None:
    """Verify one kernel's calls at every size, alone beside batches without calls.

    Blocks timed beside the others count. A fault is noted.
    """
    rounds, most_blocks = RULES[Tier.CONFIRM].stepwise, contest.rule.proof_blocks
    for size in contest.sizes:
        if number not in contest.faults:
            await lay_out(contest, size, (number, EMPTY))
            await verify_calls(contest, number, rounds, most_blocks=most_blocks)
