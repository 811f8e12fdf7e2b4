"""Judges kernels for programs: a source in, a `Judged` out, with no search around it.

`judge` opens a device for one kernel, `judge_many` for several of one task, and `Judge` keeps the
device open, and the baseline of each task timed. `LoopJudge` is what all of them, and `evaluate`,
stand on.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Self, TypedDict, TypeVar, Unpack

from cuda_llm.errors import UsageError, nearest
from cuda_llm.graph.advice import advise
from cuda_llm.own_thread import LoopThread, await_here
from cuda_llm.profile import Objective
from cuda_llm.settings import settings
from cuda_llm.source_file import read_source
from cuda_llm.source_kinds import require_solve
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.objective import with_objective
from cuda_llm.tasks.own_sizes import with_sizes
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Device
from cuda_llm.tools.judge import judge as steps
from cuda_llm.tools.judge.bench import SOURCE_NAME
from cuda_llm.tools.judge.bench_slots import open_slots
from cuda_llm.tools.judge.judge import DeviceBench, OnStage, ignore_stage, open_bench
from cuda_llm.tools.judge.judged import Judged
from cuda_llm.tools.native import build_in_thread
from cuda_llm.tools.open_device import open_device, open_watcher, prepare_device
from cuda_llm.tools.timing.options import L2, PRECISIONS, MeasureOptions, Precision
from cuda_llm.tools.timing.times import KernelTimes

T = TypeVar("T")

OnJudged = Callable[[Judged], object]
"""Called with what became of a kernel as soon as that is known."""


def ignore_judged(_judged: Judged) -> None:
    """Do nothing: the `OnJudged` of callers who wait for the end."""


class TaskOptions(TypedDict, total=False):
    """How a task is to be judged, where that is not as its folder says."""

    sizes: Sequence[str]
    """Sizes to time instead of the task's, each spelled `M=4096,N=512`."""
    objective: Objective | None
    """How sizes make the one speed-up: `geomean`, `largest` or `worst`."""
    weights: Sequence[float]
    """How much a size counts in the mean, one for each in order."""
    strict: bool
    """Whether a race that changes no result is a `DATA_RACE`, too."""


def judge(
    task: Task | str | Path,
    source: str | Path,
    *,
    device: Device | str = "auto",
    precision: Precision = "normal",
    **options: Unpack[TaskOptions],
) -> Judged:
    """Compile a kernel, check it against the task's reference, and time it beside the baseline.

    `task` is a name, a folder or a `Task`; `source` is the text of a .cu file with `solve`, or the
    path of one; `device` is as after `--device`; `precision` counts where times are measured. A
    kernel that does not compile, is wrong or cheats is a `Judged`. Also where a loop runs already.
    Raises UsageError for a task, file or option that cannot be used, TaskError for a broken task,
    MissingError for what the machine lacks, and InfrastructureError where our own parts fail.
    """
    return await_here(ajudge(task, source, device=device, precision=precision, **options))


async def ajudge(
    task: Task | str | Path,
    source: str | Path,
    *,
    device: Device | str = "auto",
    precision: Precision = "normal",
    **options: Unpack[TaskOptions],
) -> Judged:
    """`judge` for callers that await."""
    asked = task_as_asked(task, **options)
    name, text = read_kernel(source)
    async with open_loop_judge(device, precision) as opened:
        return await opened.judge_one(asked, text, name)


def judge_many(
    task: Task | str | Path,
    sources: Iterable[str | Path],
    *,
    device: Device | str = "auto",
    precision: Precision = "normal",
    **options: Unpack[TaskOptions],
) -> list[Judged]:
    """Judge several kernels of one task as `judge` does, at once where the device allows; return
    them in their order. The baseline is timed once."""

    async def judge_all() -> list[Judged]:
        asked = task_as_asked(task, **options)
        kernels = read_kernels(sources)
        async with open_loop_judge(device, precision) as opened:
            return await opened.judge_all(asked, kernels)

    return await_here(judge_all())


class Judge:
    """Judges kernels on a device that stays open, with the baseline of each task timed once.

        with Judge(device="cuda:0") as opened:
            rewards = [opened.judge("softmax", source).speedup or 0.0 for source in sources]

    Methods may be called from several threads and event loops at once: on a GPU kernels are timed
    one after another all the same. Raises as `judge` does; a closed judge raises UsageError.
    """

    def __init__(self, device: Device | str = "auto", *, precision: Precision = "normal") -> None:
        """Open the device, which builds its native parts at first use."""
        opened = open_device(device) if isinstance(device, str) else device
        options = options_as_asked(precision)
        prepare_device(opened)
        self._judge = LoopJudge(opened, options)
        self._thread = LoopThread("this Judge")

    def judge(
        self, task: Task | str | Path, source: str | Path, **options: Unpack[TaskOptions]
    ) -> Judged:
        """Judge one kernel; see `judge`."""
        name, text = read_kernel(source)
        asked = task_as_asked(task, **options)
        return self._thread.run(self._judge.judge_one(asked, text, name))

    async def ajudge(
        self, task: Task | str | Path, source: str | Path, **options: Unpack[TaskOptions]
    ) -> Judged:
        """`judge` for callers that await; being cancelled ends the work on the kernel."""
        name, text = read_kernel(source)
        asked = task_as_asked(task, **options)
        return await self._thread.await_from_here(self._judge.judge_one(asked, text, name))

    def judge_many(
        self,
        task: Task | str | Path,
        sources: Iterable[str | Path],
        **options: Unpack[TaskOptions],
    ) -> list[Judged]:
        """Judge several kernels of one task; see `judge_many`."""
        kernels = read_kernels(sources)
        asked = task_as_asked(task, **options)
        return self._thread.run(self._judge.judge_all(asked, kernels))

    def close(self) -> None:
        """Cancel the works that are left, and close the judge."""
        self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def task_as_asked(
    task: Task | str | Path,
    *,
    sizes: Sequence[str] = (),
    objective: Objective | None = None,
    weights: Sequence[float] = (),
    strict: bool = False,
) -> Task:
    """Return the task, loaded, with the options of a caller. Raises UsageError and TaskError."""
    if isinstance(sizes, str) or not all(isinstance(one, str) for one in sizes):
        raise UsageError(f"sizes: found {sizes!r}; expected a list such as ['M=4096,N=512']")
    loaded = task if isinstance(task, Task) else load_task(task)
    asked = with_objective(with_sizes(loaded, sizes), objective, weights)
    return replace(asked, strict=strict or asked.strict)


def read_kernels(sources: Iterable[str | Path]) -> list[tuple[str, str]]:
    """Return text and name of each source. Raises UsageError for one text or path in place of a
    list, and for a file that is no CUDA source."""
    if isinstance(sources, str | Path):
        raise UsageError("sources: found one source; expected a list of them")
    return [*map(read_kernel, sources)]


def read_kernel(source: str | Path) -> tuple[str, str]:
    """Return name and text of a source: text as it is, a path read. Raises UsageError for a file
    that is no CUDA source, and for its name in place of its path."""
    if not isinstance(source, str | Path):
        kind = type(source).__name__
        raise UsageError(f"source: found {kind}; expected the text of a .cu file, or its Path")
    if isinstance(source, str):
        if source.endswith((".cu", ".cuh")) and "\n" not in source and Path(source).is_file():
            raise UsageError(f"{source}: a file's name; expected its Path, or the text of a source")
        return SOURCE_NAME, source
    text = read_source(source)
    require_solve(text, str(source))
    return str(source), text


def options_as_asked(precision: Precision, l2: L2 | None = None) -> MeasureOptions:
    """Return how kernels are measured. Raises UsageError for a precision that there is not."""
    if precision not in PRECISIONS:
        raise UsageError(f"precision={precision!r}: {nearest(precision, PRECISIONS)}")
    return MeasureOptions(tier=PRECISIONS[precision], l2=l2 or L2(settings().l2))


@asynccontextmanager
async def open_loop_judge(device: Device | str, precision: Precision) -> AsyncIterator["LoopJudge"]:
    """Open a device and judge kernels there while the context is open."""
    options = options_as_asked(precision)
    opened = open_device(device) if isinstance(device, str) else device
    await build_in_thread(lambda: prepare_device(opened))
    async with LoopJudge(opened, options) as loop_judge:
        yield loop_judge


@dataclass(frozen=True)
class SharedTimes(Awaitable[KernelTimes]):
    """The times of a baseline that several kernels wait for: one that is cancelled leaves them to
    the others."""

    timing: "asyncio.Task[KernelTimes]"

    def __await__(self) -> Generator[Any, None, KernelTimes]:
        return asyncio.shield(self.timing).__await__()


@dataclass(frozen=True, kw_only=True)
class TimedBench:
    """The bench of one task, and its baseline, timed or being timed."""

    bench: DeviceBench
    timings: list["asyncio.Task[KernelTimes]"] = field(default_factory=list)
    """The timing of the baseline; a timing that failed is replaced by another."""

    def time_baseline(self) -> "asyncio.Task[KernelTimes]":
        """Return the timing of the baseline, which begins with the first call."""
        if not self.timings or failed(self.timings[-1]):
            timing = asyncio.create_task(self.bench.time_baseline())
            # Its error is raised for every kernel that waits; there may be none left.
            timing.add_done_callback(failed)
            self.timings[:] = [timing]
        return self.timings[-1]


def failed(work: "asyncio.Task[Any]") -> bool:
    """Return whether a task has ended without a result."""
    return work.done() and (work.cancelled() or work.exception() is not None)


class LoopJudge:
    """Judges kernels of any tasks on one device, in one event loop: all share the device's slots,
    and those of one task its baseline."""

    def __init__(self, device: Device, options: MeasureOptions) -> None:
        """The device is prepared already."""
        self.device = device
        self._options = options
        self._watcher = open_watcher(device)
        self._slots = open_slots(device)
        self._benches: list[TimedBench] = []

    async def judge_one(
        self,
        task: Task,
        text: str,
        name: str,
        *,
        on_stage: OnStage = ignore_stage,
        on_judged: OnJudged = ignore_judged,
    ) -> Judged:
        """Judge one source, and word the advice on it. Raises TaskError where the baseline is
        refused, as soon as it is."""
        timed = self._bench_of(task)
        baseline = timed.time_baseline()

        async def judge_and_advise() -> Judged:
            shared = SharedTimes(baseline)
            judged = await steps.judge(timed.bench, text, name, baseline=shared, on_stage=on_stage)
            isolation = (await shared).isolation if judged.compiled is not None else ""
            advice = advise(task, self.device, text, judged)
            judged = replace(judged, isolation=isolation, advice=advice)
            on_judged(judged)
            return judged

        judging = asyncio.create_task(judge_and_advise())
        try:
            await asyncio.wait({judging, baseline}, return_when=asyncio.FIRST_COMPLETED)
            if failed(baseline) and not judging.done():
                await SharedTimes(baseline)
            return await judging
        finally:
            judging.cancel()
            await asyncio.gather(judging, return_exceptions=True)

    async def judge_all(
        self,
        task: Task,
        kernels: Sequence[tuple[str, str]],
        *,
        on_stage: OnStage = ignore_stage,
        on_judged: Callable[[int, Judged], object] = lambda _place, _judged: None,
    ) -> list[Judged]:
        """Judge kernels, each a name and a text, at once as far as the slots allow; return them in
        their order. The first error ends all.

        `on_judged` is called with the place of each kernel and what became of it, at once.
        """
        try:
            async with asyncio.TaskGroup() as group:
                begun = [
                    group.create_task(
                        self.judge_one(
                            task, text, name, on_stage=on_stage, on_judged=partial(on_judged, place)
                        )
                    )
                    for place, (name, text) in enumerate(kernels)
                ]
        except BaseExceptionGroup as errors:
            # Not `except*`: what that raises is a group again on Python 3.11.2.
            raise first_of(errors) from None
        return [task.result() for task in begun]

    def _bench_of(self, task: Task) -> TimedBench:
        """Return the bench of the task, which the task's first kernel opens."""
        found = next((one for one in self._benches if one.bench.task == task), None)
        if found is None:
            bench = open_bench(
                task,
                self.device,
                watcher=self._watcher,
                options=self._options,
                slots=self._slots,
            )
            found = TimedBench(bench=bench)
            self._benches.append(found)
        return found

    async def close(self) -> None:
        """End the timings of baselines that no kernel waits for any more."""
        timings = [timing for one in self._benches for timing in one.timings]
        for timing in timings:
            timing.cancel()
        await asyncio.gather(*timings, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def first_of(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error of a group, groups inside it opened."""
    first = errors.exceptions[0]
    return first_of(first) if isinstance(first, BaseExceptionGroup) else first
