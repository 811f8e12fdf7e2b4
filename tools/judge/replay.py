"""A case that a GPU gave an error code for, executed once more on the emulated device of its chip.

A GPU names neither line nor thread nor buffer. The emulated device executes the same case (size,
inputs, poison) with every access watched, and tells them where it fails there too.
"""

import asyncio
from dataclasses import replace

from cuda_llm.errors import CudaLLMError, describe_error
from cuda_llm.facts import Replay
from cuda_llm.failures import CompileFailed, LoadFailed, TimedOut, with_place, with_replay
from cuda_llm.outcomes import EmulatorUnsupported, InfraFailed, Verdict
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import CallReport, Device, Session, Site
from cuda_llm.tools.device.buffers import HOST
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.steps import compile_source
from cuda_llm.tools.measure.failures import MOST_REPLAY_BYTES, FailedCase, HostInputs
from cuda_llm.tools.validator.buffers import buffer_specs, call_arguments, call_options, fill
from cuda_llm.tools.validator.cases import Case
from cuda_llm.wording import describe

REPLAY_LIMIT_S = 30.0
"""Of the whole replay, what g++ builds of the kernel included; what it builds once for a version is
not."""


async def replay_case(
    task: Task,
    emulated: Device,
    compiled: Compiled,
    failed: FailedCase,
    limit_s: float = REPLAY_LIMIT_S,
) -> Verdict:
    """The GPU's verdict with the place that the emulated device shows, or with why it shows none.

    `compiled` was built for the GPU; its source is built for `emulated`. Takes no longer than
    `limit_s`. What either machine lacks is data too: the GPU's verdict is worth having.
    """
    if failed.inputs is None:
        return not_run(failed, limit_s, too_large(failed.buffer_bytes))
    try:
        # A machine with a GPU may never have built these parts, and others wait for this loop.
        await asyncio.to_thread(emulated.prepare)
        async with asyncio.timeout(limit_s):
            found = await execute(task, emulated, compiled, failed.case, failed.inputs)
    except TimeoutError:
        return with_replay(failed.verdict, Replay(outcome="not-finished", limit_s=limit_s))
    except CudaLLMError as error:
        return not_run(failed, limit_s, describe_error(error))
    return conclude_replay(failed, found, limit_s)


def conclude_replay(failed: FailedCase, found: CallReport | Verdict, limit_s: float) -> Verdict:
    """What the emulated device's answer says of the GPU's verdict."""
    verdict = failed.verdict
    match found:
        case CallReport():
            return with_replay(verdict, Replay(outcome="nothing-found", limit_s=limit_s))
        case EmulatorUnsupported() | CompileFailed() | LoadFailed() | InfraFailed():
            return not_run(failed, limit_s, " ".join(describe(found)[:1]))
        case TimedOut():
            is_placed = found.spot is not None or found.thread is not None
            if not isinstance(verdict, TimedOut) or not is_placed:
                return with_replay(verdict, Replay(outcome="not-finished", limit_s=limit_s))
            located = Replay(outcome="located", limit_s=limit_s)
            return replace(verdict, spot=found.spot, thread=found.thread, replay=located)
    return with_place(verdict, found)


def not_run(failed: FailedCase, limit_s: float, why: str) -> Verdict:
    """The GPU's verdict alone, and why the case was not executed again."""
    detail = " ".join(why.split())[:300]
    return with_replay(failed.verdict, Replay(outcome="not-run", limit_s=limit_s, detail=detail))


def too_large(size_bytes: int) -> str:
    """Why a case is not carried over."""
    most_mb = MOST_REPLAY_BYTES / 1e6
    return f"its buffers take {size_bytes / 1e6:.3g} MB, and at most {most_mb:.3g} MB do"


async def execute(
    task: Task, emulated: Device, compiled: Compiled, case: Case, inputs: HostInputs
) -> CallReport | Verdict:
    """Build the source for the emulated device, and call `solve` once."""
    built = await compile_source(task, emulated, compiled.source, compiled.name)
    if not isinstance(built, Compiled):
        return built
    return await emulated.carry_out(execute_there, task, built, case, inputs)


async def execute_there(
    site: Site, task: Task, compiled: Compiled, case: Case, inputs: HostInputs
) -> CallReport | Verdict:
    """One call on these inputs, nothing compared: only how it ends is asked."""
    async with site.open(compiled) as session:
        if not isinstance(session, Session):
            return session
        placed = session.place(buffer_specs(task, case.dims))
        fill(placed, inputs, case.poison, HOST.generator(0))
        options = call_options(task, case.dims, level=case.level, schedule_seed=case.schedule_seed)
        return await session.call(call_arguments(task, case.dims), options)
