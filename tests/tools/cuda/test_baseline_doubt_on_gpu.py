"""Processes of a baseline that are slow, on a real GPU: they do its work several times.

`CUDA_LLM_TEST_TASK=matrix_transpose` takes another task, whose `solve` can be called several times
on the same buffers.
"""

import asyncio
import os
import re
import secrets
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Literal

import pytest

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import BaselineDoubt, Verdict
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task
from cuda_llm.tools.compiler.compile import baseline_request, compile_candidate, compile_request
from cuda_llm.tools.cuda.library_session import LibrarySession
from cuda_llm.tools.cuda.site import GpuSite
from cuda_llm.tools.cuda.timed_session import GpuTimedSession
from cuda_llm.tools.device.candidate import Baseline, Compiled, CompileRequest
from cuda_llm.tools.device.inspection import InspectionOptions
from cuda_llm.tools.judge.inspection import inspect_there
from cuda_llm.tools.timing.failures import FailedCase
from cuda_llm.tools.timing.measure import measure_candidate
from cuda_llm.tools.timing.options import MeasureOptions
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.verdict_wording import phrase

pytestmark = pytest.mark.gpu
TIMES = 5
SIZES = 3
"""The smallest: at the largest the slowed baseline would be too slow to run beside anything."""


@dataclass(frozen=True)
class Bench:
    """A task with a copy of its baseline, which is as fast."""

    site: "SlowedSite"
    task: Task
    baseline: Compiled
    copy: Compiled

    async def measure(self) -> KernelTimes | Verdict | FailedCase:
        """Time the copy beside the baseline."""
        options = MeasureOptions()
        return await measure_candidate(self.site, self.task, self.copy, self.baseline, options)


class SlowedSite(GpuSite):
    """A GPU that runs the slowed program in some of the baseline's processes."""

    def __init__(self, gpu: tuple[Hardware, str], baseline: Compiled, slowed: Compiled) -> None:
        # Cached times are kept by this name: each site has to take its own.
        super().__init__(*gpu, f"the GPU under test, {secrets.token_hex(8)}")
        self._programs = {baseline.key: slowed}
        self.slow: Literal["none", "cached", "every"] = "none"
        """`cached`: only the cached one, until it is retired."""
        self.retired = 0

    def open(
        self, candidate: Baseline
    ) -> AbstractAsyncContextManager[GpuTimedSession | LibrarySession | Verdict]:
        return super().open(self._slowed(candidate) if self.slow == "every" else candidate)

    def open_cached(
        self, candidate: Baseline
    ) -> AbstractAsyncContextManager[GpuTimedSession | LibrarySession | Verdict]:
        return super().open_cached(candidate if self.slow == "none" else self._slowed(candidate))

    def retire_cached(self) -> None:
        super().retire_cached()
        self.retired += 1
        self.slow = "none" if self.slow == "cached" else self.slow

    def _slowed(self, candidate: Baseline) -> Baseline:
        return self._programs.get(candidate.key, candidate)


def repeated(source: str) -> str:
    """Return a source whose `solve` does the same several times."""
    head = re.search(r'extern "C" void solve\((.*?)\)', source, re.DOTALL)
    assert head is not None
    names = ", ".join(one.split()[-1].lstrip("*") for one in head[1].split(","))
    once = source.replace(head[0], f"static void once({head[1]})")
    calls = f"for (int i = 0; i < {TIMES}; ++i) once({names});"
    return f"{once}\n{head[0]}\n{{\n    {calls}\n}}\n"


async def compiled(request: CompileRequest) -> Compiled:
    made = await compile_candidate(request)
    assert isinstance(made, Compiled), made
    return made


def on_slowed_site(gpu: tuple[Hardware, str], use: Callable[[Bench], Awaitable[None]]) -> None:
    """Have `use` time things on it, as often as it likes."""

    async def run() -> None:
        whole, target = load_task(os.environ.get("CUDA_LLM_TEST_TASK", "vector_add")), gpu[0].target
        task = replace(whole, sizes=replace(whole.sizes, bench=whole.sizes.bench[:SIZES]))
        source = task.baseline.read_text()
        baseline = await compiled(baseline_request(task, target))
        slowed = await compiled(compile_request(task, target, repeated(source), "slowed.cu"))
        copy = await compiled(compile_request(task, target, f"// A copy.\n{source}", "copy.cu"))

        async with (site := SlowedSite(gpu, baseline, slowed)):
            await use(Bench(site=site, task=task, baseline=baseline, copy=copy))

    asyncio.run(run())


def speedups(outcome: object) -> list[float | None]:
    assert isinstance(outcome, KernelTimes), outcome
    return [size.speedup for size in outcome.sizes]


def doubt_of(outcome: object) -> BaselineDoubt:
    assert isinstance(outcome, KernelTimes), outcome
    assert outcome.doubt is not None
    print(phrase(outcome.doubt))
    return outcome.doubt


def is_sure(outcome: object) -> bool:
    return isinstance(outcome, KernelTimes) and outcome.doubt is None


def test_nothing_is_doubted_where_nothing_is_wrong(gpu: tuple[Hardware, str]) -> None:
    async def use(bench: Bench) -> None:
        for _ in range(3):
            outcome = await bench.measure()
            assert is_sure(outcome)
            assert speedups(outcome) == pytest.approx([1.0] * SIZES, rel=0.25)
        assert bench.site.retired == 0

    on_slowed_site(gpu, use)


def test_a_slow_cached_process_is_found_and_used_no_more(gpu: tuple[Hardware, str]) -> None:
    async def use(bench: Bench) -> None:
        bench.site.slow = "cached"
        found = await bench.measure()
        doubt = doubt_of(found)
        assert doubt.outcome == "odd-process"
        assert doubt.beside_us > 2 * doubt.reference_us
        assert speedups(found) == pytest.approx([1.0] * SIZES, rel=0.25)
        later = await bench.measure()
        assert is_sure(later)
        assert speedups(later) == pytest.approx([1.0] * SIZES, rel=0.25)
        assert bench.site.retired == 1

    on_slowed_site(gpu, use)


def test_where_every_process_is_slow_the_reference_is_taken_anew(gpu: tuple[Hardware, str]) -> None:
    async def use(bench: Bench) -> None:
        assert is_sure(await bench.measure())
        bench.site.retire_cached()
        bench.site.slow = "every"
        doubt = doubt_of(await bench.measure())
        assert doubt.outcome == "stale-reference"
        assert doubt.alone_us is not None
        assert is_sure(await bench.measure())

    on_slowed_site(gpu, use)


def test_tools_that_inspect_a_kernel_leave_the_cached_process_as_it_was(
    gpu: tuple[Hardware, str],
) -> None:
    """What one sitting with slow baselines did between its candidates."""

    async def use(bench: Bench) -> None:
        assert is_sure(await bench.measure())
        dims = bench.task.sizes.bench[-1]
        found = await inspect_there(bench.site, bench.task, bench.copy, dims, InspectionOptions())
        assert found.fault is None
        assert is_sure(await bench.measure())
        assert bench.site.retired == 0

    on_slowed_site(gpu, use)
