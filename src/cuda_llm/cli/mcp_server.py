"""The judge as tools of the Model Context Protocol, for coding agents that judge what they write.

The MCP SDK is an extra: only `cuda-llm mcp` imports this module.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, ParamSpec, TypeVar

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ToolError

from cuda_llm.cli.draft_task import draft_task
from cuda_llm.cli.tasks import describe_task
from cuda_llm.errors import CudaLLMError, UsageError, describe_error
from cuda_llm.graph.judge import LoopJudge, task_as_asked
from cuda_llm.hardware_profiles.lookup import find_hardware, list_hardware
from cuda_llm.profile import Bottleneck
from cuda_llm.source_kinds import require_solve
from cuda_llm.tasks.loader import list_tasks, load_task
from cuda_llm.tools.judge.judged import Judged
from cuda_llm.tools.native import build_in_thread
from cuda_llm.tools.open_device import prepare_device
from cuda_llm.traces.candidate_text import check_candidate, describe_candidate
from cuda_llm.traces.find import find_run, list_runs
from cuda_llm.traces.run_text import describe_run
from cuda_llm.verdict_wording import describe

P = ParamSpec("P")
T = TypeVar("T")

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
"""Name of a task that a client may make: it names no other folder."""
LONGEST_SOURCE = 1 << 20
"""Most characters of a source that is judged."""
MOST_SOURCES = 16
"""Most sources that one call compares."""
STAGES = {"compile": 1, "validate": 2, "time": 3}
"""Progress of a judging by the stage that it enters; 4 when it is done."""
DONE = 4
INSTRUCTIONS = """\
Judges CUDA kernels. A kernel is one .cu source with `extern "C" void solve(...)` over device
pointers, as show_task declares it. Call judge with each version: the verdict says what is wrong and
at which line, or how fast the kernel is and what limits it. explain gives the diagnosis of a
correct kernel with its lines, compare orders versions. Modelled times come from an emulated device;
never compare them with measured times."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer to a client, whose schema describes fields by their docstrings."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"use_attribute_docstrings": True}


@dataclass(frozen=True, kw_only=True)
class TaskAnswer(Answer):
    """One task that ships."""

    name: str
    title: str


@dataclass(frozen=True, kw_only=True)
class SizeAnswer(Answer):
    """One timed size of a kernel that passed."""

    dims: dict[str, int]
    """Extents of the size, by the names of the task."""
    time_us: float
    """Time of one call in us."""
    baseline_us: float | None
    """Time of one call of the task's baseline in us."""
    speedup: float | None
    """Speed-up over the baseline."""
    speedup_low: float | None
    """Lower end of the 95 % interval of `speedup`; null where times are modelled."""
    speedup_high: float | None
    """Upper end of the 95 % interval of `speedup`; null where times are modelled."""


@dataclass(frozen=True, kw_only=True)
class JudgeAnswer(Answer):
    """What the judge found of one kernel."""

    name: str
    """Name of the kernel in this call."""
    passed: bool
    """Whether the kernel is right in every check that was made."""
    verdict: str
    """Stable code of the verdict; PASSED where the kernel passed."""
    what: list[str]
    """What is wrong and where, or what is noted of a kernel that passed."""
    advice: str
    """What was seen and where, and what to try next."""
    device: str
    """Device that judged."""
    time_source: str | None
    """`measured` on a GPU or `modelled` on an emulated device; null unless the kernel passed."""
    speedup: float | None
    """Speed-up over the task's baseline, all timed sizes as one score; null unless it passed."""
    sizes: list[SizeAnswer]
    """Every timed size; empty unless the kernel passed."""


@dataclass(frozen=True, kw_only=True)
class ComparisonAnswer(Answer):
    """Several kernels of one task, judged beside the same baseline."""

    fastest: str | None
    """Name of the fastest kernel that passed; null where none did."""
    kernels: list[JudgeAnswer]
    """All kernels, the fastest first, those that did not pass last."""


@dataclass(frozen=True, kw_only=True)
class BottleneckAnswer(Answer):
    """One cause of the time of a kernel."""

    code: str
    """Stable code of the bottleneck."""
    kernel: str
    """Kernel launch that it is about."""
    what: str
    """What takes the time."""
    line: int | None
    """Line of the source that it comes from; null where it has none."""
    text: str
    """Text of that line."""
    saved_us: float
    """Time that would go, in us a call at the largest size, if the cause went."""
    advice: str
    """What to try."""


@dataclass(frozen=True, kw_only=True)
class ExplanationAnswer(Answer):
    """The verdict on a kernel and, where it passed, what limits it at the largest size."""

    judged: JudgeAnswer
    bottlenecks: list[BottleneckAnswer]
    """Causes of the time, the dearest first."""
    launches: list[str]
    """Each launch of a call: kernel, grid, block, occupancy, time in us."""


@dataclass(frozen=True, kw_only=True)
class ImportAnswer(Answer):
    """A task that was drafted around a kernel."""

    task: str
    """Folder of the task, which the other tools take as `task`."""
    entry: str
    """Kernel or host function that is baseline and oracle."""
    guesses: list[str]
    """Lines of the task that its author has to confirm before kernels are judged."""
    notes: list[str]
    """What was done, and what could not be done."""


@dataclass(frozen=True, kw_only=True)
class HardwareAnswer(Answer):
    """One GPU that kernels can be written for."""

    name: str
    compute_capability: str
    sm_count: int
    memory_gib: float
    fp32_tflops: float
    dram_gb_s: float


@dataclass(frozen=True, kw_only=True)
class Desk:
    """Judges for the calls of all clients, on one device."""

    judge: LoopJudge
    limit_s: float
    """Longest that one call may take, in s."""

    async def judge_sources(
        self, task: str, sources: Mapping[str, str], context: Context
    ) -> list[Judged]:
        """Judge named sources, and send progress. A client that cancels ends the work."""
        if len(sources) > MOST_SOURCES:
            raise UsageError(f"{len(sources)} sources; compare at most {MOST_SOURCES} in a call")
        for name, text in sources.items():
            if len(text) > LONGEST_SOURCE:
                raise UsageError(f"{name}: {len(text):,} characters; at most {LONGEST_SOURCE:,}")
            require_solve(text, name)
        asked = task_as_asked(task)
        total = DONE * len(sources)
        reached = dict.fromkeys(sources, 0)
        async with progress_of(context, total) as report:
            report(0, f"preparing {self.judge.device.name}")

            def enter(name: str, stage: str) -> None:
                reached[name] = max(reached[name], STAGES.get(stage, 0))
                report(sum(reached.values()), f"{name}: {stage}")

            try:
                async with asyncio.timeout(self.limit_s):
                    await build_in_thread(lambda: prepare_device(self.judge.device))
                    found = await self.judge.judge_all(asked, [*sources.items()], on_stage=enter)
            except TimeoutError:
                raise UsageError(
                    f"not judged within {self.limit_s:g} s; start cuda-llm mcp with a larger "
                    "--limit-s, or judge fewer kernels in a call"
                ) from None
            report(total, "done")
        return found

    def answer(self, judged: Judged) -> JudgeAnswer:
        """Return what a client is sent of one judging."""
        return JudgeAnswer(
            name=judged.name,
            passed=judged.passed,
            verdict=judged.verdict.code,
            what=[*describe(judged.verdict)],
            advice=judged.advice,
            device=self.judge.device.name,
            time_source=judged.time_source,
            speedup=judged.speedup,
            sizes=[
                SizeAnswer(
                    dims=dict(one.dims),
                    time_us=one.time_us,
                    baseline_us=one.baseline_us,
                    speedup=one.speedup,
                    speedup_low=one.speedup_low,
                    speedup_high=one.speedup_high,
                )
                for one in judged.sizes
            ],
        )


@asynccontextmanager
async def progress_of(context: Context, total: int) -> AsyncIterator[Any]:
    """Yield a function that sends progress in order, without waiting; all is sent at the end."""
    waiting: asyncio.Queue[tuple[int, str] | None] = asyncio.Queue()

    async def send() -> None:
        while (one := await waiting.get()) is not None:
            await context.report_progress(one[0], total, one[1])

    sending = asyncio.create_task(send())
    try:
        yield lambda done, message: waiting.put_nowait((done, message))
        waiting.put_nowait(None)
        await sending
    finally:
        sending.cancel()


def answer_bottleneck(one: Bottleneck) -> BottleneckAnswer:
    """Return what a client is sent of one bottleneck."""
    spot = one.spot
    return BottleneckAnswer(
        code=one.code,
        kernel=one.kernel,
        what=one.explanation,
        line=None if spot is None else spot.line,
        text="" if spot is None else spot.text,
        saved_us=one.saved_us,
        advice=one.advice,
    )


def with_one_line_errors(
    kind: type[Exception],
) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Awaitable[T]]]:
    """Return a decorator that turns our errors into an error of the SDK, in one line."""

    def decorate(tool: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        @wraps(tool)
        async def call(*arguments: P.args, **keywords: P.kwargs) -> T:
            try:
                return await tool(*arguments, **keywords)
            except (CudaLLMError, OSError) as error:
                raise kind(describe_error(error)) from None

        return call

    return decorate


def make_server(desk: Desk, tasks: Path, runs: Path | None) -> MCPServer:
    """Return the server with its tools and resources. New tasks are written to `tasks`; runs are
    read from `runs`."""
    server = MCPServer(
        "cuda-llm",
        instructions=INSTRUCTIONS,
        version=version("cuda-llm"),
        log_level="CRITICAL",
    )
    add_judging(server, desk)
    add_drafting(server, tasks)
    add_knowledge(server, desk)
    add_runs(server, runs)
    return server


def add_judging(server: MCPServer, desk: Desk) -> None:
    """Add the tools that judge kernels."""

    @server.tool()
    @with_one_line_errors(ToolError)
    async def judge(task: str, source: str, context: Context) -> JudgeAnswer:
        """Compile a CUDA kernel, check it against the task's float64 reference, and time it.

        `task` is a name of list_tasks or a task's folder; `source` is a whole .cu file with solve.
        """
        (found,) = await desk.judge_sources(task, {"kernel.cu": source}, context)
        return desk.answer(found)

    @server.tool()
    @with_one_line_errors(ToolError)
    async def compare(task: str, sources: dict[str, str], context: Context) -> ComparisonAnswer:
        """Judge several kernels of one task beside the same baseline; the fastest comes first.

        `sources` are whole .cu files by name, at most 16.
        """
        found = await desk.judge_sources(task, sources, context)
        found.sort(key=lambda one: one.speedup or 0.0, reverse=True)
        passed = [one.name for one in found if one.passed]
        return ComparisonAnswer(
            fastest=passed[0] if passed else None, kernels=[*map(desk.answer, found)]
        )

    @server.tool()
    @with_one_line_errors(ToolError)
    async def explain(task: str, source: str, context: Context) -> ExplanationAnswer:
        """Judge a CUDA kernel and, where it passes, report what limits it, with the lines.

        Takes what judge takes.
        """
        (found,) = await desk.judge_sources(task, {"kernel.cu": source}, context)
        profile = found.profile
        return ExplanationAnswer(
            judged=desk.answer(found),
            bottlenecks=[*map(answer_bottleneck, profile.bottlenecks)] if profile else [],
            launches=[
                f"{one.kernel} grid {one.grid} block {one.block}: occupancy "
                f"{one.occupancy:.2f}, {one.time_us:.2f} us"
                for one in (profile.launches if profile else ())
            ],
        )


def add_drafting(server: MCPServer, tasks: Path) -> None:
    """Add the tool that makes a task of a kernel, in the folder `tasks`."""

    @server.tool()
    @with_one_line_errors(ToolError)
    async def import_task(
        name: str, source: str, context: Context, entry: str = ""
    ) -> ImportAnswer:
        """Write the folder of a new task around a CUDA kernel that is right but slow: it becomes
        baseline and oracle. Shapes are found by executing the kernel at small sizes.

        `entry` is the kernel or the host function of the source, where there are several.
        """
        if not NAME.fullmatch(name):
            raise ToolError(f"name {name!r}: expected letters, digits and _")
        notes: list[str] = []
        async with progress_of(context, 1) as report:
            report(0, f"drafting {name}")
            made = await draft_task(name, source, "kernel.cu", entry or None, tasks, notes.append)
            report(1, "done")
        return ImportAnswer(
            task=str(made.folder),
            entry=made.entry,
            guesses=[f"{one.file}:{one.line} {one.text}" for one in made.guesses],
            notes=notes,
        )


def add_knowledge(server: MCPServer, desk: Desk) -> None:
    """Add what is known before anything is judged: tasks and GPUs."""

    @server.tool(name="list_tasks")
    async def list_all_tasks() -> list[TaskAnswer]:
        """List the tasks that ship: what kernels can be judged for."""
        return [TaskAnswer(name=name, title=load_task(name).title) for name in list_tasks()]

    @server.tool()
    @with_one_line_errors(ToolError)
    async def show_task(task: str) -> str:
        """Show what a task asks for: solve's declaration, sizes, tolerance, what it may use."""
        return "\n".join(describe_task(load_task(task)))

    @server.tool()
    @with_one_line_errors(ToolError)
    async def hardware(name: str = "") -> list[HardwareAnswer]:
        """Return the GPU that kernels are judged for, the GPU of that name, or `all` of them."""
        if name == "all":
            found = [*list_hardware()]
        else:
            found = [find_hardware(name) if name else desk.judge.device.hardware]
        return [
            HardwareAnswer(
                name=one.name,
                compute_capability=one.target.removeprefix("sm_"),
                sm_count=one.sm_count,
                memory_gib=one.memory_bytes / 2**30,
                fp32_tflops=one.peaks.fp32_tflops,
                dram_gb_s=one.peaks.dram_gb_s,
            )
            for one in found
        ]


def add_runs(server: MCPServer, runs: Path | None) -> None:
    """Add the runs of a folder as resources: the list, one run, one candidate with its prompt."""

    @server.resource("cuda-llm://runs", mime_type="text/plain")
    @with_one_line_errors(ResourceError)
    async def all_runs() -> str:
        """Ids of the runs, oldest first."""
        return "\n".join(one.name for one in list_runs(runs))

    @server.resource("cuda-llm://runs/{run}", mime_type="text/plain")
    @with_one_line_errors(ResourceError)
    async def one_run(run: str) -> str:
        """Every decision of a run, round by round."""
        return "\n".join(describe_run(find_run(run, runs)))

    @server.resource("cuda-llm://runs/{run}/{candidate}", mime_type="text/plain")
    @with_one_line_errors(ResourceError)
    async def one_candidate(run: str, candidate: str) -> str:
        """One candidate of a run: order, prompt, answer, verdict, profile, source."""
        found = find_run(run, runs)
        check_candidate(found, candidate)
        return "\n".join(describe_candidate(found, candidate))
