"""State of a contest: blocks of all kernels, size by size, and which contenders are out."""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

from cuda_llm.outcomes import Verdict
from cuda_llm.profile import Outcome
from cuda_llm.tasks.objective import Scoring, scoring_of
from cuda_llm.tasks.reference import Dims
from cuda_llm.tools.device import TimedSession
from cuda_llm.tools.timing.baseline_time import BaselineTime
from cuda_llm.tools.timing.blocks import BatchRules, MeasurementFault
from cuda_llm.tools.timing.comparison import Comparison, call_us, compare_blocks
from cuda_llm.tools.timing.failures import FailedCase
from cuda_llm.tools.timing.interleave import ASSUMED_SPEEDUP, QUICK_RESAMPLES, count_blocks
from cuda_llm.tools.timing.measurement import Measurement
from cuda_llm.tools.timing.sequential import (
    Score,
    SizeScore,
    join_sizes,
    join_worst,
    score_size,
    worst_sizes,
)
from cuda_llm.tools.timing.single_cases import with_timed_case
from cuda_llm.tools.timing.slope import (
    BatchBlock,
    BatchLengths,
    BatchPair,
    choose_lengths,
    usual_slope_us,
)
from cuda_llm.tools.timing.slots import PreparedKernel
from cuda_llm.tools.timing.stopping import VAGUE_US, VAGUE_WIDTH, ContestRule
from cuda_llm.tools.validator.budget import SizePlan

INCUMBENT = -1
"""Number of the incumbent among the kernels of a contest; contenders have theirs from 0."""
EMPTY = -2
"""Number that stands for batches without calls."""


@dataclass(frozen=True, kw_only=True)
class ContestSize:
    """A contender compared with the incumbent at one size."""

    dims: Dims
    comparison: Comparison
    includes_host: bool


@dataclass(frozen=True, kw_only=True)
class Contested:
    """The end of the contest for one contender."""

    outcome: Outcome
    ratio: float
    """Its time over the incumbent's."""
    half_width: float
    """Half-width of the interval of log(`ratio`); the interval holds at every look."""
    sizes: tuple[ContestSize, ...]


@dataclass(frozen=True, kw_only=True)
class ContestResult:
    """The end of a contest: each contender's result, by its number."""

    ended: Mapping[int, Contested | MeasurementFault]
    fastest: int | None
    """Number of the contender that is faster than the incumbent and whose calls have been verified.
    """
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds of the parts `open`, `first pass`, `passes` (after the first look) and `proof`."""


@dataclass(frozen=True, kw_only=True)
class ContestBlock:
    """One pair of batches of each kernel, by its number, and one pair without calls."""

    pairs: Mapping[int, BatchPair]
    throttled: bool

    def beside_incumbent(self, number: int) -> BatchBlock:
        """Return the block of one contender and the incumbent."""
        first, second, empty = (self.pairs[one] for one in (number, INCUMBENT, EMPTY))
        return BatchBlock(first=first, second=second, empty=empty, throttled=self.throttled)


@dataclass(frozen=True, kw_only=True)
class PreparedKernels:
    """The kernels in slots of one size, by number; `EMPTY` is the baseline, not captured."""

    at: int
    """Number of the size."""
    kernels: Mapping[int, PreparedKernel]
    slots: int


@dataclass(kw_only=True)
class SizeRecord:
    """The blocks of one size so far."""

    number: int
    size: SizePlan
    baseline_time: BaselineTime
    rules: BatchRules
    blocks: list[ContestBlock] = field(default_factory=list)
    seconds: float = 0.0
    """Seconds of all blocks of the size."""
    by_host: set[int] = field(default_factory=set)
    """Kernels whose time includes their host part."""

    def blocks_of(self, number: int) -> tuple[BatchBlock, ...]:
        """Return what counts of a contender beside the incumbent."""
        own = [one.beside_incumbent(number) for one in self.blocks if number in one.pairs]
        return count_blocks(own).blocks

    @property
    def empty_us(self) -> float | None:
        """Return the time of a step without its call; None where nothing was timed."""
        pairs = [one.pairs[EMPTY] for one in self.blocks]
        return usual_slope_us(pairs) if pairs else None

    def time_us(self, number: int) -> float | None:
        """Return the usual time of a call of that kernel; None where it was not timed."""
        pairs = [one.pairs[number] for one in self.blocks if number in one.pairs]
        empty_us = self.empty_us
        if not pairs or empty_us is None:
            return None
        return statistics.median(call_us(pair, empty_us) for pair in pairs)

    def is_vague(self, number: int) -> bool:
        """Return whether an interval is too wide to decide: beyond ±10 % and ±0.5 us of the longer
        call.

        A slope below that of empty batches counts as a time near zero: its ratio would seem sure.
        """
        found = compare_blocks(self.blocks_of(number), resamples=QUICK_RESAMPLES)
        longer_us = max(found.first_us.value, found.second_us.value)
        allowed = max(VAGUE_WIDTH, VAGUE_US / longer_us)
        widest_us = max(one.half_width for one in (found.first_us, found.second_us, found.empty))
        return found.half_width > allowed or widest_us > allowed * longer_us

    def score_of(self, number: int) -> SizeScore:
        """Return the score of a contender."""
        blocks = self.blocks_of(number)
        empty_us = usual_slope_us([one.empty for one in blocks])
        return score_size(
            [
                math.log(call_us(one.first, empty_us) / call_us(one.second, empty_us))
                for one in blocks
            ]
        )


@dataclass(kw_only=True)
class Contest:
    """A contest under way."""

    measurement: Measurement
    sessions: Mapping[int, TimedSession]
    """By number; that of `EMPTY` is the baseline's."""
    rule: ContestRule
    ended: dict[int, Contested | MeasurementFault] = field(default_factory=dict)
    records: list[SizeRecord] = field(default_factory=list)
    paces: dict[int, float] = field(default_factory=dict)
    """The baseline's time over that of each kernel, at the size where it was timed last."""
    prepared: PreparedKernels | None = None

    @property
    def active(self) -> list[int]:
        """Return the contenders that are still timed."""
        return [one for one in self.sessions if one >= 0 and one not in self.ended]

    def score(self, number: int) -> tuple[list[SizeScore], Score]:
        """Return a contender's scores at each of `records`, and over all."""
        sizes = [one.score_of(number) for one in self.records]
        if self.scoring.objective == "worst":
            return sizes, join_worst(sizes, self.places)
        return sizes, join_sizes(sizes, self.scoring.shares)

    @property
    def scoring(self) -> Scoring:
        """Return how the sizes of `records` make one score."""
        return scoring_of(self.measurement.task, [one.size.dims for one in self.records])

    @property
    def places(self) -> list[float]:
        """Return the logarithm of the incumbent's time over the baseline's, of each record."""
        return [
            math.log((one.time_us(INCUMBENT) or math.inf) / one.baseline_time.call_us)
            for one in self.records
        ]

    def deciding_shares(self, sizes: list[SizeScore]) -> tuple[float, ...]:
        """Return how much the doubt of each record counts in a contender's score."""
        if self.scoring.objective != "worst":
            return self.scoring.shares
        counted = worst_sizes(sizes, self.places)
        return tuple(float(at in counted) for at in range(len(sizes)))

    def end(self, number: int, outcome: Outcome, half_width: float) -> None:
        """Write down how it ended for a contender."""
        sizes = tuple(
            ContestSize(
                dims=one.size.dims,
                comparison=compare_blocks(one.blocks_of(number)),
                includes_host=bool(one.by_host & {number, INCUMBENT}),
            )
            for one in sorted(self.records, key=lambda record: record.number)
        )
        ratio = math.exp(self.score(number)[1].mean)
        self.ended[number] = Contested(
            outcome=outcome, ratio=ratio, half_width=half_width, sizes=sizes
        )

    def lengths_at(self, record: SizeRecord) -> dict[int, BatchLengths]:
        """Return the batch lengths of each kernel still timed, and of batches without calls."""
        lengths = {one: self.lengths_of(record, one) for one in (INCUMBENT, *self.active)}
        return {**lengths, EMPTY: max(lengths.values(), key=lambda one: one.slots)}

    def lengths_of(self, record: SizeRecord, number: int) -> BatchLengths:
        """Return the batch lengths that suit a kernel: by its time here, or what is expected."""
        pace = self.paces.get(number, ASSUMED_SPEEDUP)
        overhead_us = record.empty_us or record.baseline_time.overhead_us
        return choose_lengths(
            call_us=record.time_us(number) or record.baseline_time.call_us / pace,
            overhead_us=max(overhead_us, 1.0),
            aim=self.rule.aim,
            most=min(self.measurement.room(record.size).calls, self.rule.slots),
        )

    def slots_for(self, record: SizeRecord, lengths: BatchLengths) -> int:
        """Return how many slots of a kernel its batches are spread over."""
        return self.measurement.room(record.size).slots_for(lengths.slots)

    def learn_paces(self, record: SizeRecord) -> None:
        """Note how fast each kernel is here, as what is expected of it at the next size."""
        for number in (INCUMBENT, *self.active):
            time_us = record.time_us(number)
            if time_us is not None:
                self.paces[number] = record.baseline_time.call_us / time_us

    def fail(
        self, number: int, found: Verdict | FailedCase, record: SizeRecord, *, timed: bool = True
    ) -> MeasurementFault | None:
        """Write down the fault of a contender; return that of the incumbent, which ends all."""
        case = found if isinstance(found, FailedCase) else None
        fault = MeasurementFault(
            which="second" if number == INCUMBENT else "first",
            verdict=found.verdict if isinstance(found, FailedCase) else found,
            failed=case,
            at_small_case=not timed,
        )
        fault = with_timed_case(self.measurement, fault, self.measurement.input_plan(record.size))
        if number == INCUMBENT:
            return fault
        self.ended[number] = fault
        return None
