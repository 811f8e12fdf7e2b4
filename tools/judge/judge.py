"""The judge: from one source file to its verdict. Compile, check, time, explain.

`judge` takes one candidate through these steps. `DeviceBench` does each step on one device, in a
fresh runner: nothing that a candidate leaves behind in one step reaches the next step. `StepRetry`
is the only policy by which a step is repeated: what a step calls reports a failure and does not
repeat work. Functions whose names end in `_there` run in the process that holds the device.
"""

import asyncio
import hashlib
import math
import os
import re
import sys
import time
from collections import Counter, deque
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TypeVar

from cuda_llm.errors import (
    BrokenByWork,
    CudaLLMError,
    DeviceLost,
    InfrastructureError,
    MemberLost,
    NoMemory,
    WorkerLost,
    describe_error,
)
from cuda_llm.figure_wording import describe_dims
from cuda_llm.log import Log
from cuda_llm.outcomes import (
    ElementKind,
    InfraFailed,
    Passed,
    PublishedCheck,
    Quarantined,
    TimedOut,
    Verdict,
    WrongResult,
)
from cuda_llm.profile import Bottleneck, Profile
from cuda_llm.source_file import numbers_in, thresholds_in
from cuda_llm.tasks.reference import Dims
from cuda_llm.tasks.sizes import least_time
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Device, Session, Site, Work
from cuda_llm.tools.device.candidate import Baseline, Compiled
from cuda_llm.tools.device.device import do_no_work
from cuda_llm.tools.device.inspection import NSIGHT, CountedBy, Inspection, InspectionOptions
from cuda_llm.tools.judge.bench import SOURCE_NAME, Bench, Inspected, PublishedBench
from cuda_llm.tools.judge.bench_slots import BenchSlots, open_slots
from cuda_llm.tools.judge.compile import compile_baseline, compile_source
from cuda_llm.tools.judge.duel import Contest, ContestOrder, contest
from cuda_llm.tools.judge.emulated_counts import (
    EmulatedCounts,
    count_emulated,
    finish_counting,
)
from cuda_llm.tools.judge.inspection import inspect_on_gpu, join_check, join_inspections
from cuda_llm.tools.judge.judged import Judged
from cuda_llm.tools.judge.modelled_times import time_calls_there
from cuda_llm.tools.judge.published_check import known_answer, make_published_check, needs_a_call
from cuda_llm.tools.judge.watched_check import (
    REPLAY_LIMIT_S,
    WatchedCheck,
    check_watched,
    replay_case,
    with_not_run,
)
from cuda_llm.tools.native import build_in_thread, exclusive_turn
from cuda_llm.tools.profiler.bottlenecks import list_bottlenecks
from cuda_llm.tools.timing.baseline_time import read_times, times_file, write_times
from cuda_llm.tools.timing.contest import Duel
from cuda_llm.tools.timing.failures import (
    NOISE,
    FailedCase,
    baseline_refused,
    find_failed_case,
    find_impossible_model,
)
from cuda_llm.tools.timing.measure import measure_baseline, measure_candidate
from cuda_llm.tools.timing.measurement import open_oracle
from cuda_llm.tools.timing.options import MeasureOptions, Tier
from cuda_llm.tools.timing.times import KernelTimes, compare_with_baseline, score_of
from cuda_llm.tools.validator.call_plans import begins_small
from cuda_llm.tools.validator.cases import Case, case_generator, fresh_nonce, without_size
from cuda_llm.tools.validator.oracle import Inputs
from cuda_llm.tools.validator.validate import Validated, validate
from cuda_llm.verdict_wording import phrase

_log = Log(__name__)

T = TypeVar("T")

FEWEST_CORES = 4
"""Fewest cores for a check on `DeviceBench.watcher` beside a contest, which keeps two busy."""
IN_BATCHES = "no sanitizer and no large size: each inspection would cost a batch of its own"
NO_WATCHER = "no device that watches every access was given"

MOST_LEFT_OUT = 3
"""Most sizes that a validation leaves out because an emulated device does not finish in time."""
BASELINE_FORMAT = 4
BASELINE_NONCE = b"baseline"
"""Nonce of the inputs on which a baseline is timed: always the same, because where the time depends
on inputs, every speed-up would depend on when its baseline was timed. Candidates have secret
inputs."""

OnStage = Callable[[str, str], None]
"""Called with a candidate's name and the stage it enters: `compile`, `validate`, `time`."""


def ignore_stage(_name: str, _stage: str) -> None:
    """Do nothing: the `OnStage` of callers who show no progress."""


async def judge(
    bench: Bench,
    source: str,
    name: str = SOURCE_NAME,
    *,
    baseline: KernelTimes | Awaitable[KernelTimes],
    on_stage: OnStage = ignore_stage,
) -> Judged:
    """Judge one source file, which spots and diagnostics call `name`.

    A bad kernel is a verdict, and so is machinery that stays broken under it; see `Bench` for what
    raises. A `baseline` that is being timed is awaited only when it is needed, so that the baseline
    and the first candidates are worked on at the same time.
    """
    seconds: dict[str, float] = {}
    compiled, outcome = await check(bench, source, name, seconds=seconds, on_stage=on_stage)
    if compiled is not None and isinstance(outcome, Validated):
        with timed_stage(name, "time", seconds, on_stage):
            baseline_times = baseline if isinstance(baseline, KernelTimes) else await baseline
            outcome = require_positive_figures(
                await bench.profile(compiled, outcome, baseline_times)
            )
    assert not isinstance(outcome, Validated), "what is validated has been compiled"
    published = None
    if compiled is not None and isinstance(bench, PublishedBench):
        published = await bench.check_as_published(compiled, outcome)
    return Judged(
        name=name, verdict=outcome, compiled=compiled, seconds=seconds, published=published
    )


async def check(
    bench: Bench,
    source: str,
    name: str = SOURCE_NAME,
    *,
    seconds: MutableMapping[str, float] | None = None,
    on_stage: OnStage = ignore_stage,
) -> tuple[Compiled | None, Validated | Verdict]:
    """Compile and validate one source: return what it was compiled to, if it was, and the outcome.

    Writes the wall time of each stage into `seconds`.
    """
    noted = {} if seconds is None else seconds
    with timed_stage(name, "compile", noted, on_stage):
        compiled = await bench.compile(source, name)
    if not isinstance(compiled, Compiled):
        return None, compiled
    with timed_stage(name, "validate", noted, on_stage):
        return compiled, await bench.validate(compiled)


@contextmanager
def timed_stage(
    name: str, label: str, seconds: MutableMapping[str, float], on_stage: OnStage
) -> Iterator[None]:
    """Call `on_stage` as the stage begins, and write its wall time into `seconds`."""
    on_stage(name, label)
    started = time.monotonic()
    try:
        yield
    finally:
        seconds[label] = time.monotonic() - started


class RetryReason(StrEnum):
    """Why a step is worth another try. What is not listed here is not tried again."""

    BROKEN = "broken"
    """A process of ours did not start or died, or the machine lacked memory or disk for it."""
    BROKE_DEVICE = "broke-device"
    """The work broke the process that holds the device, which is fine without the work."""
    WORKER_LOST = "worker-lost"
    """The process that had the work is gone: a worker of a cluster, killed or on a machine that has
    left. Another process takes its place; a work that costs several is to blame itself."""
    MEMBER_LOST = "member-lost"
    """The device that had the work is lost, and is one of several."""
    NOISY = "noisy"
    """Other work on the machine hides what is measured."""
    QUARANTINED = "quarantined"
    """Times look like those of a cheat, or of a runner that was held up all the while: one of 210
    honest kernels looked so, beside another GPU at work. Another process of an honest kernel does
    not look so again; one of a cheat does."""


TRIES: Mapping[RetryReason, int] = MappingProxyType(
    {
        RetryReason.BROKEN: 3,
        RetryReason.BROKE_DEVICE: 2,
        RetryReason.WORKER_LOST: 3,
        RetryReason.MEMBER_LOST: sys.maxsize,  # each try leaves one device less
        RetryReason.NOISY: 3,
        RetryReason.QUARANTINED: 2,
    }
)
LOST_WITH_DEVICE = frozenset({RetryReason.WORKER_LOST, RetryReason.MEMBER_LOST})
"""Reasons that say nothing of the work: process or device was gone before the work was done."""


@dataclass(frozen=True, kw_only=True)
class StepTry:
    """One try of a step."""

    number: int
    """From 1. From the second on a step uses no process that an earlier one has used."""
    left_s: float
    """Seconds until all tries of the step have to be done."""

    @property
    def fresh(self) -> bool:
        """Whether every runner has to be a new one, the baseline's too."""
        return self.number > 1


@dataclass(frozen=True, kw_only=True)
class StepRetry:
    """The only retry policy between a source and its verdict. Times are the event loop's."""

    tries: Mapping[RetryReason, int] = field(default_factory=lambda: TRIES)
    """Most tries, the first one included, by the reason of the last."""
    limit_s: float = 60.0
    """Seconds for all tries of a step: no try is begun that would end later if it takes as long as
    the longest before it."""
    first_wait_s: float = 0.2
    """Seconds before the second try; doubled for each further try that is not lost with its
    device."""

    async def run(self, step: Callable[[StepTry], Awaitable[T]]) -> T:
        """Return what the last try of `step` returns, or raise what the last try raises.

        A try that is lost with its device counts among such tries alone: it says nothing of the
        work, and the time until the loss is noticed is no part of `limit_s`.
        """
        now_s = asyncio.get_running_loop().time
        began_s, longest_s = now_s(), 0.0
        finished, lost = 0, Counter[RetryReason]()
        while True:
            number, at_s = finished + lost.total() + 1, now_s()
            raised: InfrastructureError | None = None
            try:
                outcome = await step(StepTry(number=number, left_s=began_s + self.limit_s - at_s))
            except InfrastructureError as error:
                raised = error
            reason = reason_of(raised or outcome)
            if reason in LOST_WITH_DEVICE:
                lost[reason] += 1
                began_s += now_s() - at_s
            else:
                finished += 1
                longest_s = max(longest_s, now_s() - at_s)
            made = lost[reason] if reason in LOST_WITH_DEVICE else finished
            is_out_of_time = now_s() - began_s + longest_s > self.limit_s
            if reason is None or made >= self.tries.get(reason, 1) or is_out_of_time:
                if raised is not None:
                    raise raised
                return outcome
            wait_s = self.first_wait_s * 2 ** max(0, finished - 1)
            _log.info("a step is tried again", number=number, reason=reason, wait_s=wait_s)
            await asyncio.sleep(wait_s)

    async def settle(
        self, component: str, step: Callable[[StepTry], Awaitable[T]]
    ) -> T | InfraFailed:
        """Run `step`, and return machinery that stays broken as an InfraFailed of `component`.

        Raises what would end every other candidate too: MissingError, TaskError, DeviceLost; and
        bugs.
        """
        try:
            return await self.run(step)
        except DeviceLost:
            raise
        except (BrokenByWork, WorkerLost) as error:
            return InfraFailed(component=error.component, detail=describe_error(error))
        except InfrastructureError as error:
            return InfraFailed(
                component=component,
                detail=describe_error(error),
                lacked_memory=isinstance(error, NoMemory),
            )


def reason_of(outcome: object) -> RetryReason | None:
    """Return why what a step returned or raised is worth another try; None where it is not."""
    match outcome:
        case DeviceLost():
            return None
        case BrokenByWork():
            return RetryReason.BROKE_DEVICE
        case WorkerLost():
            return RetryReason.WORKER_LOST
        case MemberLost():
            return RetryReason.MEMBER_LOST
        case InfrastructureError():
            return RetryReason.BROKEN
        case InfraFailed(component=component):
            return RetryReason.NOISY if component == NOISE else RetryReason.BROKEN
        case Quarantined():
            return RetryReason.QUARANTINED
    faults = getattr(outcome, "faults", {}).values()
    return next((reason for reason in map(reason_of, faults) if reason is not None), None)


def open_bench(
    task: Task,
    device: Device,
    *,
    watcher: Device | None = None,
    seed: int | None = None,
    options: MeasureOptions | None = None,
    slots: BenchSlots | None = None,
) -> "DeviceBench":
    """Return a bench for one event loop, with slots of its own where none are given: benches of one
    device share them."""
    return DeviceBench(
        task=task,
        device=device,
        watcher=watcher,
        slots=slots or open_slots(device),
        seed=seed,
        options=options or MeasureOptions(),
    )


@dataclass(frozen=True, kw_only=True)
class DeviceBench:
    """Compiles, validates and profiles candidates of one task on one device.

    With a seed, the inputs of a candidate follow from the seed and from the candidate's source: the
    same run again draws the same inputs. Without a seed inputs are new each time. No candidate sees
    the seed.
    """

    task: Task
    device: Device
    slots: BenchSlots
    seed: int | None = None
    options: MeasureOptions = field(default_factory=MeasureOptions)
    """How the candidates of a round are measured on a device that measures."""
    retry: StepRetry = field(default_factory=StepRetry)
    watcher: Device | None = None
    """Executes a kernel with every access watched, where `device` cannot: to find races, and the
    place of a fault that a GPU gave an error code for. None where `device` watches every access."""
    replay_limit_s: float = REPLAY_LIMIT_S
    """Longest seconds in which `watcher` finds the place of a fault."""
    proved: set[str] = field(default_factory=set)
    """Keys of kernels whose outputs a contest has verified."""
    checks: dict[str, asyncio.Task[WatchedCheck]] = field(default_factory=dict)
    """By key of the kernel: its check on `watcher`, begun before the check is asked for."""
    timings: dict[str, "asyncio.Task[KernelTimes | Verdict | FailedCase]"] = field(
        default_factory=dict
    )
    """By key of the kernel: its timing on a device that works in batches, begun with its
    validation."""
    counted_by: set[CountedBy] = field(default_factory=set)
    """What of the GPU has counted a kernel: whether that works shows when it is tried."""
    built: list[Baseline] = field(default_factory=list)
    """The task's baseline, once it is compiled."""
    building: list[asyncio.Task[None]] = field(default_factory=list)
    """The build of the native parts of `watcher`, once the baseline is timed."""

    async def time_baseline(self) -> KernelTimes:
        """See `Bench.time_baseline`.

        Meanwhile the native parts of `watcher` are built, which takes seconds on a machine that has
        none yet, and which the first inspection would wait for.
        """
        if self.watcher is not None and len(os.sched_getaffinity(0)) >= FEWEST_CORES:
            self.building.append(asyncio.create_task(build_ahead(self.watcher)))

        async def step(_trial: StepTry) -> KernelTimes:
            async with self.slots.devices:
                return await time_baseline(self.task, self.device.pinned(), self.options)

        return await self.retry.run(step)

    async def compile(self, source: str, name: str) -> Compiled | Verdict:
        """See `Bench.compile`."""

        async def step(_trial: StepTry) -> Compiled | Verdict:
            async with self.slots.compilers:
                return await compile_source(self.task, self.device, source, name)

        return await self.retry.settle("compiler", step)

    async def validate(self, compiled: Compiled) -> Validated | Verdict:
        """See `Bench.validate`."""
        nonce = self.nonce_for(compiled.source)
        if self.device.capabilities.batched:
            begins = nonce is None or not begins_small(nonce)
            self.timings[compiled.key] = asyncio.create_task(self._time(compiled, begins))

        async def step(_trial: StepTry) -> Validated | Verdict | FailedCase:
            async with self.slots.device_for(compiled.key) as keep:
                baseline = await self._build_baseline()
                found = await validate_compiled(
                    self.task, self.device, compiled, nonce=nonce, baseline=baseline
                )
                if isinstance(found, Validated) and self.device.capabilities.duels:
                    keep()
                return found

        outcome: Validated | Verdict | FailedCase | None = None
        try:
            outcome = await self.retry.settle("referee", step)
        finally:
            if not isinstance(outcome, Validated) and compiled.key in self.timings:
                self.timings.pop(compiled.key).cancel()
        if isinstance(outcome, FailedCase):
            return await self._locate_fault(compiled, outcome)
        return outcome

    async def profile(
        self, compiled: Compiled, validated: Validated, baseline: KernelTimes
    ) -> Verdict:
        """See `Bench.profile`."""

        async def step(trial: StepTry) -> KernelTimes | Verdict | FailedCase:
            begun = self.timings.pop(compiled.key, None)
            if begun is not None:
                return await begun
            begins = not begins_small(validated.nonce)
            return await self._time(compiled, begins, fresh=trial.fresh)

        timing = await self.retry.settle("profiler", step)
        if isinstance(timing, KernelTimes):
            return assemble_passed(self.task, self.device, compiled, validated, timing, baseline)
        if isinstance(timing, FailedCase):
            return await self._locate_fault(compiled, timing)
        return timing

    async def _time(
        self, compiled: Compiled, begins: bool, *, fresh: bool = False
    ) -> KernelTimes | Verdict | FailedCase:
        """Time a kernel once; with `begins` a small case comes first.

        A device that works in batches holds no contests: what a contest would tell from noise is
        to be seen in the times themselves, which are as sure as a contest's.
        """
        quick = self.options.tier is Tier.SCREEN and self.device.capabilities.batched
        tier = Tier.CONFIRM if quick else self.options.tier
        async with self.slots.device_for(compiled.key):
            return await time_compiled(
                self.task,
                self.device,
                compiled,
                nonce=self.nonce_for(""),
                options=replace(self.options, tier=tier, proved=compiled.key in self.proved),
                fresh=fresh,
                begins_small=begins,
                baseline=await self._build_baseline(),
            )

    async def check_as_published(
        self, compiled: Compiled, verdict: Verdict
    ) -> PublishedCheck | None:
        """See `PublishedBench.check_as_published`."""
        if not needs_a_call(self.task, verdict):
            return known_answer(self.task, verdict)

        async def step(_trial: StepTry) -> PublishedCheck | None:
            baseline = await self._build_baseline()
            async with self.slots.devices:
                return await self.device.carry_out(
                    Work.of(make_published_check, self.task, compiled, baseline)
                )

        found = await self.retry.settle("referee", step)
        return None if isinstance(found, InfraFailed) else found

    async def contest(
        self, contenders: Sequence[Compiled], incumbent: Compiled
    ) -> Contest | InfraFailed:
        """See `DuelBench.contest`; all tries together take as long as the retry policy allows.

        Meanwhile the first contender, the likeliest winner, is checked on `watcher`.
        """
        if len(os.sched_getaffinity(0)) >= FEWEST_CORES:
            self._begin_check(contenders[0])
        device = self.device.pinned()
        order = ContestOrder(
            contenders=tuple(contenders),
            incumbent=incumbent,
            options=replace(self.options, tier=Tier.CONFIRM),
            nonce=self.nonce_for(""),
            prove_incumbent=incumbent.key not in self.proved,
        )

        async def step(trial: StepTry) -> Contest | InfraFailed:
            limited = replace(order, fresh=trial.fresh, limit_s=min(order.limit_s, trial.left_s))
            async with self.slots.devices:
                return await contest(self.task, device, limited)

        found = await self.retry.settle("duel", step)
        if isinstance(found, InfraFailed):
            return found
        self.proved.update(found.looked_at(order))
        pairs = [{"first": one, "second": incumbent} for one in contenders]
        located = [await one for one in map(self._locate_in_duel, found.duels, pairs)]
        return replace(found, duels=tuple(located))

    async def _locate_in_duel(
        self, found: Duel | InfraFailed, kernels: Mapping[str, Compiled]
    ) -> Duel | InfraFailed:
        if isinstance(found, InfraFailed) or found.failed is None:
            return found
        (which,) = found.faults
        located = await self._locate_fault(kernels[which], found.failed)
        return replace(found, faults={which: located}, failed=None)

    async def inspect(self, compiled: Compiled, profile: Profile) -> Inspected:
        """See `DuelBench.inspect`: the GPU's tools, large sizes, and `watcher`; `watcher` alone
        for a device that works in batches."""
        found = await self.inspect_profiled(compiled, profile, InspectionOptions())
        return Inspected(
            fault=found.fault,
            notes=found.notes,
            not_inspected=found.not_inspected,
            artefacts=found.artefacts,
            counters=found.counters,
        )

    async def inspect_profiled(
        self, compiled: Compiled, profile: Profile, options: InspectionOptions
    ) -> Inspection:
        """Inspect a kernel that passed, with counters at the largest timed size: of Nsight Compute,
        else those that `watcher` counts beside the inspection."""
        counting = asyncio.create_task(self._count_emulated(compiled, profile, options))
        dims = profile.sizes[-1].dims if profile.sizes else self.task.sizes.edge[0]
        try:
            if self.device.capabilities.batched:
                check = await self._begin_check(compiled)
                found = join_check(Inspection(not_inspected=IN_BATCHES), check)
            else:
                found = await self.inspect_at(compiled, dims, options)
            if found.counters:
                self.counted_by.add(NSIGHT)
            if found.counters or found.fault is not None:
                return found
            counts = await finish_counting(counting)
        finally:
            counting.cancel()
            await asyncio.gather(counting, return_exceptions=True)
        notes = (*found.notes, counts.note) if counts.note else found.notes
        return replace(found, counters=counts.counters, notes=notes)

    async def _count_emulated(
        self, compiled: Compiled, profile: Profile, options: InspectionOptions
    ) -> EmulatedCounts:
        """Count a kernel on `watcher`, on a core of this machine; nothing where `device` is
        emulated itself, or Nsight Compute has counted another kernel there."""
        if self.watcher is None or self.device.capabilities.sees_races:
            return EmulatedCounts()
        if not (options.counters and profile.sizes) or NSIGHT in self.counted_by:
            return EmulatedCounts()
        async with self.slots.cores:
            return await count_emulated(self.task, self.watcher, compiled, profile)

    async def inspect_at(
        self, compiled: Compiled, dims: Dims, options: InspectionOptions
    ) -> Inspection:
        """Inspect with Nvidia's tools at `dims`, at small and large sizes, and on `watcher`."""
        watched = self._begin_check(compiled)
        return await join_inspections(self._inspect_on_gpu(compiled, dims, options), watched)

    async def _inspect_on_gpu(
        self, compiled: Compiled, dims: Dims, options: InspectionOptions
    ) -> Inspection:
        """Return what was found, or why nothing was inspected: machinery stays broken."""
        device = self.device.pinned()

        async def step(_trial: StepTry) -> Inspection:
            async with self.slots.devices:
                return await inspect_on_gpu(self.task, device, compiled, dims, options)

        found = await self.retry.settle("inspection", step)
        return Inspection(not_inspected=found.detail) if isinstance(found, InfraFailed) else found

    def _begin_check(self, compiled: Compiled) -> "asyncio.Task[WatchedCheck]":
        """Return the check of a kernel on `watcher`, which is begun unless it was before."""
        begun = self.checks.get(compiled.key)
        if begun is None or begun.cancelled():
            begun = asyncio.create_task(self._check_watched(compiled))
            self.checks[compiled.key] = begun
        return begun

    async def _check_watched(self, compiled: Compiled) -> WatchedCheck:
        """Check a kernel on `watcher`, on a core of this machine, unless `device` watches every
        access."""
        if self.device.capabilities.sees_races:
            return WatchedCheck()
        if self.watcher is None:
            return WatchedCheck(notes=(f"not checked for races: {NO_WATCHER}",))
        nonce = self.nonce_for(compiled.source)
        async with self.slots.cores:
            return await check_watched(self.task, self.watcher, compiled, nonce=nonce)

    async def _locate_fault(self, compiled: Compiled, failed: FailedCase) -> Verdict:
        """Return the verdict with the place that `watcher` finds, on a core of this machine."""
        if self.watcher is None:
            return with_not_run(failed, self.replay_limit_s, NO_WATCHER)
        async with self.slots.cores:
            return await replay_case(self.task, self.watcher, compiled, failed, self.replay_limit_s)

    async def _build_baseline(self) -> Baseline:
        """Return the task's baseline, compiled once: its files stay while this process lives."""
        if not self.built:
            self.built.append(await compile_baseline(self.task, self.device.hardware.target))
        return self.built[0]

    def with_fresh_inputs(self) -> "DeviceBench":
        """See `Bench.with_fresh_inputs`; measures at the confirming tier."""
        return replace(self, seed=None, options=replace(self.options, tier=Tier.CONFIRM))

    def nonce_for(self, about: str) -> bytes | None:
        """Return the nonce of the inputs of the source `about`, or of those that all candidates
        share where `about` is empty; None without a seed."""
        if self.seed is None:
            return None
        parts = f"{self.seed}/{self.task.name}/{about}".encode(errors="surrogatepass")
        return hashlib.blake2b(parts, digest_size=16).digest()


async def build_ahead(watcher: Device) -> None:
    """Build the native parts of `watcher`; the first check reports what the machine lacks."""
    with suppress(CudaLLMError):
        await build_in_thread(watcher.prepare)


async def validate_compiled(
    task: Task,
    device: Device,
    compiled: Compiled,
    *,
    nonce: bytes | None = None,
    baseline: Baseline | None = None,
) -> Validated | Verdict | FailedCase:
    """Compare every element of every case with the reference, on the device.

    Inputs follow from `nonce`, and are new where it is None; `baseline` is the task's, where it is
    compiled. A FailedCase where a GPU gave an error code alone. Raises TaskError where the
    reference is broken.
    """
    baseline = baseline or await compile_baseline(task, device.hardware.target)
    with _log.timed("validated", file=compiled.name):
        return await device.carry_out(Work.of(validate_there, task, compiled, baseline, nonce))


async def validate_there(
    site: Site, task: Task, compiled: Compiled, baseline: Baseline, nonce: bytes | None
) -> Validated | Verdict | FailedCase:
    """Compare every element of every case with the reference, at the site.

    A size that an emulated device does not finish in time, though blocks of the kernel keep ending,
    is left out, and a note names it: a GPU takes milliseconds there. Raises TaskError where the
    reference is broken.
    """
    notes: list[str] = []
    while True:
        outcome, case = await _validate_once(site, task, compiled, baseline, nonce)
        if isinstance(outcome, Validated):
            return replace(outcome, notes=(*outcome.notes, *notes))
        smaller = None if case is None else without_size(task, case)
        is_slow = isinstance(outcome, TimedOut) and outcome.only_slow
        if not is_slow or case is None or smaller is None or len(notes) == MOST_LEFT_OUT:
            return outcome
        size = "a hidden size" if case.group == "hidden" else describe_dims(case.dims)
        notes.append(f"not compared at {size}: too slow on the emulated device")
        task = smaller


async def _validate_once(
    site: Site, task: Task, compiled: Compiled, baseline: Baseline, nonce: bytes | None
) -> tuple[Validated | Verdict | FailedCase, Case | None]:
    """Validate in one runner; return the outcome, and the case that was called last."""
    secret, begun = fresh_nonce() if nonce is None else nonce, []
    called_on: deque[Inputs] = deque(maxlen=1)

    def note(case: Case, number: int, _total: int) -> None:
        begun.append((case, number))

    async with open_oracle(task, site, baseline) as oracle, site.open(compiled) as session:
        if not isinstance(session, Session):
            return session, None
        outcome = await validate(
            task,
            session,
            oracle=oracle,
            nonce=secret,
            arrays=site.arrays,
            numbers=numbers_in(compiled.source),
            thresholds=thresholds_in(compiled.source, task.dims),
            on_case=note,
            on_inputs=called_on.append,
        )
    outcome = _without_unfounded(outcome, compiled)
    case, number = begun[-1] if begun else (None, 0)
    if isinstance(outcome, Validated) or case is None:
        return outcome, case
    rng = case_generator(secret, task, number, site.arrays)
    return find_failed_case(site, task, outcome, case, rng, *called_on), case


_SHORT_TYPES = re.compile(r"tf32|bf16|[.]f16|e4m3|e5m2|[.]b?f8")
"""What instructions in PTX name that round to less than float32."""


def _without_unfounded(outcome: Validated | Verdict, compiled: Compiled) -> Validated | Verdict:
    """Return the outcome, without a pattern of rounding to a short type where no instruction has
    one: a formula that leaves out a small term is as far off."""
    if not isinstance(outcome, WrongResult):
        return outcome
    pattern = outcome.looks_like
    if pattern is None or pattern.kind not in (
        ElementKind.ROUNDED_TO_TF32,
        ElementKind.ROUNDED_TO_BF16,
    ):
        return outcome
    has_short = _SHORT_TYPES.search(compiled.ptx.read_text(encoding="utf-8", errors="replace"))
    return outcome if has_short else replace(outcome, looks_like=None)


async def time_compiled(
    task: Task,
    device: Device,
    compiled: Compiled,
    *,
    nonce: bytes | None = None,
    options: MeasureOptions | None = None,
    fresh: bool = False,
    begins_small: bool = True,
    baseline: Baseline | None = None,
) -> KernelTimes | Verdict | FailedCase:
    """Time a kernel at every size, outputs verified, and find what limits the kernel.

    Where the device duels, inputs are new whatever the nonce, and the task's baseline is timed
    beside the kernel as `options` say, in a new process where `fresh`. With `begins_small` a small
    case comes first.
    """
    baseline = baseline or await compile_baseline(task, device.hardware.target)
    with _log.timed("profiled", file=compiled.name):
        if device.capabilities.duels:
            measured = options or MeasureOptions()
            return await device.carry_out(
                Work.of(
                    measure_candidate,
                    task,
                    compiled,
                    baseline,
                    measured,
                    fresh=fresh,
                    begins_small=begins_small,
                )
            )
        timing = await device.carry_out(
            Work.of(time_calls_there, task, compiled, baseline, nonce, begins_small=begins_small)
        )
    if not isinstance(timing, KernelTimes):
        return timing
    impossible = find_impossible_model(task, device.hardware, timing.times, timing.counted_calls())
    return impossible or timing


def assemble_passed(
    task: Task,
    device: Device,
    compiled: Compiled,
    validated: Validated,
    timing: KernelTimes,
    baseline: KernelTimes,
) -> Passed:
    """Return the verdict of a kernel that was validated and timed."""
    sizes = compare_with_baseline(timing, baseline, device.capabilities.time_source)

    def listed(found: tuple[Bottleneck, ...], dims: Dims) -> tuple[Bottleneck, ...]:
        if device.capabilities.time_source == "measured":
            return found
        return list_bottlenecks(found, least_time(task, device.hardware, dims).reachable_us)

    largest = timing.launched or (timing.times[-1][0] if timing.times else None)
    profile = Profile(
        device=timing.device or device.name,
        hardware=timing.hardware or device.hardware.name,
        source=device.capabilities.time_source,
        sizes=sizes,
        launches=timing.launches,
        bottlenecks=listed(timing.bottlenecks, largest) if largest is not None else (),
        smaller=tuple(
            replace(one, bottlenecks=listed(one.bottlenecks, timing.times[one.size][0]))
            for one in timing.smaller
        ),
        resources=compiled.kernels,
        speedup=score_of(task, sizes),
        objective=task.objective,
        checked=validated.checked,
        isolation=timing.isolation,
    )
    left_out = tuple(f"not timed: {line}" for line in timing.left_out)
    doubt = () if timing.doubt is None else (phrase(timing.doubt),)
    return Passed(
        profile=profile,
        differential=task.reference is None,
        guarded_races=validated.guarded_races,
        notes=(*validated.notes, *timing.notes, *doubt, *left_out),
    )


def require_positive_figures(verdict: Verdict) -> Verdict:
    """Return the verdict, or an InfraFailed where its times or speed-up are no numbers above zero.

    No clock gives such figures, so the judge is at fault: a kernel must not win by them.
    """
    profile = verdict.profile if isinstance(verdict, Passed) else None
    if profile is None:
        return verdict
    figures = [size.time_us for size in profile.sizes]
    figures += [] if profile.speedup is None else [profile.speedup]
    odd = next((one for one in figures if not (one > 0 and math.isfinite(one))), None)
    if odd is None:
        return verdict
    return InfraFailed(component="profiler", detail=f"measured {odd:g}, which cannot be")


async def time_baseline(
    task: Task, device: Device, options: MeasureOptions | None = None
) -> KernelTimes:
    """Time the task's baseline. Modelled times are cached by content, device and model; searches
    that begin at the same time wait for the first.

    Where the device duels, the times are cached where the device is; speed-ups come from the
    baseline that is timed beside each candidate. Raises TaskError where the baseline is refused:
    then no kernel of the task can be judged.
    """
    async with opening(device):
        compiled = await compile_baseline(task, device.hardware.target)
    if device.capabilities.duels:
        options = options or MeasureOptions()
        return await device.carry_out(Work.of(measure_baseline, task, compiled, options))
    if device.capabilities.measures_time:
        # A time measured on another day, beside other work, is no denominator.
        return without_profile((await _call_baseline(task, device, compiled)).times)
    cache_file = times_file(*baseline_cache_parts(task, device, compiled))
    sizes = task.sizes.bench if device.capabilities.bench_sizes else task.sizes.emulated
    async with exclusive_turn(cache_file, "timing"):
        times_us = read_times(cache_file, len(sizes))
        if times_us is not None:
            return without_profile(tuple(zip(sizes, times_us, strict=True)))
        timing = await _call_baseline(task, device, compiled)
        write_times(cache_file, [time_us for _, time_us in timing.times])
        return without_profile(timing.times)


async def _call_baseline(task: Task, device: Device, compiled: Baseline) -> KernelTimes:
    """Return the times of the baseline's calls. Raises TaskError where the baseline is refused."""
    work = Work.of(time_calls_there, task, compiled, compiled, BASELINE_NONCE)
    timing = await device.carry_out(work)
    if not isinstance(timing, KernelTimes):
        raise baseline_refused(task, timing)
    return timing


@asynccontextmanager
async def opening(device: Device) -> AsyncIterator[None]:
    """Have a device that measures opened while the context is open; the next work raises why it
    cannot be.

    The process that holds a GPU takes about as long to begin as nvcc takes. A device that works in
    batches is not opened: that would be a batch of its own.
    """
    able = device.capabilities
    opens = able.duels and not able.batched
    works = [device.carry_out(Work.of(do_no_work))] if opens else []
    begun = [asyncio.ensure_future(one) for one in works]
    try:
        yield
    finally:
        await asyncio.gather(*begun, return_exceptions=True)


def without_profile(times: tuple[tuple[Dims, float], ...]) -> KernelTimes:
    """Return the times of a baseline, whose launches and bottlenecks are not needed."""
    return KernelTimes(times=times, launches=(), bottlenecks=())


def baseline_cache_parts(task: Task, device: Device, compiled: Baseline) -> tuple[object, ...]:
    """Return everything that a baseline's modelled time depends on."""
    task_parts = (task.sizes, task.arguments, task.capabilities)
    return BASELINE_FORMAT, compiled.key, device.name, device.version, repr(task_parts)
