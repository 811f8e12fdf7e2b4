"""The steps between a source file and its verdict, and those of the task's baseline.

Each opens a fresh runner of its own: nothing that a candidate leaves behind in one step reaches the
next, and a step can be repeated, or made days later, without the others. Functions that end in
`_there` run where the device is: for a GPU in the process that holds it.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cuda_llm.outcomes import Passed, Verdict
from cuda_llm.profile import Profile
from cuda_llm.source_file import numbers_in
from cuda_llm.tasks.reference import Dims
from cuda_llm.tasks.task import Task
from cuda_llm.tools.compiler.baseline import build_baseline
from cuda_llm.tools.compiler.compile import compile_candidate, compile_request
from cuda_llm.tools.device import CompilingDevice, Device, Session, Site
from cuda_llm.tools.device.candidate import Baseline, Compiled, LibraryCall
from cuda_llm.tools.judge.modelled_times import model_sizes
from cuda_llm.tools.timing.baseline_time import read_times, times_file, write_times
from cuda_llm.tools.timing.failures import FailedCase, baseline_refused, find_failed_case
from cuda_llm.tools.timing.measure import measure_baseline
from cuda_llm.tools.timing.measurement import open_oracle
from cuda_llm.tools.timing.options import MeasureOptions
from cuda_llm.tools.timing.times import KernelTimes, compare_with_baseline, score_of, time_sizes
from cuda_llm.tools.validator.cases import Case, case_generator, fresh_nonce
from cuda_llm.tools.validator.oracle import Inputs, Oracle
from cuda_llm.tools.validator.validate import Validated, validate
from cuda_llm.verdict_wording import phrase


async def validate_there(
    site: Site, task: Task, compiled: Compiled, baseline: Baseline, nonce: bytes | None
) -> Validated | Verdict | FailedCase:
    """Compare every element of every case with the reference.

    Raises TaskError where the reference is broken.
    """
    secret, begun = fresh_nonce() if nonce is None else nonce, []
    called_on: deque[Inputs] = deque(maxlen=1)

    def note(case: Case, number: int, _total: int) -> None:
        begun.append((case, number))

    async with open_candidate(site, task, compiled, baseline) as (session, oracle):
        if not isinstance(session, Session):
            return session
        outcome = await validate(
            task,
            session,
            oracle=oracle,
            nonce=secret,
            arrays=site.arrays,
            numbers=numbers_in(compiled.source),
            on_case=note,
            on_inputs=called_on.append,
        )
    if isinstance(outcome, Validated) or not begun:
        return outcome
    case, number = begun[-1]
    rng = case_generator(secret, task, number, site.arrays)
    return find_failed_case(site, task, outcome, case, rng, *called_on)


async def time_calls_there(
    site: Site,
    task: Task,
    compiled: Baseline,
    baseline: Baseline,
    nonce: bytes | None,
    *,
    begins_small: bool = True,
) -> KernelTimes | Verdict:
    """Time every size as the report of each call tells it, outputs verified.

    A candidate, but not the baseline itself, is called there on other inputs, too: first at a small
    size if it `begins_small`. Where the site samples, sizes that are too large to be executed whole
    come after that, their outputs unverified.
    """
    samples = site.capabilities.samples
    async with open_candidate(site, task, compiled, baseline) as (session, oracle):
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
    return await model_sizes(task, site, compiled, times)


@asynccontextmanager
async def open_candidate(
    site: Site, task: Task, compiled: Baseline, baseline: Baseline
) -> AsyncIterator[tuple[Session | Verdict, Oracle]]:
    """Open the candidate in a fresh runner, and the oracle to compare it with."""
    async with open_oracle(task, site, baseline) as oracle, site.open(compiled) as session:
        yield session, oracle


BASELINE_FORMAT = 3
BASELINE_NONCE = b"baseline"
"""Nonce of the timed inputs: always the same, because where a kernel's time depends on them, every
speed-up would depend on when its baseline was timed. Secret inputs are for candidates alone."""


async def compile_baseline(task: Task, target: str) -> Baseline:
    """Compile the task's baseline for `target`. Raises TaskError where it is refused."""
    built = await build_baseline(task, target)
    if not isinstance(built, Compiled | LibraryCall):
        raise baseline_refused(task, built)
    return built


async def time_baseline(
    task: Task, device: Device, options: MeasureOptions | None = None
) -> KernelTimes:
    """Time the task's baseline, once for each content, device and model.

    Where kernels duel, its times are cached where the device is; speed-ups come from the baseline
    that is timed beside each candidate. Raises TaskError where the baseline is refused: then no
    kernel of the task can be judged.
    """
    async with opening(device):
        compiled = await compile_baseline(task, device.target)
    if device.capabilities.duels:
        options = options or MeasureOptions()
        return await device.carry_out(measure_baseline, task, compiled, options)
    cache_file = times_file(*baseline_cache_parts(task, device, compiled))
    # A time measured on another day, beside other work, is no denominator.
    modelled = not device.capabilities.measures_time
    sizes = task.sizes.bench if device.capabilities.bench_sizes else task.sizes.emulated
    times_us = read_times(cache_file, len(sizes)) if modelled else None
    if times_us is not None:
        return without_profile(tuple(zip(sizes, times_us, strict=True)))
    timing = await device.carry_out(time_calls_there, task, compiled, compiled, BASELINE_NONCE)
    if not isinstance(timing, KernelTimes):
        raise baseline_refused(task, timing)
    if modelled:
        write_times(cache_file, [time_us for _, time_us in timing.times])
    return without_profile(timing.times)


@asynccontextmanager
async def opening(device: Device) -> AsyncIterator[None]:
    """Have a device that measures opened meanwhile; who works on it next is told why it cannot be.

    The process that holds a GPU takes about as long to begin as nvcc takes.
    """
    works = [device.carry_out(do_no_work)] if device.capabilities.duels else []
    begun = [asyncio.ensure_future(one) for one in works]
    try:
        yield
    finally:
        await asyncio.gather(*begun, return_exceptions=True)


async def do_no_work(_site: Site) -> None:
    """Have the device opened."""


def without_profile(times: tuple[tuple[Dims, float], ...]) -> KernelTimes:
    """Return the times alone: what limits a baseline is not asked."""
    return KernelTimes(times=times, launches=(), bottlenecks=())


def baseline_cache_parts(task: Task, device: Device, compiled: Baseline) -> tuple[object, ...]:
    """Return everything that a baseline's modelled time depends on."""
    task_parts = (task.sizes, task.arguments, task.capabilities)
    return BASELINE_FORMAT, compiled.key, device.name, device.version, repr(task_parts)


async def compile_source(task: Task, device: Device, source: str, name: str) -> Compiled | Verdict:
    """Compile with nvcc and audit. `name` is the file in spots and diagnostics.

    Raises MissingError without nvcc, g++ or a writable cache.
    """
    request = compile_request(task, device.target, source, name)
    if isinstance(device, CompilingDevice) and device.compile_slots:
        return await device.compile(request)
    return await compile_candidate(request)


def assemble_passed(
    task: Task,
    device: Device,
    compiled: Compiled,
    validated: Validated,
    timing: KernelTimes,
    baseline: KernelTimes,
) -> Passed:
    """Assemble the verdict of what was checked and what was timed."""
    sizes = compare_with_baseline(timing, baseline, device.capabilities.time_source)
    profile = Profile(
        device=timing.device or device.name,
        hardware=timing.hardware or device.hardware.name,
        source=device.capabilities.time_source,
        sizes=sizes,
        launches=timing.launches,
        bottlenecks=timing.bottlenecks,
        smaller=timing.smaller,
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
        notes=(*validated.notes, *timing.notes, *doubt, *left_out),
    )
