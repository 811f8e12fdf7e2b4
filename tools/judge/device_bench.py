"""The bench that ships: the steps of the judge on one device, with slots and retries."""

import asyncio
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cuda_llm.log import Log
from cuda_llm.outcomes import InfraFailed, PublishedCheck, Verdict
from cuda_llm.tasks.task import Task
from cuda_llm.tools.cuda.inspect import Inspection, InspectionOptions
from cuda_llm.tools.device import Device
from cuda_llm.tools.device.candidate import Baseline, Compiled
from cuda_llm.tools.emulator.device import EmulatedDevice
from cuda_llm.tools.judge.bench import Inspected
from cuda_llm.tools.judge.bench_slots import BenchSlots, open_slots
from cuda_llm.tools.judge.duel import Contest, ContestOrder, Duel, contest
from cuda_llm.tools.judge.emulated_check import (
    REPLAY_LIMIT_S,
    EmulatedCheck,
    check_on_emulated,
    replay_case,
)
from cuda_llm.tools.judge.inspection import inspect_on_gpu, inspected_or_not, join_inspections
from cuda_llm.tools.judge.judge import StepRetry, StepTry
from cuda_llm.tools.judge.published_check import known_answer, make_published_check, needs_a_call
from cuda_llm.tools.judge.steps import (
    assemble_passed,
    compile_baseline,
    compile_source,
    time_baseline,
    time_calls_there,
    validate_there,
)
from cuda_llm.tools.timing.failures import FailedCase, find_impossible_model
from cuda_llm.tools.timing.measure import measure_candidate
from cuda_llm.tools.timing.options import MeasureOptions, Tier
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.tools.validator.call_plans import begins_small
from cuda_llm.tools.validator.validate import Validated

_log = Log(__name__)

FEWEST_CORES = 4  # For a check on the emulated device beside a contest, which keeps two busy.

INCUMBENT_INSPECTION = InspectionOptions(counters=False)
"""Sanitizers and the machine code; counters are for people, who ask for them."""


def open_bench(
    task: Task, device: Device, *, seed: int | None = None, options: MeasureOptions | None = None
) -> "DeviceBench":
    """Return a bench with slots of its own, for one event loop."""
    return DeviceBench(
        task=task,
        device=device,
        slots=open_slots(device),
        seed=seed,
        options=options or MeasureOptions(),
    )


@dataclass(frozen=True, kw_only=True)
class DeviceBench:
    """Compiles, validates and profiles candidates of one task on one device.

    With a seed, the inputs of a candidate follow from it and from its source: the same run again
    draws the same inputs. Without one they are new each time. No candidate sees the seed.
    """

    task: Task
    device: Device
    slots: BenchSlots
    seed: int | None = None
    options: MeasureOptions = field(default_factory=MeasureOptions)
    """How the candidates of a round are measured on a device that measures."""
    retry: StepRetry = field(default_factory=StepRetry)
    """The only retry policy: nothing that a step calls repeats work."""
    replay_limit_s: float = REPLAY_LIMIT_S
    """For the emulated device to find the place of a fault that a GPU gave an error code for."""
    proved: set[str] = field(default_factory=set)  # Keys of kernels a contest has looked at.
    checks: dict[str, asyncio.Task[EmulatedCheck]] = field(default_factory=dict)
    """By key of the kernel: its check on the emulated device, begun before it is asked for."""
    built: list[Baseline] = field(default_factory=list)  # The task's baseline, once it is.

    async def time_baseline(self) -> KernelTimes:
        """See `Bench.time_baseline`."""

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

        async def step(_trial: StepTry) -> Validated | Verdict | FailedCase:
            async with self.slots.device_for(compiled.key) as keep:
                baseline = await self._build_baseline()
                found = await validate_compiled(
                    self.task, self.device, compiled, nonce=nonce, baseline=baseline
                )
                if isinstance(found, Validated) and self.device.capabilities.duels:
                    keep()
                return found

        outcome = await self.retry.settle("referee", step)
        if isinstance(outcome, FailedCase):
            return await self._locate_fault(compiled, outcome)
        return outcome

    async def profile(
        self, compiled: Compiled, validated: Validated, baseline: KernelTimes
    ) -> Verdict:
        """See `Bench.profile`."""
        nonce = self.nonce_for("")

        async def step(trial: StepTry) -> KernelTimes | Verdict | FailedCase:
            async with self.slots.device_for(compiled.key):
                return await time_compiled(
                    self.task,
                    self.device,
                    compiled,
                    nonce=nonce,
                    options=replace(self.options, proved=compiled.key in self.proved),
                    fresh=trial.fresh,
                    begins_small=not begins_small(validated.nonce),
                    baseline=await self._build_baseline(),
                )

        timing = await self.retry.settle("profiler", step)
        if isinstance(timing, KernelTimes):
            return assemble_passed(self.task, self.device, compiled, validated, timing, baseline)
        if isinstance(timing, FailedCase):
            return await self._locate_fault(compiled, timing)
        return timing

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
                    make_published_check, self.task, compiled, baseline
                )

        found = await self.retry.settle("referee", step)
        return None if isinstance(found, InfraFailed) else found

    async def contest(
        self, contenders: Sequence[Compiled], incumbent: Compiled
    ) -> Contest | InfraFailed:
        """See `DuelBench.contest`; all tries together take as long as the retry policy allows.

        Meanwhile the first contender, the likeliest winner, is checked on the emulated device.
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

    async def inspect(self, compiled: Compiled) -> Inspected:
        """See `DuelBench.inspect`: the GPU's tools, large sizes, and the emulated device."""

        found = await join_inspections(
            inspected_or_not(lambda: self._inspect_on_gpu(compiled), self.retry),
            self._begin_check(compiled),
        )
        return Inspected(
            fault=found.fault,
            notes=found.notes,
            not_inspected=found.not_inspected,
            artefacts=found.artefacts,
        )

    async def _inspect_on_gpu(self, compiled: Compiled) -> Inspection:
        device, smallest = self.device.pinned(), self.task.sizes.edge[0]
        async with self.slots.devices:
            return await inspect_on_gpu(self.task, device, compiled, smallest, INCUMBENT_INSPECTION)

    def _begin_check(self, compiled: Compiled) -> "asyncio.Task[EmulatedCheck]":
        """Return the check on the emulated device, begun now or before."""
        begun = self.checks.get(compiled.key)
        if begun is None or begun.cancelled():
            begun = asyncio.create_task(self._check_on_emulated(compiled))
            self.checks[compiled.key] = begun
        return begun

    async def _check_on_emulated(self, compiled: Compiled) -> EmulatedCheck:
        """Check on the emulated device, on a core."""
        nonce = self.nonce_for(compiled.source)
        async with self.slots.cores:
            return await check_on_emulated(self.task, self.device, compiled, nonce=nonce)

    async def _locate_fault(self, compiled: Compiled, failed: FailedCase) -> Verdict:
        """Return the verdict with the place that the emulated device finds, on a core."""
        emulated = EmulatedDevice(self.device.hardware)
        async with self.slots.cores:
            return await replay_case(self.task, emulated, compiled, failed, self.replay_limit_s)

    async def _build_baseline(self) -> Baseline:
        """Return the task's baseline, compiled once: its files stay while this process lives."""
        if not self.built:
            self.built.append(await compile_baseline(self.task, self.device.target))
        return self.built[0]

    def with_fresh_inputs(self) -> "DeviceBench":
        """See `Bench.with_fresh_inputs`; measures at the confirming tier."""
        return replace(self, seed=None, options=replace(self.options, tier=Tier.CONFIRM))

    def nonce_for(self, about: str) -> bytes | None:
        """Return the nonce of inputs; empty `about` for those that all candidates share."""
        if self.seed is None:
            return None
        parts = f"{self.seed}/{self.task.name}/{about}".encode(errors="surrogatepass")
        return hashlib.blake2b(parts, digest_size=16).digest()


async def validate_compiled(
    task: Task,
    device: Device,
    compiled: Compiled,
    *,
    nonce: bytes | None = None,
    baseline: Baseline | None = None,
) -> Validated | Verdict | FailedCase:
    """Compare every element of every case with the reference, once and without another try.

    The inputs follow from `nonce`, fresh ones from none; `baseline` is the task's, if built. A
    FailedCase where a GPU says no more than an error code. Raises TaskError: a broken reference.
    """
    baseline = baseline or await compile_baseline(task, device.target)
    with _log.timed("validated", file=compiled.name):
        return await device.carry_out(validate_there, task, compiled, baseline, nonce)


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
    """Time every size, outputs verified, and find what limits the kernel; once, as above.

    Where kernels duel, the inputs are new whatever the nonce, and the task's baseline is timed
    beside the kernel as `options` say: with `fresh`, in a new process too. A small case comes first
    if it `begins_small`.
    """
    baseline = baseline or await compile_baseline(task, device.target)
    with _log.timed("profiled", file=compiled.name):
        if device.capabilities.duels:
            measured = options or MeasureOptions()
            return await device.carry_out(
                measure_candidate,
                task,
                compiled,
                baseline,
                measured,
                fresh=fresh,
                begins_small=begins_small,
            )
        timing = await device.carry_out(
            time_calls_there, task, compiled, baseline, nonce, begins_small=begins_small
        )
    if not isinstance(timing, KernelTimes):
        return timing
    impossible = find_impossible_model(task, device.hardware, timing.times, timing.counted_calls())
    return impossible or timing
