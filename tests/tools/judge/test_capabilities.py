"""What a task may allow, each used by compiled kernels on the emulated device."""

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cuda_llm.errors import TaskError
from cuda_llm.outcomes import OutOfMemory, Passed, Verdict, WrongResult
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task
from cuda_llm.tools.judge.judge import judge, open_bench, time_baseline
from cuda_llm.tools.open_device import open_device

TASKS = Path(__file__).parents[2] / "fixtures/tasks"


def verdict_on(task: Task, file: str) -> Verdict:
    device = open_device("emulated")

    async def run() -> Verdict:
        bench = open_bench(task, device)
        baseline = asyncio.ensure_future(bench.time_baseline())
        source = (task.folder / file).read_text()
        try:
            return (await judge(bench, source, file, baseline=baseline)).verdict
        finally:
            await asyncio.gather(baseline, return_exceptions=True)

    return asyncio.run(run())


@pytest.fixture
def halves() -> Task:
    """Half precision, in place, with scratch memory for one copy."""
    return load_task(str(TASKS / "half_reversed"))


@pytest.fixture
def positives() -> Task:
    """A result in any order, by a comparator, with a copy to the host on the way."""
    return load_task(str(TASKS / "positives"))


@pytest.mark.evidence
def test_halves_in_place_pass(halves: Task) -> None:
    verdict = verdict_on(halves, "without_scratch.cu")
    assert isinstance(verdict, Passed), verdict


def test_halves_that_are_wrong_in_one_element_fail(halves: Task) -> None:
    verdict = verdict_on(halves, "keeps_the_middle.cu")
    assert isinstance(verdict, WrongResult)
    assert (verdict.buffer, verdict.wrong) == ("data", 1)


@pytest.mark.evidence
def test_scratch_memory_has_the_quota_of_the_task(halves: Task) -> None:
    assert isinstance(verdict_on(halves, "too_much_scratch.cu"), OutOfMemory)


@pytest.mark.evidence
def test_any_order_passes_a_comparator(positives: Task) -> None:
    assert isinstance(verdict_on(positives, "baseline.cu"), Passed)


def test_a_comparator_finds_one_changed_element(positives: Task) -> None:
    verdict = verdict_on(positives, "changes_one.cu")
    assert isinstance(verdict, WrongResult)
    assert verdict.buffer == "y"


def test_copying_to_the_host_is_for_tasks_that_allow_it(positives: Task) -> None:
    capabilities = replace(positives.capabilities, device_to_host=False)
    with pytest.raises(TaskError, match="the baseline itself is POLICY_VIOLATION"):
        asyncio.run(
            time_baseline(replace(positives, capabilities=capabilities), open_device("emulated"))
        )


@pytest.mark.evidence
def test_without_a_reference_the_baseline_is_the_oracle(halves: Task) -> None:
    task = replace(halves, reference=None)
    verdict = verdict_on(task, "without_scratch.cu")
    assert isinstance(verdict, Passed), verdict
    assert verdict.differential
    assert isinstance(verdict_on(task, "keeps_the_middle.cu"), WrongResult)


def test_an_oracle_that_fails_is_not_the_candidates_fault(halves: Task, tmp_path: Path) -> None:
    """The baseline crashes at an edge size alone, so that its own timing does not show it."""
    folder = tmp_path / "task"
    shutil.copytree(halves.folder, folder)
    (folder / "reference.py").unlink()
    baseline = (folder / "baseline.cu").read_text()
    crash = "    if (n == 33) __builtin_trap();\n    half* copy;\n"
    (folder / "baseline.cu").write_text(baseline.replace("    half* copy;\n", crash))
    with pytest.raises(TaskError, match=r"baseline\.cu: the baseline itself is HOST_CRASHED"):
        verdict_on(load_task(str(folder)), "without_scratch.cu")
