"""Modelled times at a task's `bench` sizes, from launches of which some blocks stand for all.

A size at which a call and its reference take about a second at most is executed whole once more,
and its outputs are compared. At the others the stores and the floating-point operations of a kernel
are compared with those of the sizes that were compared, so that no kernel leaves work out where
nobody compares results.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

import numpy as np

from cuda_llm.outcomes import (
    DataRace,
    DependentLaunch,
    IllegalAccess,
    LaunchFailed,
    LeftOut,
    Misaligned,
    Nondeterministic,
    Quarantined,
    TimedOut,
    UninitialisedRead,
    Verdict,
    WrongResult,
)
from cuda_llm.profile import Compared, NotCompared
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.reference import Dims, load_reference
from cuda_llm.tasks.task import ArgumentRole, Task, is_float
from cuda_llm.tools.device import (
    SAMPLE_COST,
    CallReport,
    Level,
    SamplingSession,
    Session,
    Site,
    floating_operations,
)
from cuda_llm.tools.device.buffers import BufferSpec
from cuda_llm.tools.device.candidate import Baseline
from cuda_llm.tools.judge.sampled_outputs import SampledCall, compare_sampled
from cuda_llm.tools.judge.smaller_sizes import extrapolate, halvings
from cuda_llm.tools.timing.failures import ModelledCall, least_size_us, modelled_floor_us
from cuda_llm.tools.timing.measurement import open_oracle
from cuda_llm.tools.timing.times import (
    KernelTimes,
    bytes_written,
    profiles_below,
    time_sizes,
)
from cuda_llm.tools.validator.budget import affords_on_host
from cuda_llm.tools.validator.buffers import (
    buffer_specs,
    call_arguments,
    call_options,
    stated_contents,
)
from cuda_llm.tools.validator.cases import (
    NONCE_BYTES,
    Case,
    fresh_nonce,
    generator,
    side_by_side_case,
    timed_case,
    work,
)
from cuda_llm.tools.validator.check_case import CheckedCase, check_case
from cuda_llm.tools.validator.distributions import draw, draw_made
from cuda_llm.tools.validator.find_cause import find_cause
from cuda_llm.tools.validator.hidden_sizes import draw_ragged
from cuda_llm.tools.validator.oracle import reference_oracle
from cuda_llm.tools.validator.parts import elements

SHARED_NONCE = b"timed"
"""Nonce of the timed calls that share their inputs and executed blocks: those of a search, whose
winner is checked on others, and of baselines."""
POOL_BYTES = 4 << 20
"""Bytes up to which an input is drawn whole; the pages of a larger input repeat as many bytes."""
WHOLE_BYTES = 1 << 30
"""Most bytes of all buffers of a call that is executed whole where it cannot be sampled."""
MOST_BACK_EDGES = {Level.SAMPLE: 3_000_000, Level.ACCOUNT: 6_000_000}
"""Most iterations of loops of a launch, of all warps, which take seconds. They are counted, since a
clock would make it depend on the machine's load which sizes are extrapolated."""
LARGE_BYTES = 12 << 30
"""Most bytes of all buffers of a call at a task's `large` size."""
LIMIT_S = 30.0
"""Longest seconds of one call."""
MOST_INSTRUCTIONS = 40_000_000
"""Most instructions of warps of a call that is executed whole at a size of whose shape a larger one
is extrapolated."""
MOST_COMPARED = 32_000_000
"""Largest `_cost` of a call that is executed whole to compare its outputs: about a second."""
MOST_BEYOND = 5_000_000
"""Largest cost of the call above or beside the timed sizes, which comes on top of theirs."""
VALUE_COST = 0.5
"""Instructions of warps that take as long to emulate as a value of a buffer takes to be drawn, or
computed by the reference and compared."""
LARGE_COST = 1 << 16
"""Instructions and memory requests of warps of a launch at a `large` size: its first block, its
last and a few more, which show offsets that overflow and launches that no GPU takes."""
MOST_TIMES = 8.0
"""Most times by which an extent is longer, above the largest size that was compared whole."""
DRAWS_BESIDE = 16
"""Sizes that are drawn beside the largest size that was compared whole, until one is affordable."""
MOST_BESIDE = 2.0
"""Most times the work of a size that was compared whole, beside it."""
MOST_TERMS = 1 << 22
"""Most terms of a sum above the timed sizes: one chain of them in float32 stands still soon after,
at 2^24 terms of one size, as a task's own baseline may."""
TENSOR_OPERATIONS = 64
"""Operations on tensor cores that take as long to emulate as an instruction of a warp."""
MOST_WATCHED = 5e7
"""Most operations and bytes of a size at which a race is looked for behind a wrong result."""
LEAST_STORED = 0.9
"""Least share of the outputs' bytes that a kernel has to store, as some blocks show for all."""
LEAST_OPERATIONS = 0.5
"""Least floating-point operations for each one of the task, relative to the compared size that has
the fewest: other orders of summation and shared intermediate results need fewer, too."""
LEAST_FLOATING = 1 / 16
"""Least share of the operations of a task of whole numbers that is floating-point where its work
is: a product of 8-bit numbers is added up in whole numbers, and scaled once a row."""
MOST_SAMPLES = 8
"""Most samples whose work is averaged before a kernel is found to leave work out: where few blocks
can be executed, and blocks do unlike work, one sample may show half of the work."""


async def time_calls_there(
    site: Site,
    task: Task,
    compiled: Baseline,
    baseline: Baseline,
    nonce: bytes | None,
    *,
    begins_small: bool = True,
    compares: bool = True,
) -> KernelTimes | Verdict:
    """Model the time of every size from the report of each call, outputs verified.

    A candidate, but not the baseline itself, is called on other inputs, too: with `begins_small`
    first at a small size. Where the site samples, sizes that are too large to be executed whole
    come afterwards, with a nonce on inputs and blocks that all kernels share; without `compares`,
    where a kernel was judged before, for their times alone.
    """
    outcome = await _time_calls(
        site, task, compiled, baseline, nonce, begins_small=begins_small, compares=compares
    )
    if isinstance(outcome, WrongResult | Nondeterministic) and site.capabilities.sees_races:
        return await _find_cause(site, task, compiled, baseline, outcome) or outcome
    return outcome


async def _time_calls(
    site: Site,
    task: Task,
    compiled: Baseline,
    baseline: Baseline,
    nonce: bytes | None,
    *,
    begins_small: bool,
    compares: bool,
) -> KernelTimes | Verdict:
    samples = site.capabilities.samples
    async with open_oracle(task, site, baseline) as oracle, site.open(compiled) as session:
        if not isinstance(session, Session):
            return session
        times = await time_sizes(
            task,
            session,
            oracle,
            nonce=nonce,
            bench=site.capabilities.bench_sizes and not samples,
            checks=compiled.key != baseline.key,
            begins_small=begins_small,
        )
    if not samples or not isinstance(times, KernelTimes):
        return times
    beside = baseline if nonce is None else None
    return await model_sizes(task, site, compiled, times, beside=beside, compares=compares)


async def _find_cause(
    site: Site,
    task: Task,
    compiled: Baseline,
    baseline: Baseline,
    failed: WrongResult | Nondeterministic,
) -> DataRace | UninitialisedRead | None:
    """Look for a race at the sizes up to that of a wrong result, the smallest first: a path that
    only large sizes take was not watched before."""
    dims = failed.dims if isinstance(failed, WrongResult) else {}
    most = min(MOST_WATCHED, work(task, dims) if dims else MOST_WATCHED)
    sizes = [*task.sizes.emulated, *task.sizes.bench]
    cases = [timed_case(task, one, Level.FULL) for one in sizes if work(task, one) <= most]
    secret = fresh_nonce()
    draw = partial(generator, secret, task.name, "watched", 0)
    async with open_oracle(task, site, baseline) as oracle:
        for case in sorted(cases, key=lambda case: case.work):
            async with site.open(compiled) as session:
                if not isinstance(session, Session):
                    return None
                cause = await find_cause(task, session, case, oracle, draw)
            if cause is not None:
                return cause
    return None


async def model_sizes(
    task: Task,
    site: Site,
    compiled: Baseline,
    verified: KernelTimes,
    *,
    beside: Baseline | None = None,
    compares: bool = True,
) -> KernelTimes | Verdict:
    """Model the task's `bench` sizes; `verified` are the times of small ones.

    Without `beside`, inputs and executed blocks of timed calls are the same for every kernel of the
    task: where the same runs it takes the same time, and kernels differ by nothing that was drawn.
    Else they follow from the source, which to know them would have to contain its own hash, and the
    baseline `beside` is timed on them, too: rows of unlike length take as long for both. A size
    that can be executed neither in part nor whole within a few seconds is extrapolated from smaller
    sizes: of its own shape where the task allows some, else from all. Each size's note names the
    number of executed blocks, or why the size is extrapolated.
    """
    nonce = _own_nonce(compiled) if beside else SHARED_NONCE
    modeller = _Modeller(task, site, compiled, verified, timed_nonce=nonce, compares=compares)
    sizes = task.sizes.bench
    by_work = sorted(range(len(sizes)), key=lambda number: modeller.work(sizes[number]))
    modelled: dict[int, _ModelledSize] = {}
    alike: dict[int, tuple[_Executed, ...]] = {}
    notes: dict[int, str] = {}
    for number in by_work:
        outcome = await modeller.model(sizes[number])
        if outcome is None:
            notes[number] = modeller.why_not
            smaller = await modeller.call_smaller(sizes[number])
            if not isinstance(smaller, tuple):
                return smaller
            alike[number] = smaller
        elif isinstance(outcome, _ModelledSize):
            modelled[number] = outcome
        else:
            return outcome
    beyond = await modeller.compare_beyond()
    if beyond is not None:
        return beyond
    reports = {number: one.report for number, one in modelled.items()}
    baseline_us = dict[int, float]()
    if beside is not None and _depends_on_draw(task, reports.values()):
        own = _Modeller(task, site, beside, verified, timed_nonce=nonce, compares=False)
        for number in (one for one in by_work if one in reports):
            found = await own.model(sizes[number])
            if isinstance(found, _ModelledSize):
                baseline_us[number] = found.report.time_us
    known = [_Executed(dims=sizes[number], report=one) for number, one in reports.items()]
    points = [*verified.times, *((one.dims, one.report.time_us) for one in known)]
    calls = [one.as_call for one in known] or [
        ModelledCall(dims=verified.times[-1][0], launches=verified.launches)
    ]

    def extrapolated_us(number: int) -> float:
        # Small sizes spend their time otherwise than large ones, so what was executed may lead
        # below what the units need that the kernel works on.
        own = [(one.dims, one.report.time_us) for one in alike[number]]
        counted = [one.as_call for one in alike[number]]
        dims = sizes[number]
        least_us = modelled_floor_us(task, site.hardware, dims, counted or calls)
        line = sorted((modeller.work(size), time_us) for size, time_us in own or points)
        return max(least_us, extrapolate(line, modeller.work(dims)))

    times = tuple(
        (dims, reports[number].time_us if number in reports else extrapolated_us(number))
        for number, dims in enumerate(sizes)
    )
    largest = next(reversed(reports), None)
    instead = [one for calls_of_one in alike.values() for one in calls_of_one]
    shown = next(iter(reversed(known or instead)), None)
    return replace(
        verified,
        times=times,
        baseline_us=tuple(map(baseline_us.get, range(len(sizes)))) if baseline_us else (),
        spreads=tuple(_spread(reports.get(number)) for number in range(len(sizes))),
        size_notes=tuple(
            _blocks_note(reports[number]) if number in reports else notes[number]
            for number in range(len(sizes))
        ),
        launches=shown.report.launches if shown else verified.launches,
        bottlenecks=shown.report.bottlenecks if shown else verified.bottlenecks,
        launched=shown.dims if shown else verified.times[-1][0],
        smaller=() if largest is None else profiles_below(largest, reports),
        compared=tuple(
            modelled[number].compared if number in modelled else _nothing(task, dims, "no-end")
            for number, dims in enumerate(sizes)
        ),
    )


@dataclass(frozen=True, kw_only=True)
class _Executed:
    """A call at a size, in part or whole."""

    dims: Dims
    report: CallReport

    @property
    def as_call(self) -> ModelledCall:
        """The counts of the call."""
        return ModelledCall(dims=self.dims, launches=self.report.launches)


@dataclass(frozen=True, kw_only=True)
class _ModelledSize:
    """The report of a call at a size, and how far the outputs of that size were compared."""

    report: CallReport
    compared: Compared


def _times_the_work(task: Task, size: Dims, dims: Dims) -> float:
    """Return how many times the bytes of all buffers, or the operations of the task if more, `size`
    has of those of `dims`."""
    moved = [sum(spec.nbytes for spec in buffer_specs(task, one)) for one in (size, dims)]
    done = [float(evaluate(task.roofline.flops, one)) for one in (size, dims)]
    return max(more / base for more, base in (moved, done) if base)


def _depends_on_draw(task: Task, reports: Iterable[CallReport]) -> bool:
    """Return whether other inputs or blocks of a size may take another time: whole numbers decide
    how long rows are and what is reached, or blocks were seen to do unlike work."""
    return _takes_whole_numbers(task) or any(map(_spread, reports))


def _takes_whole_numbers(task: Task) -> bool:
    drawn = (one for one in task.arguments if one.role in (ArgumentRole.IN, ArgumentRole.INOUT))
    return any(not is_float(one.dtype) for one in drawn)


def _own_nonce(compiled: Baseline) -> bytes:
    """Return the nonce that follows from a kernel's source."""
    return hashlib.blake2b(compiled.source.encode(), digest_size=NONCE_BYTES).digest()


def _nothing(task: Task, dims: Dims, why_not: NotCompared) -> Compared:
    return Compared(elements=elements(task, dims)[1], compared=0, why_not=why_not)


class _Modeller:
    """One candidate's calls at large sizes, each in a fresh runner."""

    def __init__(
        self,
        task: Task,
        site: Site,
        compiled: Baseline,
        verified: KernelTimes,
        *,
        timed_nonce: bytes,
        compares: bool,
    ) -> None:
        self._task = task
        self._site = site
        self._compiled = compiled
        self._compares = compares
        self._reference = None if task.reference is None else load_reference(task)
        self._nonce = _own_nonce(compiled)
        self._timed_nonce = timed_nonce
        self._verified = verified.times
        self._proved = [(verified.times[-1][0], verified.operations or {})]
        """Sizes whose outputs were compared, and the operations counted there."""
        self._whole: list[tuple[Dims, float]] = []
        """Sizes that were compared whole and their costs (`_cost`), the largest last."""
        self._in_part: dict[tuple[tuple[str, int], ...], Compared] = {}
        """By size: what was compared of the blocks of its first sample."""
        self.dependent: DependentLaunch | None = None
        """The last launch that could not be sampled."""
        self._uncounted = False
        self._ends: dict[Level, bool] = {Level.SAMPLE: True, Level.ACCOUNT: True}
        """By level: has no call yet taken too long? Larger sizes take longer."""

    @property
    def why_not(self) -> str:
        """Return why a size was extrapolated."""
        if self._uncounted:
            return "extrapolated from smaller sizes: there are more launches than can be counted"
        if self.dependent is None or not self._ends[Level.SAMPLE]:
            return "extrapolated from smaller sizes: a single block takes seconds here"
        return (
            f"extrapolated from smaller sizes: {self.dependent.kernel} decides by what other "
            "blocks have done, and all of them take too long here"
        )

    def work(self, dims: Dims) -> float:
        """Return the least microseconds of a size, above 0, by which sizes are ordered."""
        least_us = least_size_us(self._task, self._site.hardware, dims, l2_warm=False)
        return least_us or work(self._task, dims)

    async def model(self, dims: Dims) -> _ModelledSize | Verdict | None:
        """Return the call at a size; None where the call takes too long, and the verdict where its
        outputs are wrong or the kernel leaves work out."""
        reports: list[CallReport] = []
        compared: Compared | None = None
        while len(reports) < MOST_SAMPLES:
            outcome = await self._model(dims, len(reports))
            if _is_uncounted(outcome):
                self._uncounted = True
                self._ends[Level.SAMPLE] = False
                return None
            if not isinstance(outcome, CallReport):
                return outcome
            reports.append(outcome)
            if not self._compares:
                break
            if compared is None:
                found = await self._compare(dims, outcome)
                if not isinstance(found, Compared):
                    return found
                compared = found
            mean = _averaged(reports)
            doubt = find_unstored(self._task, dims, mean)
            if doubt is None and not compared.compared:
                doubt = find_less_work(self._task, dims, mean, self._proved)
            if doubt is None:
                break
            if not _is_sampled(outcome) or len(reports) == MOST_SAMPLES:
                return doubt
        if compared is None:
            compared = _nothing(self._task, dims, "costly")
        if compared.compared:
            self._proved.append((dims, reports[0].operations or {}))
        return _ModelledSize(report=reports[0], compared=compared)

    async def _compare(self, dims: Dims, report: CallReport) -> Compared | Verdict:
        """Compare the outputs of another call that is executed whole, where that is affordable;
        else tell what was compared of the executed blocks."""
        if not self._affords_whole(dims, report):
            in_part = self._in_part.get(tuple(dims.items()))
            return in_part or _nothing(
                self._task, dims, "reference" if self._reference is None else "costly"
            )
        found = await self._check(side_by_side_case(self._task, dims, "bench"))
        if isinstance(found, TimedOut):
            return _nothing(self._task, dims, "costly")
        if not isinstance(found, CheckedCase):
            return found
        self._whole.append((dims, self._cost(dims, report)))
        return Compared(elements=found.elements, compared=found.elements)

    async def compare_beyond(self) -> Verdict | None:
        """Return what is wrong above the largest size that was compared whole, where no extent is
        round, or at the task's `large` sizes, of which some blocks are executed; None where nothing
        is, or where neither is known."""
        if not self._compares or self._reference is None:
            return None
        beyond = self._draw_beyond()
        if beyond is not None:
            found = await self._check(side_by_side_case(self._task, beyond, "hidden"))
            if not isinstance(found, CheckedCase | TimedOut):
                return found
        for dims in self._task.sizes.large if self.dependent is None else ():
            if sum(spec.nbytes for spec in buffer_specs(self._task, dims)) > LARGE_BYTES:
                continue
            outcome = await self._call(dims, Level.SAMPLE, self._nonce, sample_cost=LARGE_COST)
            if isinstance(outcome, IllegalAccess | Misaligned | LaunchFailed | WrongResult):
                return outcome
        return None

    def _draw_beyond(self) -> Dims | None:
        """Draw a size that is as large as can be executed and compared whole, or beside the largest
        that was, of those within `MOST_BEYOND`; None where no size was."""
        if not self._whole:
            return None
        cheap = [one for one in self._whole if one[1] <= MOST_BEYOND]
        dims, cost = cheap[-1] if cheap else self._whole[0]
        rng = generator(self._nonce, self._task.name, "ragged", 0)
        most_times = min(MOST_TIMES, MOST_BEYOND / cost)
        tried = [most_times / 2**halved for halved in range(3) if most_times >= 2 ** (halved + 1)]
        for times in (*tried, *(1.0,) * DRAWS_BESIDE):
            size = draw_ragged(self._task, dims, rng, times)
            if size is not None and self._affords_beyond(size, dims, cost):
                return size
        return None

    def _affords_beyond(self, size: Dims, dims: Dims, cost: float) -> bool:
        """Return whether a size can be executed and compared whole, to judge by the cost at `dims`,
        which was afforded."""
        terms = float(evaluate(self._task.tolerance.terms, size))
        expected = cost * _times_the_work(self._task, size, dims)
        affordable = max(MOST_BEYOND, MOST_BESIDE * cost)
        return terms <= MOST_TERMS and expected <= affordable and self._affords_reference(size)

    async def _check(self, case: Case) -> CheckedCase | Verdict:
        """Execute a call whole in a fresh runner, and compare its outputs; once more where the call
        is not done in time, as other work on the machine may have held it up."""
        oracle = reference_oracle(self._task, self._site.arrays)
        for _ in range(2):
            rng = generator(self._nonce, self._task.name, "compared", 0)
            async with self._site.open(self._compiled) as session:
                if not isinstance(session, Session):
                    return session
                found = await check_case(self._task, session, case, oracle, rng)
            if not isinstance(found, TimedOut):
                break
        return found

    async def _model(self, dims: Dims, sample: int) -> CallReport | Verdict | None:
        """Return the call at a size, executed in part or whole; None where neither ends in time."""
        nonce = self._nonce if sample else self._timed_nonce
        if not self._ends[Level.SAMPLE]:
            return None
        # What a size launches need not be what another does: each is tried.
        outcome = await self._call(dims, Level.SAMPLE, nonce, sample)
        if isinstance(outcome, TimedOut):
            self._ends[Level.SAMPLE] = False
            return None
        if not isinstance(outcome, DependentLaunch):
            return outcome
        self.dependent = outcome
        if not self._ends[Level.ACCOUNT]:
            return None
        whole = await self._call_whole(dims)
        self._ends[Level.ACCOUNT] = whole is not None
        return whole

    async def _call_whole(self, dims: Dims) -> CallReport | Verdict | None:
        """Return the call at a size, all blocks executed; None where it does not end in time."""
        if sum(spec.nbytes for spec in buffer_specs(self._task, dims)) > WHOLE_BYTES:
            return None
        whole = await self._call(dims, Level.ACCOUNT, self._timed_nonce)
        assert not isinstance(whole, DependentLaunch), "only samples depend on what they leave out"
        return None if isinstance(whole, TimedOut) else whole

    async def call_smaller(self, dims: Dims) -> tuple[_Executed, ...] | Verdict:
        """Return calls at smaller sizes of the shape of a size that was not executed, the largest
        last: one of no more work than was verified, and the largest that is then affordable. Their
        outputs are compared, as a time may come from no others. Empty where the task allows no such
        size, or none ends in time."""
        smaller = list(halvings(self._task, dims))
        verified = max((self.work(one) for one, _ in self._verified), default=0.0)
        small = next((one for one in smaller if self.work(one) <= verified), None)
        if small is None:
            return ()
        first = await self._call_compared(small)
        if not isinstance(first, CallReport):
            return () if first is None or _is_uncounted(first) else first
        found = _Executed(dims=small, report=first)
        executed = max(instructions_of(first), 1.0)

        def is_affordable(size: Dims) -> bool:
            times = _times_the_work(self._task, size, small)
            return executed * times <= MOST_INSTRUCTIONS and self._affords_reference(size)

        larger = next((one for one in smaller if is_affordable(one)), small)
        if larger == small:
            return (found,)
        second = await self._call_compared(larger)
        if not isinstance(second, CallReport):
            return (found,) if second is None or _is_uncounted(second) else second
        return found, _Executed(dims=larger, report=second)

    async def _call_compared(self, dims: Dims) -> CallReport | Verdict | None:
        """Return the call at a size whose outputs are compared where kernels are judged; None where
        one of both does not end in time."""
        report = await self._call_whole(dims)
        if not isinstance(report, CallReport) or not self._compares:
            return report
        if not self._affords_reference(dims):
            return None
        found = await self._check(side_by_side_case(self._task, dims, "bench"))
        if isinstance(found, TimedOut):
            return None
        return report if isinstance(found, CheckedCase) else found

    async def _call(
        self,
        dims: Dims,
        level: Level,
        nonce: bytes,
        sample: int = 0,
        *,
        sample_cost: int = SAMPLE_COST,
    ) -> CallReport | DependentLaunch | Verdict:
        async with self._site.open(self._compiled) as session:
            if not isinstance(session, Session):
                return session
            assert isinstance(session, SamplingSession)
            call = place_unfilled(
                self._task, session, dims, nonce=nonce, level=level, sample=sample
            )
            outcome = await make_unfilled(call, sample_cost=sample_cost)
            looks = self._compares and level is Level.SAMPLE and sample == 0
            if not looks or not isinstance(outcome, CallReport) or self._reference is None:
                return outcome
            if self._affords_whole(dims, outcome):
                return outcome
            found = compare_sampled(call, self._reference, call.case.schedule_seed)
            if not isinstance(found, Compared):
                return found
            self._in_part[tuple(dims.items())] = found
            return outcome

    def _affords_whole(self, dims: Dims, report: CallReport) -> bool:
        is_counted = instructions_of(report) > 0
        is_cheap = self._cost(dims, report) <= MOST_COMPARED
        return is_counted and is_cheap and self._affords_reference(dims)

    def _cost(self, dims: Dims, report: CallReport) -> float:
        """Return the instructions of warps that take as long to emulate as executing a call whole
        and comparing its outputs."""
        values = sum(math.prod(spec.shape) for spec in buffer_specs(self._task, dims))
        return instructions_of(report) + VALUE_COST * values

    def _affords_reference(self, dims: Dims) -> bool:
        reference = self._reference
        return reference is not None and affords_on_host(self._task, dims, reference)


async def call_unfilled(
    task: Task,
    session: SamplingSession,
    dims: Dims,
    *,
    nonce: bytes,
    level: Level,
    sample: int = 0,
) -> CallReport | DependentLaunch | Verdict:
    """Call `solve` once, pages of large inputs filled when they are touched; outputs are not
    verified."""
    call = place_unfilled(task, session, dims, nonce=nonce, level=level, sample=sample)
    return await make_unfilled(call)


def place_unfilled(
    task: Task,
    session: SamplingSession,
    dims: Dims,
    *,
    nonce: bytes,
    level: Level,
    sample: int = 0,
) -> SampledCall:
    """Draw small inputs whole, and a pool of contents for each large one."""
    specs = {spec.name: spec for spec in buffer_specs(task, dims)}
    rng = generator(nonce, task.name, "sampled", sample)
    case = timed_case(task, dims, level, "bench")
    made = draw_made(task, case.distributions, dims, rng)
    drawn = {
        name: made[name]
        if name in made
        else draw(spelling, rng, _drawn_shape(specs[name]), specs[name].element, dims)
        for name, spelling in case.distributions.items()
    }
    small = [replace(one, shape=_drawn_shape(one)) for one in specs.values()]
    drawn |= stated_contents(task, small, dims)
    # What inputs.py makes is right only as a whole: offsets that repeat are none.
    is_part = {name: specs[name].nbytes > POOL_BYTES and name not in made for name in drawn}
    pools = {name: values.tobytes() for name, values in drawn.items() if is_part[name]}
    placed = session.place_unfilled(tuple(specs.values()), pools)
    whole = {name: values for name, values in drawn.items() if not is_part[name]}
    for name, values in whole.items():
        placed[name].data[...] = values
    # Who knew which blocks are executed could work in those alone.
    seed = int(rng.integers(2, 1 << 32)) if level is Level.SAMPLE else 0
    return SampledCall(
        task=task,
        case=replace(case, schedule_seed=seed),
        session=session,
        placed=placed,
        drawn=whole,
    )


async def make_unfilled(
    call: SampledCall, *, sample_cost: int = SAMPLE_COST
) -> CallReport | DependentLaunch | Verdict:
    """Call `solve` once on what was placed."""
    case = call.case
    options = call_options(call.task, case.dims, level=case.level, schedule_seed=case.schedule_seed)
    limited = replace(
        options,
        limit_s=LIMIT_S,
        most_back_edges=MOST_BACK_EDGES[case.level],
        sample_cost=sample_cost,
    )
    return await call.session.sample(call_arguments(call.task, case.dims), limited)


def _drawn_shape(spec: BufferSpec) -> tuple[int, ...]:
    if spec.nbytes <= POOL_BYTES:
        return spec.shape
    return (POOL_BYTES // np.dtype(spec.dtype).itemsize,)


def instructions_of(report: CallReport) -> float:
    """Return the instructions of warps that take as long to emulate as the call."""
    return sum(
        one.figures.get("warp_instructions", 0.0)
        + one.figures.get("tensor_operations", 0.0) / TENSOR_OPERATIONS
        for one in report.launches
    )


def find_unstored(task: Task, dims: Dims, report: CallReport) -> Quarantined | None:
    """Return a Quarantined where a kernel was seen to store too few of its outputs' bytes."""
    least = LEAST_STORED * bytes_written(task, dims)
    if report.stored_bytes is None or report.stored_bytes >= least:
        return None
    left_out = LeftOut(dims=dict(dims), counted=float(report.stored_bytes), least=least)
    return Quarantined(kind="unseen-stores", left_out=left_out)


def find_less_work(
    task: Task,
    dims: Dims,
    report: CallReport,
    proved: Sequence[tuple[Dims, Mapping[str, float]]],
) -> Quarantined | None:
    """Return a Quarantined where a kernel computes less at `dims`, whose outputs nobody compared,
    than at the sizes of `proved`, whose operations are given; None where it does not, or where the
    task's operations are those of whole numbers, which are not counted."""
    wanted = float(evaluate(task.roofline.flops, dims))
    shares = [
        (floating_operations(counted) / flops, beside)
        for beside, counted in proved
        if counted and (flops := float(evaluate(task.roofline.flops, beside)))
    ]
    if report.operations is None or not wanted or not shares:
        return None
    share, beside = min(shares, key=lambda one: one[0])
    if share < LEAST_FLOATING and _takes_whole_numbers(task):
        return None
    # Small sizes need more besides the work itself; of that, the task's own work suffices.
    least = LEAST_OPERATIONS * min(1.0, share) * wanted
    counted = floating_operations(report.operations)
    if counted >= least:
        return None
    left_out = LeftOut(dims=dict(dims), counted=counted, least=least, beside=dict(beside))
    return Quarantined(kind="less-work", left_out=left_out)


def _averaged(reports: Sequence[CallReport]) -> CallReport:
    """Return the last report, with the means of stored bytes and operations of all reports."""
    stored = [one.stored_bytes for one in reports if one.stored_bytes is not None]
    counted = [one.operations for one in reports if one.operations is not None]
    kinds = {kind for one in counted for kind in one}
    return replace(
        reports[-1],
        stored_bytes=round(fmean(stored)) if stored else None,
        operations={kind: fmean(one.get(kind, 0.0) for one in counted) for kind in kinds}
        if counted
        else None,
    )


def _is_uncounted(outcome: object) -> bool:
    return isinstance(outcome, Quarantined) and outcome.kind == "uncounted-launches"


def _is_sampled(report: CallReport) -> bool:
    return any(one.figures.get("sampled_blocks") for one in report.launches)


def _spread(report: CallReport | None) -> float:
    if report is None or not report.time_us:
        return 0.0
    wide_us = sum(one.time_us * one.figures.get("sample_spread", 0.0) for one in report.launches)
    return wide_us / report.time_us


def _blocks_note(report: CallReport) -> str:
    """Return how many blocks stand for how many, of the launch that takes longest; or nothing."""
    sampled = [one for one in report.launches if one.figures.get("sampled_blocks")]
    if not sampled:
        return ""
    longest = max(sampled, key=lambda one: one.time_us)
    executed = longest.figures["sampled_blocks"]
    return f"from {executed:,.0f} of {math.prod(longest.grid):,} blocks"
