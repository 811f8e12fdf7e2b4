"""A benchmark at work: each task is an ordinary run, and one that fails does not stop the rest."""

import asyncio
import shutil
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cuda_llm.errors import CudaLLMError, DeviceLost, describe_error
from cuda_llm.graph.benchmark.folder import BenchmarkFolder, BenchmarkPlan
from cuda_llm.graph.benchmark.row import (
    LibraryTime,
    TaskRow,
    TimedLibraries,
    failed_row,
    read_row,
)
from cuda_llm.graph.parts import Parts
from cuda_llm.graph.runs.result import read_result
from cuda_llm.graph.runs.start import resume, start
from cuda_llm.log import Log
from cuda_llm.profile import LibraryTimes
from cuda_llm.run_config import RunConfig
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.objective import with_objective
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Device
from cuda_llm.tools.device.group import DeviceGroup
from cuda_llm.tools.open_device import ReportLine, names_code, print_line
from cuda_llm.traces.event_log import Observer

OnRow = Callable[[str, TaskRow], None]
"""Called with the name of a run and its row when the run has ended."""
_log = Log(__name__)

MOST_AT_ONCE = 32
"""Most runs at work together."""
NO_LIBRARY = "the task names none"


@dataclass(frozen=True, kw_only=True)
class BenchmarkProgress:
    """Progress of all runs of a benchmark together."""

    runs: int
    ended: int
    """Number of the runs that failed."""
    failed: int
    running: tuple[str, ...]
    """Names of the runs at work now."""


OnProgress = Callable[[BenchmarkProgress], None]


class RunQueue:
    """The runs that are left, for devices that take the next one whenever they are free."""

    def __init__(self, plan: BenchmarkPlan, done: Collection[str], tell: OnProgress) -> None:
        self._waiting = deque(name for name in plan.tasks if name not in done)
        self._running: list[str] = []
        self._runs, self._ended, self._failed = len(plan.tasks), len(done), 0
        self._tell = tell
        self._changed = asyncio.Event()

    async def take(self) -> str | None:
        """Return the next run, waiting for one to come back where none is left; None at the end."""
        while not self._waiting:
            if not self._running:
                return None
            self._changed.clear()
            await self._changed.wait()
        name = self._waiting.popleft()
        self._running.append(name)
        self._say()
        return name

    def end(self, name: str, *, failed: bool) -> None:
        """Note that a run has ended, taken before or not."""
        if name in self._running:
            self._running.remove(name)
        self._ended += 1
        self._failed += failed
        self._changed.set()
        if not self._waiting:
            self._say()

    def bring_back(self, name: str) -> None:
        """Put a run that was taken before all others: its device is lost."""
        self._running.remove(name)
        self._waiting.appendleft(name)
        self._changed.set()

    def empty(self) -> list[str]:
        """Take all that wait."""
        left = list(self._waiting)
        self._waiting.clear()
        return left

    def _say(self) -> None:
        self._tell(
            BenchmarkProgress(
                runs=self._runs,
                ended=self._ended,
                failed=self._failed,
                running=tuple(self._running),
            )
        )


def devices_of(device: Device) -> tuple[Device, ...]:
    """Return the devices that share the runs: of a group each takes the next.

    Those of another model than the group's help with other work, for their times compare with none.
    """
    every: tuple[Device, ...] = tuple(getattr(device, "devices", (device,)))
    return tuple(one for one in every if one.hardware.name == device.hardware.name)


def share_out(devices: Sequence[Device], runs: int) -> tuple[Device, ...]:
    """Return what each run works on: a device, or where there are fewer runs than devices an equal
    share of them, one more for the first runs."""
    if not 0 < runs < len(devices):
        return tuple(devices)
    parts = [devices[number::runs] for number in range(runs)]
    return tuple(part[0] if len(part) == 1 else DeviceGroup(part) for part in parts)


def places(device: Device, left: int, *, has_model: bool) -> tuple[Device, ...]:
    """Return the device of each run that works at the same time, of `left` runs.

    Where times are modelled, runs side by side change no time. A device that works in batches gets
    the kernels of all runs in each batch, and a model answers several searches at once; a run
    without a model keeps all cores busy by itself.
    """
    shares = share_out(devices_of(device), left)
    able = device.capabilities
    several = able.batched or (has_model and not able.measures_time)
    most = min(MOST_AT_ONCE, left) if several else 1
    return shares * max(1, most // max(1, len(shares)))


async def work(
    folder: BenchmarkFolder,
    plan: BenchmarkPlan,
    device: Device,
    on_row: OnRow,
    *,
    brought: Parts | None = None,
    observers: Sequence[Observer] = (),
    report: ReportLine = print_line,
    on_progress: OnProgress = lambda _: None,
) -> None:
    """Run every task of the plan that is not done yet, as many at a time as `places` says.

    A task that fails, whatever the reason, is a row with its error. A run whose device is lost goes
    on on another one; where none is left, all that is left fails. Being cancelled stops the runs so
    that they can go on, keeps their rows and is passed on.
    """
    done = {name for name in plan.tasks if is_done(folder.read_row(name))}
    queue = RunQueue(plan, done, on_progress)
    models = [plan.config.model, *(one.get("model") for one in plan.sweep.values())]
    has_model = any(models) or (brought is not None and brought.model is not None)
    devices = places(device, len(plan.tasks) - len(done), has_model=has_model)
    lost: list[Device] = []

    def end(name: str, row: TaskRow) -> None:
        on_row(name, plan.place(name, row))
        queue.end(name, failed=row.state == "failed")

    def lose(name: str, own: Device, error: DeviceLost) -> None:
        lost.append(own)
        if len(lost) < len(devices):
            report(
                f"note: {own.name} is lost, another device takes {name}: {describe_error(error)}"
            )
            queue.bring_back(name)
            return
        remedy = f"{describe_error(error)}; no device is left, go on with: {folder.resume_command}"
        for one in (name, *queue.empty()):
            end(one, stopped_row(folder, plan, one, own, remedy))

    async def worker(own: Device) -> None:
        while (name := await queue.take()) is not None:
            try:
                row = await run_task(folder, plan, name, own, brought or Parts(), observers, report)
            except DeviceLost as error:
                lose(name, own, error)
                return
            except BaseException as error:
                if not isinstance(error, Exception):
                    on_row(name, plan.place(name, stopped_row(folder, plan, name, own)))
                    raise
                if not isinstance(error, CudaLLMError):
                    _log.error("a task of the benchmark fails", task=name, exc_info=error)
                row = stopped_row(folder, plan, name, own, describe_error(error))
            end(name, row)

    workers = [asyncio.ensure_future(worker(one)) for one in devices]
    try:
        await asyncio.gather(*workers)
    finally:
        for one in workers:
            one.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


def is_done(row: TaskRow | None) -> bool:
    """Return whether nothing is left to do; what failed is tried again."""
    return row is not None and row.state == "done"


def config_of(plan: BenchmarkPlan, folder: BenchmarkFolder, name: str, device: Device) -> RunConfig:
    """Return the configuration of one run."""
    asked = plan.config.device
    spec = asked if names_code(asked) else str(getattr(device, "spec", asked))
    own: dict[str, Any] = dict(plan.sweep.get(name, {}))
    task = plan.tasks[name]
    return plan.config.changed(task=task, device=spec, out=str(folder.runs), run_id=name, **own)


async def run_task(
    folder: BenchmarkFolder,
    plan: BenchmarkPlan,
    name: str,
    device: Device,
    brought: Parts,
    observers: Sequence[Observer],
    report: ReportLine,
) -> TaskRow:
    """Begin or go on with one run, then time libraries; return its row."""
    run, config = folder.run(name), config_of(plan, folder, name, device)
    own = replace(brought, opened_device=device)
    if not (run.path / "run.json").exists():
        # A kill came between the two steps in which a run's folder is made.
        shutil.rmtree(run.path, ignore_errors=True)
        await start(config, brought=own, observers=observers, report=report)
    elif not (run.events.exists() and read_result(run).finished):
        await resume(run, brought=own, observers=observers, report=report)
    task = with_objective(load_task(config.task), config.objective, config.weights)
    libraries = await time_libraries(task, device, config)
    return read_row(run, task, device.hardware, libraries=libraries)


def stopped_row(
    folder: BenchmarkFolder, plan: BenchmarkPlan, name: str, device: Device, error: str = ""
) -> TaskRow:
    """Return the row of a run that did not come to its end, as far as it has got."""
    run = folder.run(name)
    if not run.events.exists():
        return failed_row(name, error or "interrupted", "failed" if error else "stopped")
    try:
        task = load_task(plan.tasks[name])
        row = read_row(run, task, device.hardware, error=error)
        # Of a run at its end only libraries are not timed.
        untimed = f"not timed: {error}"
        return row if row.state != "done" else replace(row, error="", libraries_note=untimed)
    except CudaLLMError as damage:
        return failed_row(name, error or describe_error(damage))


async def time_libraries(task: Task, device: Device, config: RunConfig) -> TimedLibraries:
    """Time the task's libraries and the copy. A failure becomes a note: the kernel's result does
    not depend on libraries."""
    from cuda_llm.tools.judge import libraries
    from cuda_llm.tools.timing.options import L2, MeasureOptions

    if not device.capabilities.duels:
        return TimedLibraries(note="not timed: libraries run on a GPU only")
    options = MeasureOptions(l2=L2(config.l2))
    try:
        found = await libraries.time_libraries(task, device, options)
    except DeviceLost:
        raise
    except CudaLLMError as error:
        return TimedLibraries(note=f"not timed: {describe_error(error)}")
    return assemble(found, len(task.sizes.bench))


def assemble(found: Sequence[LibraryTimes], sizes: int) -> TimedLibraries:
    """Return the fastest of each size; the last of `found` is the copy."""
    *libraries, copy = found
    fastest = tuple(
        _fastest([(one.name, time_at(one, place)) for one in libraries]) for place in range(sizes)
    )
    faults = "; ".join(f"{one.name}: {one.fault}" for one in libraries if one.fault)
    note = "" if any(fastest) else f"not timed: {faults}" if faults else NO_LIBRARY
    copies = tuple(time_at(copy, place) for place in range(sizes))
    return TimedLibraries(fastest=fastest, copies_us=copies, note=note)


def time_at(one: LibraryTimes, place: int) -> float | None:
    """Return the time at a size; None for a size that was not timed."""
    return one.times[place] if place < len(one.times) else None


def _fastest(times: Sequence[tuple[str, float | None]]) -> LibraryTime | None:
    known = [LibraryTime(name=name, time_us=time) for name, time in times if time]
    return min(known, key=lambda one: one.time_us, default=None)
