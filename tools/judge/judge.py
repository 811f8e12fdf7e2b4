"""The whole way of one candidate: compile, validate, time."""

import time
from collections.abc import Awaitable, Iterator, MutableMapping
from contextlib import contextmanager

from cuda_llm.errors import BrokenByWork
from cuda_llm.outcomes import InfraFailed, Verdict
from cuda_llm.tasks.task import Task
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.device import Device
from cuda_llm.tools.judge.judged import Judged, OnStage, ignore
from cuda_llm.tools.judge.measured.options import MeasureOptions
from cuda_llm.tools.judge.steps import compile_source, passed, time_compiled, validate_compiled
from cuda_llm.tools.judge.timing import Timing
from cuda_llm.tools.validator.validate import Validated


async def judge(
    task: Task,
    device: Device,
    source: str,
    name: str,
    *,
    baseline: Awaitable[Timing],
    on_stage: OnStage = ignore,
    options: MeasureOptions | None = None,
) -> Judged:
    """Judge one source file. A bad kernel is a verdict, and so is one that breaks a device which is
    fine without it; only machinery that stays broken raises.

    `baseline` is awaited only when a candidate has been timed, so that both run side by side.
    `options` say how to measure; a modelled device ignores them.
    """
    seconds: dict[str, float] = {}
    with stage(name, "compile", seconds, on_stage):
        compiled = await compile_source(task, device, source, name)
    if not isinstance(compiled, Compiled):
        return Judged(name=name, verdict=compiled, seconds=seconds)
    try:
        verdict = await judge_compiled(
            task, device, compiled, name, seconds, baseline, on_stage, options
        )
    except BrokenByWork as error:
        verdict = InfraFailed(component=error.component, detail=error.detail)
    return Judged(name=name, verdict=verdict, compiled=compiled, seconds=seconds)


async def judge_compiled(
    task: Task,
    device: Device,
    compiled: Compiled,
    name: str,
    seconds: MutableMapping[str, float],
    baseline: Awaitable[Timing],
    on_stage: OnStage,
    options: MeasureOptions | None,
) -> Verdict:
    """What is left once it compiles."""
    with stage(name, "validate", seconds, on_stage):
        validated = await validate_compiled(task, device, compiled)
    if not isinstance(validated, Validated):
        return validated
    with stage(name, "time", seconds, on_stage):
        timing = await time_compiled(task, device, compiled, options=options)
    if not isinstance(timing, Timing):
        return timing
    return passed(task, device, compiled, validated, timing, await baseline)


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
