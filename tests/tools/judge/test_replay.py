"""A GPU gives an error code; the emulated device executes the same case and tells the place."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from array_kernels import add, writes
from measured_site import Buffers, Call, Candidate, MeasuredSite, named, running
from timed_vector_adds import add as add_once
from timed_vector_adds import honest, small_bench, timed_site

from cuda_llm.capabilities import Capabilities
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import (
    DeviceAssert,
    IllegalAccess,
    InfraFailed,
    Misaligned,
    TimedOut,
    Verdict,
)
from cuda_llm.source_file import SourceSpot
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.cuda.call_log import verdict_on_error
from cuda_llm.tools.cuda.site import GPU_CAPABILITIES
from cuda_llm.tools.device import CallOptions, Level, T, Work
from cuda_llm.tools.device.candidate import Baseline, Compiled
from cuda_llm.tools.emulator.device import EmulatedDevice
from cuda_llm.tools.judge.judge import DeviceBench, open_bench
from cuda_llm.tools.judge.watched_check import conclude_replay, replay_case
from cuda_llm.tools.open_device import open_watcher
from cuda_llm.tools.timing.contest import Duel
from cuda_llm.tools.timing.failures import FailedCase
from cuda_llm.tools.timing.measure import measure_candidate
from cuda_llm.tools.timing.options import MeasureOptions
from cuda_llm.tools.validator.cases import timed_case
from cuda_llm.tools.validator.validate import Validated
from cuda_llm.verdict_wording import describe

TASK = load_task("vector_add")
GOOD = TASK.baseline.read_text(encoding="utf-8")
PATIENT_S = 300.0


def kernel_that(does: str) -> str:
    """The baseline, whose first thread also does something."""
    broken = GOOD.replace("if (i < n)", f"{does}\n    if (i < n)")
    assert broken != GOOD
    return broken


ON_SOME_INPUTS = kernel_that("if (i == 0 && n > 100 && A[0] < 0.0f)\n        C[n + 100000] = 1.0f;")


class CodeAlone(EmulatedDevice):
    """As much of a GPU as says an error code: the arithmetic is NumPy's, the fault is scripted."""

    gpu: Candidate

    @property
    def capabilities(self) -> Capabilities:
        return GPU_CAPABILITIES

    async def carry_out(self, work: Work[T]) -> T:
        return await work(self)

    @asynccontextmanager
    async def open(self, candidate: Baseline) -> AsyncIterator[Any]:
        yield running(self.gpu)


def faulty(number: int, fails: Callable[[Buffers], bool]) -> Candidate:
    """Right, but for an error of CUDA's where `fails` says so."""
    right = writes("vector_add", add)

    def candidate(buffers: Buffers, options: CallOptions) -> Verdict | None:
        if fails(buffers):
            return verdict_on_error(number, "vector_add_kernel", 10.0)
        return right(buffers, options)

    return candidate


def on_some_inputs(buffers: Buffers) -> bool:
    """Where `ON_SOME_INPUTS` writes behind its buffer."""
    return bool(buffers["A"].size > 100 and buffers["A"][0] < 0)


def always(_buffers: Buffers) -> bool:
    return True


async def bench_of(gpu: Candidate) -> DeviceBench:
    device = CodeAlone(find_hardware("RTX 3090 Ti"))
    object.__setattr__(device, "gpu", gpu)
    # Other tests may keep every core busy.
    bench = open_bench(TASK, device, watcher=open_watcher(device), seed=5)
    return replace(bench, replay_limit_s=PATIENT_S)


def validated(gpu: Candidate, source: str) -> Any:
    async def run() -> Validated | Verdict:
        bench = await bench_of(gpu)
        compiled = await bench.compile(source, "mine.cu")
        assert isinstance(compiled, Compiled), compiled
        return await bench.validate(compiled)

    return asyncio.run(run())


def line_of(source: str, text: str) -> int:
    return next(n for n, line in enumerate(source.splitlines(), 1) if text in line)


def test_an_illegal_access_on_certain_inputs_gets_its_line_thread_and_buffer() -> None:
    verdict = validated(faulty(700, on_some_inputs), ON_SOME_INPUTS)
    assert isinstance(verdict, IllegalAccess)
    assert verdict.replay is not None
    assert verdict.replay.outcome == "located"
    assert verdict.spot is not None
    assert (verdict.spot.file, verdict.spot.text) == ("mine.cu", "C[n + 100000] = 1.0f;")
    assert verdict.spot.line == line_of(ON_SOME_INPUTS, "C[n + 100000]")
    assert verdict.thread is not None
    assert (verdict.thread.block, verdict.thread.thread) == ((0, 0, 0), (0, 0, 0))
    assert verdict.access is not None and verdict.access.location is not None
    assert (verdict.access.kind, verdict.access.location.name) == ("write", "C")
    assert verdict.error is not None and verdict.error.number == 700
    assert any("emulated device" in line for line in describe(verdict))


@pytest.mark.parametrize(
    ("number", "does", "kind"),
    [
        (716, "*(float2*)(C + 1) = make_float2(0.0f, 0.0f);", Misaligned),
        (710, "__trap();", DeviceAssert),
        (
            719,
            "__shared__ float s[4]; s[n + 70000] = A[0]; C[0] = s[1];",
            IllegalAccess,
        ),
    ],
)
def test_whatever_a_gpu_calls_it_the_kind_is_the_one_that_was_seen(
    number: int, does: str, kind: type[Misaligned | DeviceAssert | IllegalAccess]
) -> None:
    verdict = validated(faulty(number, always), kernel_that(does))
    assert isinstance(verdict, kind)
    assert verdict.replay is not None and verdict.replay.outcome == "located"
    assert verdict.spot is not None and verdict.spot.file == "mine.cu"


def test_where_the_emulated_device_sees_nothing_the_verdict_says_so() -> None:
    verdict = validated(faulty(700, on_some_inputs), GOOD)
    assert isinstance(verdict, IllegalAccess)
    assert verdict.spot is None
    assert verdict.replay is not None
    assert (verdict.replay.outcome, verdict.replay.limit_s) == ("nothing-found", PATIENT_S)


def test_a_kernel_that_is_built_otherwise_for_the_emulated_device_is_not_run_there() -> None:
    async def run() -> Verdict:
        bench = await bench_of(faulty(700, always))
        compiled = await bench.compile(GOOD, "mine.cu")
        assert isinstance(compiled, Compiled)
        ancient = EmulatedDevice(find_hardware("RTX 3090 Ti"))
        object.__setattr__(compiled, "source", "#error not here\n")
        return await replay_case(TASK, ancient, compiled, failed_case())

    verdict = asyncio.run(run())
    assert isinstance(verdict, IllegalAccess)
    assert verdict.replay is not None
    assert verdict.replay.outcome == "not-run"
    assert "not here" in verdict.replay.detail


def failed_case(*, inputs: bool = True) -> FailedCase:
    case = timed_case(TASK, {"n": 8}, Level.CHECK)
    drawn = {"A": [1.0] * 8, "B": [1.0] * 8} if inputs else None
    return FailedCase(
        verdict=verdict_on_error(700, "k", 10.0),
        case=case,
        inputs=drawn,  # type: ignore[arg-type]
        buffer_bytes=3_000_000_000,
    )


def replayed(failed: FailedCase, *, source: str = "", limit_s: float = PATIENT_S) -> Any:
    device = EmulatedDevice(find_hardware("RTX 3090 Ti"))
    compiled = replace(named("mine.cu"), source=source)
    return asyncio.run(replay_case(TASK, device, compiled, failed, limit_s))


def test_what_is_too_large_or_takes_too_long_is_said_with_the_figures() -> None:
    verdict = replayed(failed_case(inputs=False))
    assert verdict.replay.outcome == "not-run"
    assert verdict.replay.detail == "its buffers take 3e+03 MB, and at most 67.1 MB do"
    verdict = replayed(failed_case(), source=GOOD, limit_s=0.0)
    assert (verdict.replay.outcome, verdict.replay.limit_s) == ("not-finished", 0.0)


def test_who_takes_too_long_on_either_device_is_placed_where_that_is_known() -> None:
    failed = replace(failed_case(), verdict=TimedOut(stage="kernel", limit_s=10.0))
    here = SourceSpot(file="mine.cu", line=7, text="while (true)")
    placed = conclude_replay(failed, TimedOut(stage="kernel", limit_s=1.0, spot=here), 30.0)
    assert isinstance(placed, TimedOut)
    assert (placed.limit_s, placed.spot) == (10.0, here)
    assert placed.replay is not None and placed.replay.outcome == "located"
    nowhere = conclude_replay(failed, TimedOut(stage="kernel", limit_s=1.0), 30.0)
    assert isinstance(nowhere, TimedOut)
    assert nowhere.replay is not None and nowhere.replay.outcome == "not-finished"


def test_the_emulated_device_is_slow_which_says_nothing_of_an_illegal_access() -> None:
    late = TimedOut(stage="kernel", limit_s=1.0, spot=SourceSpot(file="mine.cu", line=7))
    verdict = conclude_replay(failed_case(), late, 30.0)
    assert isinstance(verdict, IllegalAccess)
    assert verdict.replay is not None and verdict.replay.outcome == "not-finished"


def test_a_fault_in_a_timed_batch_comes_with_its_size(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_LLM_CACHE", str(tmp_path))

    def script(call: Call) -> float | Verdict:
        add_once(call)
        fails = call.batches > 2
        return verdict_on_error(700, "k", 10.0) if fails else 50.0

    site = timed_site(script)
    names = named("candidate"), named("baseline")
    outcome = asyncio.run(measure_candidate(site, small_bench(96), *names, MeasureOptions()))
    assert isinstance(outcome, FailedCase)
    assert outcome.verdict.code == "ILLEGAL_ACCESS"
    assert outcome.case.dims == {"n": 96}
    assert outcome.inputs is not None and outcome.inputs["A"].shape == (96,)


class TimedElsewhere(CodeAlone):
    """As much of a GPU as times scripts: of what is compiled here, nothing is run."""

    site: MeasuredSite

    async def carry_out(self, work: Work[T]) -> T:
        known = [
            replace(one, name="baseline")
            if isinstance(one, Compiled) and one.name not in self.site.scripts
            else one
            for one in work.arguments
        ]
        return await replace(work, arguments=tuple(known))(self.site)


def duelled(broken: str, which: str, limit_s: float = PATIENT_S) -> Duel:
    """A duel in which `which` gets error 700 in its third batch; `broken` is its source."""

    def script(call: Call) -> float | Verdict:
        add_once(call)
        return verdict_on_error(700, "k", 10.0) if call.batches > 2 else 50.0

    site = timed_site(honest(50.0))
    order = ("mine.cu", "other.cu") if which == "first" else ("other.cu", "mine.cu")
    scripts = {**site.scripts, "mine.cu": script, "other.cu": honest(50.0)}
    device = TimedElsewhere(find_hardware("RTX 3090 Ti"))
    object.__setattr__(device, "site", replace(site, scripts=scripts))
    sources = {"mine.cu": broken, "other.cu": GOOD}

    async def run() -> Duel | InfraFailed:
        opened = open_bench(small_bench(96), device, watcher=open_watcher(device))
        bench = replace(opened, replay_limit_s=limit_s)
        first, second = (replace(named(name), source=sources[name]) for name in order)
        held = await bench.contest([first], second)
        return held if isinstance(held, InfraFailed) else held.duels[0]

    found = asyncio.run(run())
    assert isinstance(found, Duel)
    return found


@pytest.mark.parametrize(("which", "outcome"), [("first", "slower"), ("second", "faster")])
def test_a_fault_in_a_duel_gets_the_line_of_the_kernel_at_fault(which: str, outcome: str) -> None:
    found = duelled(kernel_that("if (i == 0) C[n + 100000] = 1.0f;"), which)
    assert (found.outcome, list(found.faults), found.failed) == (outcome, [which], None)
    verdict = found.faults[which]
    assert isinstance(verdict, IllegalAccess)
    assert verdict.error is not None and verdict.error.number == 700
    assert verdict.replay is not None and verdict.replay.outcome == "located"
    assert verdict.spot is not None
    assert verdict.spot.text.endswith("C[n + 100000] = 1.0f;")
    assert verdict.access is not None and verdict.access.location is not None
    assert verdict.access.location.size_bytes == 4 * 96


def test_a_duels_fault_is_replayed_within_the_limit_of_the_bench() -> None:
    verdict = duelled(GOOD, "first", limit_s=0.0).faults["first"]
    assert isinstance(verdict, IllegalAccess)
    assert verdict.replay is not None
    assert (verdict.replay.outcome, verdict.replay.limit_s) == ("not-finished", 0.0)
