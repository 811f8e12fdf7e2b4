"""compile, validate and profile as LangChain tools, for scripts and for agents that call tools; and
profiles in words.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from cuda_llm.figure_wording import describe_largest, describe_over, name_bottleneck
from cuda_llm.outcomes import Diagnostic, Passed, Verdict
from cuda_llm.own_thread import await_here
from cuda_llm.profile import Profile, limiter
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.bench import SOURCE_NAME, Bench
from cuda_llm.tools.judge.judge import check, judge
from cuda_llm.tools.validator.validate import Validated
from cuda_llm.verdict_wording import describe

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from cuda_llm.tasks.task import Task
    from cuda_llm.tools.device import Device


COMPILE_TOOL = (
    "Compile a CUDA source file for the task: nvcc's errors with their lines, or what it uses."
)
VALIDATE_TOOL = (
    "Compile a CUDA source file and compare every element of its results with the reference."
)
PROFILE_TOOL = "Validate a CUDA source file, time it at every size, and say what limits it."


def describe_speed(profile: Profile) -> str:
    """Return `31.2 us at the largest, 2.82x the baseline over all sizes, limited by issue`."""
    count = len(profile.sizes)
    time = describe_largest(f"{profile.sizes[-1].time_us:.4g} us", count) if count else "not timed"
    over = describe_over(profile.objective, count)
    speedup = "" if profile.speedup is None else f", {profile.speedup:.3g}x the baseline{over}"
    found = limiter(profile.bottlenecks)
    limit = f", limited by {name_bottleneck(found.code)}" if found else ""
    return f"{time}{speedup}{limit}"


def describe_diagnostic(diagnostic: Diagnostic) -> str:
    """Return a compiler's message with its place."""
    place = f"{diagnostic.spot}: " if diagnostic.spot else ""
    return f"{place}{diagnostic.severity}: {diagnostic.message}"


def judge_tools(task: "Task | str", device: "Device | str" = "auto") -> "list[BaseTool]":
    """Return `compile_kernel`, `validate_kernel` and `profile_kernel` for a task on a device.

    `task` is a name, a folder or a `Task`; `device` is as after `--device`. Each tool takes the
    `source` of a whole .cu file with `solve`, and answers in words; a bad kernel is an answer. They
    are called with `invoke` or awaited with `ainvoke`, from any event loop.
    Raises UsageError and MissingError for a task or device that cannot be used.
    """
    from cuda_llm.tasks.loader import load_task
    from cuda_llm.tools.judge.judge import open_bench
    from cuda_llm.tools.open_device import open_device, open_watcher

    judged = load_task(task) if isinstance(task, str) else task
    where = open_device(device) if isinstance(device, str) else device
    benches: WeakKeyDictionary[asyncio.AbstractEventLoop, Bench] = WeakKeyDictionary()

    def bench_here() -> Bench:
        loop = asyncio.get_running_loop()
        if loop not in benches:
            benches[loop] = open_bench(judged, where, watcher=open_watcher(where))
        return benches[loop]

    return _make_tools(bench_here)


def bench_tools(bench: Bench) -> "list[BaseTool]":
    """Return the tools of `judge_tools` on one bench, for the event loop that the bench is for.

    They raise only where our own parts are broken.
    """
    return _make_tools(lambda: bench)


def _make_tools(bench_here: Callable[[], Bench]) -> "list[BaseTool]":
    from langchain_core.tools import StructuredTool

    async def compile_kernel(source: str) -> str:
        return describe_outcome(await bench_here().compile(source, SOURCE_NAME))

    async def validate_kernel(source: str) -> str:
        _, outcome = await check(bench_here(), source)
        return describe_outcome(outcome)

    async def profile_kernel(source: str) -> str:
        bench = bench_here()
        judged = await judge(bench, source, baseline=await bench.time_baseline())
        return describe_outcome(judged.verdict)

    offered: list[tuple[Callable[[str], Awaitable[str]], str]] = [
        (compile_kernel, COMPILE_TOOL),
        (validate_kernel, VALIDATE_TOOL),
        (profile_kernel, PROFILE_TOOL),
    ]
    return [
        StructuredTool.from_function(func=_blocking(tool), coroutine=tool, description=text)
        for tool, text in offered
    ]


def _blocking(tool: Callable[[str], Awaitable[str]]) -> Callable[[str], str]:
    """Return the same for callers that do not await, also where a loop runs already."""

    async def answer(source: str) -> str:
        return await tool(source)

    def call(source: str) -> str:
        return await_here(answer(source))

    call.__name__ = getattr(tool, "__name__", "")
    return call


def describe_outcome(outcome: Compiled | Validated | Verdict) -> str:
    """Describe the outcome for an agent: a code, then one detail a line."""
    match outcome:
        case Compiled(kernels=kernels, warnings=warnings):
            used = (
                f"{one.kernel}: {one.registers} registers, {one.shared_bytes} B shared, "
                f"{one.spill_store_bytes + one.spill_load_bytes} B spilled"
                for one in kernels
            )
            return "\n".join(("COMPILED", *used, *(one.message for one in warnings)))
        case Validated(checked=counts):
            return f"CORRECT in {counts.get('sizes', 0)} sizes, {counts.get('hidden', 0)} hidden"
        case Passed(profile=Profile() as profile):
            return "\n".join(("PASSED", *describe_profile(profile)))
        case _:
            return "\n".join((outcome.code, *describe(outcome)))


def describe_profile(profile: Profile) -> tuple[str, ...]:
    """Describe the speed, each size and each bottleneck, one a line."""
    sizes = (f"{dict(one.dims)}: {one.time_us:.4g} us ({one.source})" for one in profile.sizes)
    limits = (f"{one.code}: {one.explanation}" for one in profile.bottlenecks)
    return (describe_speed(profile), *sizes, *limits)
