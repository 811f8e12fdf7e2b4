"""The whole way of one candidate: compile, load, validate, time."""

import time
from collections.abc import Awaitable, Iterator, MutableMapping
from contextlib import contextmanager

from cuda_llm.outcomes import Passed, Verdict
from cuda_llm.profile import Profile
from cuda_llm.tasks.task import Task
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.compiler.compile import compile_candidate
from cuda_llm.tools.compiler.request import compile_request
from cuda_llm.tools.device import Device, Session
from cuda_llm.tools.judge.floor import find_impossible
from cuda_llm.tools.judge.judged import Judged, OnStage, ignore
from cuda_llm.tools.judge.oracle import open_oracle
from cuda_llm.tools.judge.timing import Timing, compare, mean_speedup, time_sizes
from cuda_llm.tools.validator.validate import Validated, validate


async def judge(
    task: Task,
    device: Device,
    source: str,
    name: str,
    *,
    baseline: Awaitable[Timing],
    on_stage: OnStage = ignore,
) -> Judged:
    """Judge one source file. A bad kernel is a verdict; only broken machinery raises.

    `baseline` is awaited only when a candidate has been timed, so that both run side by side.
    """
    seconds: dict[str, float] = {}
    with stage(name, "compile", seconds, on_stage):
        compiled = await compile_candidate(compile_request(task, device.target, source, name))
    if not isinstance(compiled, Compiled):
        return Judged(name=name, verdict=compiled, seconds=seconds)
    verdict = await run(task, device, compiled, baseline, seconds, on_stage)
    return Judged(name=name, verdict=verdict, compiled=compiled, seconds=seconds)


async def run(
    task: Task,
    device: Device,
    compiled: Compiled,
    baseline: Awaitable[Timing],
    seconds: MutableMapping[str, float],
    on_stage: OnStage,
) -> Verdict:
    """Validate and time a compiled candidate in one fresh runner."""
    name = compiled.name
    on_stage(name, "load")
    started = time.monotonic()
    async with open_oracle(task, device) as oracle, device.open(compiled) as session:
        seconds["load"] = time.monotonic() - started
        if not isinstance(session, Session):
            return session
        with stage(name, "validate", seconds, on_stage):
            validated = await validate(task, session, oracle=oracle)
        if not isinstance(validated, Validated):
            return validated
        with stage(name, "time", seconds, on_stage):
            timing = await time_sizes(task, session, oracle)
        if not isinstance(timing, Timing):
            return timing
        impossible = find_impossible(task, device.hardware, timing.times)
        if impossible is not None:
            return impossible
    return passed(task, device, compiled, validated, timing, await baseline)


def passed(
    task: Task,
    device: Device,
    compiled: Compiled,
    validated: Validated,
    timing: Timing,
    baseline: Timing,
) -> Passed:
    """Put what was checked and what was timed into one verdict."""
    sizes = compare(timing, baseline, device.time_source)
    profile = Profile(
        device=device.name,
        hardware=device.hardware.name,
        source=device.time_source,
        sizes=sizes,
        launches=timing.launches,
        bottlenecks=timing.bottlenecks,
        resources=compiled.kernels,
        speedup=mean_speedup(sizes, task.weights),
        checked=validated.checked,
    )
    return Passed(profile=profile, differential=task.reference is None, notes=validated.notes)


@contextmanager
def stage(
    name: str, label: str, seconds: MutableMapping[str, float], on_stage: OnStage
) -> Iterator[None]:
    """Tell who listens that a stage begins, and keep how long it took."""
    on_stage(name, label)
    started = time.monotonic()
    try:
        yield
    finally:
        seconds[label] = time.monotonic() - started
