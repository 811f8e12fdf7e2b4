"""What a device that watches every access adds to a verdict of a GPU.

A kernel that passed is executed at small sizes with every access watched: results of a GPU need not
show a race, and compute-sanitizer does not see each one (it passed a kernel that clears shared
counters and counts in them by atomics, with no barrier between).

A case that ended in an error code is executed once more (same size, inputs and poison): a GPU names
neither line nor thread nor buffer.
"""

import asyncio
from dataclasses import dataclass, replace

import numpy as np

from cuda_llm.errors import CudaLLMError, describe_error
from cuda_llm.outcomes import (
    CompileFailed,
    DataRace,
    EmulatorUnsupported,
    GuardOverwritten,
    IllegalAccess,
    InfraFailed,
    InvalidSync,
    LoadFailed,
    Misaligned,
    Nondeterministic,
    Replay,
    TimedOut,
    UninitialisedRead,
    Verdict,
    WrongResult,
    with_place,
    with_replay,
)
from cuda_llm.tasks.task import HiddenSizes, Task
from cuda_llm.tools.device import CallReport, Device, Level, Session, Site, Work
from cuda_llm.tools.device.buffers import HOST
from cuda_llm.tools.device.candidate import Baseline, Compiled
from cuda_llm.tools.judge.compile import compile_baseline, compile_source
from cuda_llm.tools.native import build_in_thread
from cuda_llm.tools.timing.failures import MOST_REPLAY_BYTES, FailedCase, HostInputs
from cuda_llm.tools.timing.measurement import open_oracle
from cuda_llm.tools.validator.buffers import buffer_specs, call_arguments, call_options, fill
from cuda_llm.tools.validator.cases import Case, fresh_nonce, generator, plan
from cuda_llm.tools.validator.check_case import CheckedCase, check_case
from cuda_llm.verdict_wording import describe

MOST_WATCHED_WORK = 2e7
"""Operations and bytes of a case: the emulated device takes about a tenth of a second for it."""


async def check_there(
    site: Site, task: Task, compiled: Compiled, baseline: Baseline, nonce: bytes | None
) -> Verdict | None:
    """Check the watched cases, and return the first verdict that is no pass."""
    secret = fresh_nonce() if nonce is None else nonce
    async with open_oracle(task, site, baseline) as oracle, site.open(compiled) as session:
        if not isinstance(session, Session):
            return session
        for number, case in enumerate(watched_cases(task, generator(secret, task.name, "plan", 0))):
            rng = generator(secret, task.name, "case", number, site.arrays)
            result = await check_case(task, session, case, oracle, rng, site.arrays)
            if not isinstance(result, CheckedCase):
                return result
    return None


def watched_cases(task: Task, rng: np.random.Generator) -> tuple[Case, ...]:
    """Return cases of the smallest emulated size and of the edge sizes, the former first.

    It has the shape of those that are timed: a path that only they take is checked too, and what
    a kernel keeps of its first call where that was one of them.
    """
    listed = replace(task, sizes=replace(task.sizes, hidden=HiddenSizes(dims={})))
    cases = plan(listed, rng)
    small = [case for case in cases if case.work <= MOST_WATCHED_WORK] or cases[:1]
    timed_first = sorted(small, key=lambda case: case.group != "emulated")
    return tuple(replace(case, level=Level.FULL) for case in timed_first)


CHECK_LIMIT_S = 60.0
"""For the whole check, with what g++ builds of the kernel, but not what it builds once a
version."""


@dataclass(frozen=True, kw_only=True)
class WatchedCheck:
    """What the emulated device says of a kernel that a GPU has judged."""

    fault: Verdict | None = None
    clean: bool = False
    """Every case was executed, and none ended in a verdict."""
    notes: tuple[str, ...] = ()
    """What was found, or why nothing could be: lines for a person."""


async def check_watched(
    task: Task,
    watcher: Device,
    compiled: Compiled,
    *,
    nonce: bytes | None = None,
    limit_s: float = CHECK_LIMIT_S,
) -> WatchedCheck:
    """Execute the source at the small sizes that the task lists, every access watched.

    A fault is what makes a kernel wrong whatever a GPU made of it: a race, an access out of
    bounds or misaligned, an uninitialised read, a barrier misused, and results that are wrong or
    differ in an order of warps and blocks that CUDA allows. Everything else may be this device's
    own limit (what it lacks, how slow it is), so that it is a note: the verdict of the GPU stands.

    Never raises: on a machine without g++ the verdict of the GPU is worth having alone.
    """
    try:
        await build_in_thread(watcher.prepare)
        async with asyncio.timeout(limit_s):
            verdict = await build_and_check(task, watcher, compiled, nonce)
    except TimeoutError:
        return WatchedCheck(notes=(f"the emulated device did not finish within {limit_s:g} s",))
    except CudaLLMError as error:
        return _not_run(str(error))
    except Exception as error:
        return _not_run(f"{type(error).__name__}: {error}")
    return conclude_check(verdict)


def conclude_check(verdict: Verdict | None) -> WatchedCheck:
    """Read the emulated device's verdict as one on a kernel that passed on a GPU."""
    match verdict:
        case None:
            sought = "races, accesses, barriers, results"
            note = f"the emulated device found nothing: {sought} at small sizes"
            return WatchedCheck(clean=True, notes=(note,))
        case EmulatorUnsupported() | CompileFailed() | LoadFailed() | InfraFailed():
            return _not_run(describe(verdict)[0])
        case (
            DataRace()
            | IllegalAccess()
            | Misaligned()
            | UninitialisedRead()
            | InvalidSync()
            | WrongResult()
            | Nondeterministic()
            | GuardOverwritten()
        ):
            note = f"the emulated device found {verdict.code} at a small size"
            return WatchedCheck(fault=verdict, notes=(note,))
        case _:
            note = f"the emulated device says {verdict.code}, but the GPU's verdict stands"
            return WatchedCheck(notes=(one_line(": ".join((note, *describe(verdict)[:1]))),))


async def build_and_check(
    task: Task, watcher: Device, compiled: Compiled, nonce: bytes | None
) -> Verdict | None:
    """Build the source and the baseline for the watching device, and check there."""
    built = await compile_source(task, watcher, compiled.source, compiled.name)
    if not isinstance(built, Compiled):
        return built
    baseline = await compile_baseline(task, watcher.hardware.target)
    return await watcher.carry_out(Work.of(check_there, task, built, baseline, nonce))


def _not_run(why: str) -> WatchedCheck:
    return WatchedCheck(notes=(one_line(f"not run on the emulated device: {why}"),))


def one_line(text: str) -> str:
    """Return the text on one line, cut at 300 characters."""
    return " ".join(text.split())[:300]


REPLAY_LIMIT_S = 30.0
"""For the whole replay, with what g++ builds of the kernel, but not what it builds once a
version."""


async def replay_case(
    task: Task,
    watcher: Device,
    compiled: Compiled,
    failed: FailedCase,
    limit_s: float = REPLAY_LIMIT_S,
) -> Verdict:
    """Return the GPU's verdict with the place that `watcher` finds, or why it finds none.

    `compiled` was built for the GPU; its source is built for `watcher`, off the event loop: a
    machine with a GPU may never have built the watching device's own parts. Takes no longer than
    `limit_s`. What `watcher` lacks is a field of the verdict, and no error.
    """
    if failed.inputs is None:
        return with_not_run(failed, limit_s, explain_too_large(failed.buffer_bytes))
    try:
        await build_in_thread(watcher.prepare)
        async with asyncio.timeout(limit_s):
            found = await execute_case(task, watcher, compiled, failed.case, failed.inputs)
    except TimeoutError:
        return with_replay(failed.verdict, Replay(outcome="not-finished", limit_s=limit_s))
    except CudaLLMError as error:
        return with_not_run(failed, limit_s, describe_error(error))
    return conclude_replay(failed, found, limit_s)


def conclude_replay(failed: FailedCase, found: CallReport | Verdict, limit_s: float) -> Verdict:
    """Put what the emulated device found into the GPU's verdict."""
    verdict = failed.verdict
    match found:
        case CallReport():
            return with_replay(verdict, Replay(outcome="nothing-found", limit_s=limit_s))
        case EmulatorUnsupported() | CompileFailed() | LoadFailed() | InfraFailed():
            return with_not_run(failed, limit_s, " ".join(describe(found)[:1]))
        case TimedOut():
            is_placed = found.spot is not None or found.thread is not None
            if not isinstance(verdict, TimedOut) or not is_placed:
                return with_replay(verdict, Replay(outcome="not-finished", limit_s=limit_s))
            located = Replay(outcome="located", limit_s=limit_s)
            return replace(verdict, spot=found.spot, thread=found.thread, replay=located)
    return with_place(verdict, found)


def with_not_run(failed: FailedCase, limit_s: float, why: str) -> Verdict:
    """Return the GPU's verdict with why the case was not executed again."""
    return with_replay(
        failed.verdict, Replay(outcome="not-run", limit_s=limit_s, detail=one_line(why))
    )


def explain_too_large(size_bytes: int) -> str:
    """Return why a case is not executed again."""
    most_mb = MOST_REPLAY_BYTES / 1e6
    return f"its buffers take {size_bytes / 1e6:.3g} MB, and at most {most_mb:.3g} MB do"


async def execute_case(
    task: Task, watcher: Device, compiled: Compiled, case: Case, inputs: HostInputs
) -> CallReport | Verdict:
    """Build the source for the watching device, and call `solve` once."""
    built = await compile_source(task, watcher, compiled.source, compiled.name)
    if not isinstance(built, Compiled):
        return built
    return await watcher.carry_out(Work.of(execute_case_there, task, built, case, inputs))


async def execute_case_there(
    site: Site, task: Task, compiled: Compiled, case: Case, inputs: HostInputs
) -> CallReport | Verdict:
    """Call `solve` once on these inputs, and return how it ends; outputs are not compared."""
    async with site.open(compiled) as session:
        if not isinstance(session, Session):
            return session
        placed = session.place(buffer_specs(task, case.dims))
        fill(placed, inputs, case.poison, HOST.generator(0))
        options = call_options(task, case.dims, level=case.level, schedule_seed=case.schedule_seed)
        return await session.call(call_arguments(task, case.dims), options)
