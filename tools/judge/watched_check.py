"""Checks on the emulated device, which watches every access, that add to the verdict of a GPU.

A kernel that passed is executed at small sizes with every access watched: results of a GPU need not
show a race, and compute-sanitizer does not see each one (it passed a kernel that clears shared
counters and counts in them by atomics, with no barrier between).

A case that ended in an error code on a GPU is executed once on the emulated device (same size,
inputs and poison): a GPU names neither line nor thread nor buffer.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cuda_llm.errors import CudaLLMError, describe_error
from cuda_llm.figure_wording import describe_dims
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
from cuda_llm.tasks.reference import Dims
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
"""Most operations and bytes of a case, for which the emulated device takes about 0.1 s."""

CHECK_LIMIT_S = 60.0
"""Longest seconds of a check, with g++'s build of the kernel, without builds of native parts."""
MOST_LEFT_OUT = 2
"""Most sizes that a check leaves out because the emulated device does not finish in time."""
REPLAY_LIMIT_S = 30.0
"""Longest seconds of a replay, with g++'s build of the kernel, without builds of native parts."""


@dataclass(frozen=True, kw_only=True)
class WatchedCases:
    """What the watched cases of a kernel showed."""

    verdict: Verdict | None = None
    """The first verdict that is no pass; None where every executed case passed."""
    left_out: tuple[Dims, ...] = ()
    """Sizes at which the time was up while blocks kept ending: a GPU takes milliseconds there."""


async def check_there(
    site: Site, task: Task, compiled: Compiled, baseline: Baseline, nonce: bytes | None
) -> WatchedCases:
    """Check the watched cases until a verdict is no pass; leave out sizes that are too slow.

    Raises TaskError where the task's reference is broken.
    """
    secret = fresh_nonce() if nonce is None else nonce
    cases = watched_cases(task, generator(secret, task.name, "plan", 0))
    left = list(enumerate(cases))
    left_out: list[Dims] = []
    while True:
        number, verdict = await _check_cases(site, task, compiled, baseline, secret, left)
        slow = isinstance(verdict, TimedOut) and verdict.only_slow
        if not slow or len(left_out) == MOST_LEFT_OUT:
            return WatchedCases(verdict=verdict, left_out=tuple(left_out))
        left_out.append(cases[number].dims)
        left = [one for one in left if one[0] > number and one[1].dims != left_out[-1]]


async def _check_cases(
    site: Site,
    task: Task,
    compiled: Compiled,
    baseline: Baseline,
    secret: bytes,
    cases: Sequence[tuple[int, Case]],
) -> tuple[int, Verdict | None]:
    """Check numbered cases in one runner; return the number of the last case and its verdict."""
    number = -1
    async with open_oracle(task, site, baseline) as oracle, site.open(compiled) as session:
        if not isinstance(session, Session):
            return number, session
        for number, case in cases:
            rng = generator(secret, task.name, "case", number, site.arrays)
            result = await check_case(task, session, case, oracle, rng, site.arrays)
            if not isinstance(result, CheckedCase):
                return number, result
    return number, None


def watched_cases(task: Task, rng: np.random.Generator) -> tuple[Case, ...]:
    """Return cases of the smallest emulated size and of the edge sizes, the former first.

    The emulated size has the shape of the timed sizes: a path that only timed sizes take is
    checked, too, and what a kernel keeps of a first call at a timed size.
    """
    listed = replace(task, sizes=replace(task.sizes, hidden=HiddenSizes(dims={})))
    cases = plan(listed, rng)
    small = [case for case in cases if case.work <= MOST_WATCHED_WORK] or cases[:1]
    timed_first = sorted(small, key=lambda case: case.group != "emulated")
    return tuple(replace(case, level=Level.FULL) for case in timed_first)


@dataclass(frozen=True, kw_only=True)
class WatchedCheck:
    """The result of a check on the emulated device of a kernel that a GPU has judged."""

    fault: Verdict | None = None
    clean: bool = False
    """Every case was executed, and none ended in a verdict."""
    notes: tuple[str, ...] = ()
    """Lines for a person: what was found, or why nothing could be."""


async def check_watched(
    task: Task,
    watcher: Device,
    compiled: Compiled,
    *,
    nonce: bytes | None = None,
    limit_s: float = CHECK_LIMIT_S,
) -> WatchedCheck:
    """Execute a kernel at the small sizes that the task lists, every access watched.

    Faults are those that make a kernel wrong whatever its results on a GPU: a race, an access out
    of bounds or misaligned, an uninitialised read, a misused barrier, and results that are wrong or
    differ in an order of warps and blocks that CUDA allows. Any other verdict may show a limit of
    the emulated device (what it lacks, how slow it is), so it is a note, and the verdict of the GPU
    stands.

    Never raises: on a machine without g++ the verdict of the GPU stands alone.
    """
    try:
        await build_in_thread(watcher.prepare)
        async with asyncio.timeout(limit_s):
            found = await build_and_check(task, watcher, compiled, nonce)
    except TimeoutError:
        return WatchedCheck(notes=(f"the emulated device did not finish within {limit_s:g} s",))
    except CudaLLMError as error:
        return _not_run(str(error))
    except Exception as error:
        return _not_run(f"{type(error).__name__}: {error}")
    return conclude_check(found)


def conclude_check(found: WatchedCases) -> WatchedCheck:
    """Return the check of a kernel that passed on a GPU and showed this on the emulated device."""
    verdict = found.verdict
    match verdict:
        case None:
            sought = "races, accesses, barriers, results"
            note = f"the emulated device found nothing: {sought} at small sizes"
            if found.left_out:
                note += (
                    f", without {' and '.join(map(describe_dims, found.left_out))}: too slow there"
                )
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
) -> WatchedCases:
    """Compile kernel and baseline for `watcher`, and check the kernel there."""
    built = await compile_source(task, watcher, compiled.source, compiled.name)
    if not isinstance(built, Compiled):
        return WatchedCases(verdict=built)
    baseline = await compile_baseline(task, watcher.hardware.target)
    return await watcher.carry_out(Work.of(check_there, task, built, baseline, nonce))


def _not_run(why: str) -> WatchedCheck:
    return WatchedCheck(notes=(one_line(f"not run on the emulated device: {why}"),))


def one_line(text: str) -> str:
    """Return the text on one line, cut at 300 characters."""
    return " ".join(text.split())[:300]


async def replay_case(
    task: Task,
    watcher: Device,
    compiled: Compiled,
    failed: FailedCase,
    limit_s: float = REPLAY_LIMIT_S,
) -> Verdict:
    """Return the GPU's verdict with the place that `watcher` finds, or why it finds none.

    `compiled` was built for the GPU; its source is built for `watcher`, whose native parts are
    built off the event loop where the machine has none. Takes no longer than `limit_s`. What
    `watcher` lacks is a field of the verdict, and no error.
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
    """Return the GPU's verdict with what the emulated device found in the same case."""
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
    """Return the GPU's verdict with why its case was not executed on the emulated device."""
    return with_replay(
        failed.verdict, Replay(outcome="not-run", limit_s=limit_s, detail=one_line(why))
    )


def explain_too_large(size_bytes: int) -> str:
    """Return why a case with buffers of this size is not executed on the emulated device."""
    most_mb = MOST_REPLAY_BYTES / 1e6
    return f"its buffers take {size_bytes / 1e6:.3g} MB, and at most {most_mb:.3g} MB do"


async def execute_case(
    task: Task, watcher: Device, compiled: Compiled, case: Case, inputs: HostInputs
) -> CallReport | Verdict:
    """Compile a kernel for `watcher`, and call `solve` once on the case's inputs."""
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
