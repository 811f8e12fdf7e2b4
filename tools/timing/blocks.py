"""Kernels timed together, size by size: a block times each of them, and blocks repeat until enough.

A block is one pair of batches of each kernel and one pair without calls, in random order, so that
what drifts slowly is the same for all. `time_blocks` lays the kernels out in slots of one size and
runs blocks until its caller has enough: `measure.py` for a candidate beside the baseline,
`contest.py` for contenders beside the incumbent, `library.py` for a library's call. `verify_calls`
then looks for what blocks alone do not show.
"""

import asyncio
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from cuda_llm.outcomes import Verdict
from cuda_llm.tools.device import ClockReading, TimedSession
from cuda_llm.tools.timing.baseline_time import BaselineTime
from cuda_llm.tools.timing.batch_room import reserve
from cuda_llm.tools.timing.batches import (
    AGAIN,
    EMPTY,
    INCUMBENT,
    INCUMBENT_EMPTY,
    WITHOUT_CALLS,
    BatchRules,
    run_pair,
    verify_single_calls,
)
from cuda_llm.tools.timing.cheating import (
    MOST_UNSURE_BLOCKS,
    NoCheating,
    find_cheating,
    is_answered,
    needs_more_blocks,
)
from cuda_llm.tools.timing.clocks import was_throttled
from cuda_llm.tools.timing.comparison import call_us
from cuda_llm.tools.timing.failures import FailedCase, baseline_refused, fault_of_trusted
from cuda_llm.tools.timing.measurement import Measurement, rules_for
from cuda_llm.tools.timing.single_cases import check_small_case, find_timed_case
from cuda_llm.tools.timing.slope import (
    BatchBlock,
    BatchLengths,
    BatchPair,
    choose_lengths,
    counted_blocks,
    lengths_up_to,
    usual_slope_us,
)
from cuda_llm.tools.timing.slots import PreparedKernel, prepare_kernel
from cuda_llm.tools.timing.verify import find_overwritten
from cuda_llm.tools.validator.budget import SizePlan

ASSUMED_SPEEDUP = 1.5
"""The baseline's time over that of a kernel that was not timed yet."""
PILOT_SLOTS = 3
"""Slots for the first block of kernels of which no time is expected: they may be slow."""
CHANGE_FACTOR = 1.5
"""Kernels are laid out again where their batches need more slots by this factor."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """One pair of batches of each kernel, by its number, and one pair without calls."""

    pairs: Mapping[int, BatchPair]
    readings: tuple[ClockReading | None, ...]
    """Clocks before and after the block."""

    def beside_incumbent(self, number: int) -> BatchBlock:
        """Return the block of one kernel and the incumbent; without it the kernel is both."""
        return BatchBlock(
            first=self.pairs[number],
            second=self.pairs.get(INCUMBENT, self.pairs[number]),
            empty=self.pairs[EMPTY],
            second_empty=self.pairs.get(INCUMBENT_EMPTY),
            again=self.pairs.get(AGAIN),
            throttled=was_throttled(*self.readings),
        )


@dataclass(kw_only=True)
class TimedSize:
    """The blocks of one size so far."""

    number: int
    """Place of the size in the plan."""
    size: SizePlan
    rules: BatchRules
    baseline_time: BaselineTime | None
    """None: not known, as of a library's call."""
    alone: bool = False
    """Whether the incumbent is left out: a baseline too slow to run beside each candidate."""
    discard: int = 0
    """First blocks that do not count: clocks rise in them."""
    expected_us: dict[int, float] = field(default_factory=dict)
    """Microseconds of a call of each kernel, and of a step without its call by `EMPTY`, before
    blocks say it."""
    adjusted: bool = False
    """Whether a first block has given the batch lengths."""
    blocks: list[Block] = field(default_factory=list)
    seconds: float = 0.0
    """Seconds of all blocks."""
    by_host: set[int] = field(default_factory=set)
    """Kernels whose time includes their host part."""

    def blocks_of(self, number: int) -> Sequence[BatchBlock]:
        """Return a kernel's blocks beside the incumbent that count. See `counted_blocks`."""
        return counted_blocks(self.settled_blocks_of(number))

    def settled_blocks_of(self, number: int) -> Sequence[BatchBlock]:
        """Return a kernel's blocks without the first `discard`, unless there are no others."""
        own = [one.beside_incumbent(number) for one in self.blocks if number in one.pairs]
        return own[self.discard :] or own

    def pairs_of(self, number: int) -> list[BatchPair]:
        """Return all pairs of batches of a kernel."""
        return [one.pairs[number] for one in self.blocks if number in one.pairs]

    def time_us(self, number: int) -> float | None:
        """Return the usual microseconds of a kernel's call, or of a step without its call for
        `EMPTY`; None where it was not timed."""
        pairs = self.pairs_of(number)
        if not pairs or number in WITHOUT_CALLS:
            return usual_slope_us(pairs) if pairs else None
        own_empty = self.pairs_of(INCUMBENT_EMPTY) if number == INCUMBENT else []
        empty_us = usual_slope_us(own_empty or self.pairs_of(EMPTY))
        return statistics.median(call_us(pair, empty_us) for pair in pairs)

    def likely_us(self, number: int) -> float | None:
        """Return the usual microseconds as `time_us` does, or before a block those expected."""
        return self.time_us(number) or self.expected_us.get(number)


@dataclass(kw_only=True)
class LaidOut:
    """Kernels in slots of one size, by number."""

    at: TimedSize
    kernels: Mapping[int, PreparedKernel]
    lengths: dict[int, BatchLengths]
    """Lengths of each kernel's batches, within the slots."""
    slots: int


@dataclass(kw_only=True)
class TimedGroup:
    """Kernels that are timed together, and what was found of them so far."""

    measurement: Measurement
    sessions: Mapping[int, TimedSession]
    """By number: contenders from 0, others below. Numbers of one session share its slots; a number
    with calls comes before one without."""
    trusted: frozenset[int]
    """Numbers whose sessions run no candidate: their outputs are not compared."""
    aim: float
    """Relative error of one slope, which gives the length of batches."""
    most_calls: int
    """Largest number of calls of a batch."""
    active: list[int]
    """Contenders that are still timed: none after a fault of the incumbent."""
    sizes: list[TimedSize] = field(default_factory=list)
    faults: dict[int, Verdict | FailedCase] = field(default_factory=dict)
    paces: dict[int, float] = field(default_factory=dict)
    """The baseline's time over that of each kernel, at the size where it was timed last."""
    laid_out: LaidOut | None = None

    def numbers_at(self, size: TimedSize) -> list[int]:
        """Return the numbers of all that a block of this size times."""
        left_out = {INCUMBENT, AGAIN, INCUMBENT_EMPTY} if size.alone else set()
        return [
            one for one in self.sessions if one in self.active or (one < 0 and one not in left_out)
        ]

    def lengths_at(self, size: TimedSize, numbers: Collection[int]) -> dict[int, BatchLengths]:
        """Return the batch lengths that suit each kernel; batches without calls are as long as
        those of the quickest."""
        lengths = {
            one: self.lengths_of(size, INCUMBENT if one == AGAIN else one)
            for one in numbers
            if one not in WITHOUT_CALLS
        }
        longest = max(lengths.values(), key=lambda one: one.slots)
        return {**dict.fromkeys(numbers, longest), **lengths}

    def lengths_of(self, size: TimedSize, number: int) -> BatchLengths:
        """Return the batch lengths that suit a kernel, by its time here or what is expected."""
        most = min(self.measurement.room(size.size).calls, self.most_calls)
        time_us = size.likely_us(number)
        if time_us is None:
            return lengths_up_to(min(PILOT_SLOTS, most))
        return choose_lengths(
            call_us=time_us,
            overhead_us=max(size.likely_us(EMPTY) or 0.0, 1.0),
            aim=self.aim,
            most=most,
        )

    def learn_paces(self, size: TimedSize) -> None:
        """Note how fast each kernel is here, as what is expected of it at the next size."""
        for number in (INCUMBENT, *self.active):
            time_us = size.time_us(number)
            if time_us is not None and size.baseline_time is not None:
                self.paces[number] = size.baseline_time.call_us / time_us

    def fail(
        self, number: int, verdict: Verdict, size: TimedSize, numbers: Collection[int]
    ) -> None:
        """Note the fault of a kernel that was timed with `numbers`.

        A trusted session that finds no memory is the fault of the one kernel beside it. Raises
        TaskError or InfrastructureError for any other fault of a trusted session.
        """
        if number in self.trusted:
            judged = [one for one in numbers if one not in self.trusted]
            if len(judged) != 1:
                raise baseline_refused(self.measurement.task, verdict)
            number, verdict = judged[0], fault_of_trusted(self.measurement.task, verdict)
        input_plan = self.measurement.input_plan(size.size)
        self.note_fault(number, find_timed_case(self.measurement, verdict, input_plan))

    def note_fault(self, number: int, found: Verdict | FailedCase) -> None:
        """Note a fault: the kernel is timed no more, and without the incumbent none is."""
        self.faults[number] = found
        self.active = [one for one in self.active if number not in (one, INCUMBENT)]

    def goes_on(self, numbers: Collection[int]) -> bool:
        """Return whether faults leave a kernel of these to be timed."""
        judged = {one for one in numbers if one not in self.trusted} - {INCUMBENT}
        return INCUMBENT not in self.faults and bool(judged - self.faults.keys())


async def reserve_slots(group: TimedGroup) -> None:
    """Have each session lay out once what takes the most memory."""
    measurement = group.measurement
    distinct = {id(session): (number, session) for number, session in group.sessions.items()}
    for number, session in distinct.values():
        allocates = number not in group.trusted or measurement.baseline_allocates
        await reserve(
            [session],
            measurement.task,
            measurement.plan,
            measurement.options.tier,
            allocates=allocates,
        )


async def begin_size(
    group: TimedGroup,
    number: int,
    size: SizePlan,
    baseline_time: BaselineTime,
    *,
    called: Collection[int],
    alone: bool = False,
    discard: int = 0,
) -> TimedSize:
    """Add a size to the group, and have each kernel of `called` make a small call, not timed."""
    expected_us = {
        one: baseline_time.call_us / group.paces.get(one, ASSUMED_SPEEDUP) for one in group.sessions
    }
    timed = TimedSize(
        number=number,
        size=size,
        rules=rules_for(group.measurement, size, baseline_time),
        baseline_time=baseline_time,
        alone=alone,
        discard=discard,
        expected_us={} if alone else {**expected_us, EMPTY: baseline_time.overhead_us},
    )
    group.sizes.append(timed)
    for one in called:
        found = await check_small_case(group.measurement, group.sessions[one])
        if found is not None:
            group.note_fault(one, found)
        if not group.active:
            break
    return timed


async def time_blocks(group: TimedGroup, size: TimedSize, is_enough: Callable[[], bool]) -> None:
    """Run blocks at one size until there are enough, or until faults leave no contender.

    Raises TaskError or InfrastructureError where a trusted session fails.
    """
    while group.active and not is_enough():
        laid_out = group.laid_out
        if laid_out is None or laid_out.at is not size:
            laid_out = await lay_out(group, size, group.numbers_at(size))
        if laid_out is not None:
            await run_block(group, laid_out, group.numbers_at(size))
            adjust_lengths(group, laid_out)
    group.learn_paces(size)


def adjust_lengths(group: TimedGroup, laid_out: LaidOut) -> None:
    """Have the next batches be as long as the blocks of the size suggest.

    Where the first block shows that many more slots are needed, the kernels are to be laid out
    again, and that block does not count. Later batches become longer alone: so a kernel that is
    slow at first only is not timed in short batches, and badly, for good.
    """
    size, numbers = laid_out.at, group.numbers_at(laid_out.at)
    if not size.blocks or not group.active:
        return
    lengths, is_first = group.lengths_at(size, numbers), not size.adjusted
    size.adjusted = True
    if is_first and lengths[EMPTY].slots > CHANGE_FACTOR * laid_out.slots:
        known_us = {number: size.time_us(number) for number in numbers}
        size.expected_us |= {number: us for number, us in known_us.items() if us is not None}
        size.blocks.clear()
        size.seconds, group.laid_out = 0.0, None
        return
    for number, one in lengths.items():
        if is_first or one.slots > CHANGE_FACTOR * laid_out.lengths[number].slots:
            laid_out.lengths[number] = one.within(laid_out.slots)


async def lay_out(group: TimedGroup, size: TimedSize, numbers: Collection[int]) -> LaidOut | None:
    """Put these kernels into slots, as many as their longest batch needs; None where faults leave
    no contender."""
    measurement, group.laid_out = group.measurement, None
    lengths = group.lengths_at(size, numbers)
    count = measurement.room(size.size).slots_for(lengths[EMPTY].slots)
    kernels: dict[int, PreparedKernel] = {}
    for number in numbers:
        session = group.sessions[number]
        shared = [one for one in kernels.values() if one.session is session]
        kernel = (
            shared[0]
            if shared
            else await prepare_kernel(
                session,
                measurement.input_plan(size.size),
                count,
                trusted=number in group.trusted,
                capture=number not in WITHOUT_CALLS,
            )
        )
        if isinstance(kernel, PreparedKernel):
            kernels[number] = kernel
            continue
        group.fail(number, kernel, size, numbers)
        if not group.goes_on(numbers):
            return None
    size.by_host.update(number for number, one in kernels.items() if one.includes_host)
    group.laid_out = LaidOut(at=size, kernels=kernels, lengths=lengths, slots=count)
    return group.laid_out


async def run_block(group: TimedGroup, laid_out: LaidOut, numbers: Collection[int]) -> None:
    """Run a pair of batches of each kernel in random order."""
    size, now_s = laid_out.at, asyncio.get_running_loop().time
    rules = size.rules
    begun_s, before = now_s(), rules.read_clocks()
    pairs: dict[int, BatchPair] = {}
    for number in rules.rng.permutation(list(numbers)).tolist():
        kernel, lengths = laid_out.kernels[number], laid_out.lengths[number]
        pair = await run_pair(kernel, lengths, rules, solve=number not in WITHOUT_CALLS)
        if isinstance(pair, BatchPair):
            pairs[number] = pair
            continue
        group.fail(number, pair, size, numbers)
        if not group.goes_on(numbers):
            return
    size.blocks.append(Block(pairs=pairs, readings=(before, rules.read_clocks())))
    size.seconds += now_s() - begun_s


async def verify_calls(
    group: TimedGroup, number: int, rounds: int, *, most_blocks: int = 0
) -> NoCheating | None:
    """Verify single calls and guards of a kernel that is laid out, and that its calls took equally
    long in all batches; None where it fails or has failed.

    Blocks are added where too few seem to show a slow start, and up to `most_blocks` where they
    leave the answer open. `rounds`: stepwise batches of each kernel at most.
    """
    if group.laid_out is None or number in group.faults:
        return None
    size, kernels = group.laid_out.at, group.laid_out.kernels
    fewest = 1
    while True:
        blocks, added = size.blocks_of(number), 0
        while added < MOST_UNSURE_BLOCKS and (
            len(blocks) < fewest or needs_more_blocks(kernels, number, blocks)
        ):
            await run_block(group, group.laid_out, kernels.keys())
            if number in group.faults:
                return None
            blocks, added = size.blocks_of(number), added + 1
        fault = await verify_single_calls(kernels[number], size.rules)
        fault = fault or find_overwritten(kernels[number])
        found = fault or await find_cheating(kernels, number, blocks, size.rules, rounds)
        if fault or is_answered(found) or len(blocks) >= most_blocks or fewest > 1:
            break
        fewest = most_blocks
    if isinstance(found, NoCheating):
        return found
    group.fail(number, found, size, kernels.keys())
    return None
