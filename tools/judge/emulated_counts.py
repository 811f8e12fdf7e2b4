"""Counts a kernel that a GPU has timed on the emulated device of the same chip.

For a GPU on which nothing counts: what the kernel moves, issues and waits for is the same on both,
so the counts of the one explain the time of the other (`profiler/emulated_counters.py`). The call
is the one that is explained, at the largest timed size; some of its blocks are executed for all.
"""

import asyncio
from dataclasses import dataclass

from cuda_llm.errors import CudaLLMError, describe_error
from cuda_llm.outcomes import DependentLaunch, Verdict
from cuda_llm.profile import LaunchProfile, Profile
from cuda_llm.tasks.reference import Dims
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import (
    CallReport,
    Device,
    Level,
    SamplingSession,
    Session,
    Site,
    Work,
)
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.device.inspection import EMULATED, KernelCounters
from cuda_llm.tools.judge.compile import compile_source
from cuda_llm.tools.judge.modelled_times import SHARED_NONCE, WHOLE_BYTES, call_unfilled
from cuda_llm.tools.judge.watched_check import one_line
from cuda_llm.tools.native import build_in_thread
from cuda_llm.tools.profiler.emulated_counters import at_measured_time
from cuda_llm.tools.validator.buffers import buffer_specs
from cuda_llm.verdict_wording import describe

COUNT_WAIT_S = 3.0
"""Longest seconds for which anything waits for counts that are all that is left to do: most kernels
take one or two, and a round shall not get longer for an explanation."""
NOT_COUNTED = "not counted on the emulated device: "


@dataclass(frozen=True, kw_only=True)
class EmulatedCounts:
    """The counters of a call over the time that a GPU took, or why there are none."""

    counters: tuple[KernelCounters, ...] = ()
    note: str = ""
    """Line for a person: what was counted, or why nothing was."""


async def count_emulated(
    task: Task, watcher: Device, compiled: Compiled, profile: Profile
) -> EmulatedCounts:
    """Count a call at the largest size of `profile`, which has one, on `watcher`.

    `compiled` was built for the GPU; its source is built for `watcher`. Never raises but when it is
    cancelled: without counts the measured time is explained by the time and the launches alone.
    """
    largest = profile.sizes[-1]
    try:
        await build_in_thread(watcher.prepare)
        built = await compile_source(task, watcher, compiled.source, compiled.name)
        if not isinstance(built, Compiled):
            return _not_counted(built)
        report = await watcher.carry_out(Work.of(count_there, task, built, largest.dims))
    except CudaLLMError as error:
        return EmulatedCounts(note=NOT_COUNTED + one_line(describe_error(error)))
    except Exception as error:
        return EmulatedCounts(note=NOT_COUNTED + one_line(f"{type(error).__name__}: {error}"))
    if not isinstance(report, CallReport):
        return _not_counted(report)
    if _kernels(report.launches) != _kernels(profile.launches):
        return EmulatedCounts(note=f"{NOT_COUNTED}it launches other kernels there")
    found = at_measured_time(report.counters, report.launches, largest.time_us, watcher.hardware)
    if not found:
        return EmulatedCounts(note=f"{NOT_COUNTED}the call launches nothing")
    kernels = f"{len(found)} kernel{'s' if len(found) > 1 else ''}"
    return EmulatedCounts(counters=found, note=f"{kernels} {EMULATED}, over the measured time")


async def finish_counting(counting: "asyncio.Task[EmulatedCounts]") -> EmulatedCounts:
    """Await counts that were begun beside other work, for no longer than `COUNT_WAIT_S`."""
    done, _ = await asyncio.wait({counting}, timeout=COUNT_WAIT_S)
    return counting.result() if done else EmulatedCounts(note=f"{NOT_COUNTED}it took too long")


async def count_there(
    site: Site, task: Task, compiled: Compiled, dims: Dims
) -> CallReport | DependentLaunch | Verdict:
    """Call `solve` at a size, some blocks executed for all; whole where the blocks depend on each
    other and the buffers are small enough."""
    found = await _call_there(site, task, compiled, dims, Level.SAMPLE)
    if not isinstance(found, DependentLaunch):
        return found
    if sum(spec.nbytes for spec in buffer_specs(task, dims)) > WHOLE_BYTES:
        return found
    return await _call_there(site, task, compiled, dims, Level.ACCOUNT)


async def _call_there(
    site: Site, task: Task, compiled: Compiled, dims: Dims, level: Level
) -> CallReport | DependentLaunch | Verdict:
    async with site.open(compiled) as session:
        if not isinstance(session, Session):
            return session
        if not isinstance(session, SamplingSession):
            raise RuntimeError(f"{site.name} samples no blocks")
        return await call_unfilled(task, session, dims, nonce=SHARED_NONCE, level=level)


def _not_counted(why: DependentLaunch | Verdict) -> EmulatedCounts:
    if isinstance(why, DependentLaunch):
        text = f"{why.kernel} decides by what other blocks have done"
    else:
        text = " ".join(describe(why)[:1]) or why.code
    return EmulatedCounts(note=NOT_COUNTED + one_line(text))


def _kernels(launches: tuple[LaunchProfile, ...]) -> list[tuple[str, tuple[int, int, int]]]:
    """Return name and grid of each kernel launch: both as the candidate has chosen them."""
    return [(one.kernel, one.grid) for one in launches if all(one.grid)]
