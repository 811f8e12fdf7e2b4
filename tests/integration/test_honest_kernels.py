"""Honest kernels of many styles raise no alarm: no check may refuse correct work."""

import asyncio
from pathlib import Path

import pytest
from corpus import styles
from corpus_sample import sample
from small_tasks import with_one_bench_size

from cuda_llm.outcomes import Passed
from cuda_llm.tasks.loader import list_tasks, load_task
from cuda_llm.tasks.task import Task
from cuda_llm.tools.judge.device_bench import open_bench
from cuda_llm.tools.judge.judge import Judged, judge
from cuda_llm.tools.open_device import open_device
from cuda_llm.verdict_wording import describe

JUDGED = styles()
"""Baseline and playbook of every task are judged with the playbooks."""
TIED = sample(list_tasks(), every=9)


def judge_file(task: Task, path: Path) -> Judged:
    async def run() -> Judged:
        bench = open_bench(task, open_device("emulated"))
        baseline = asyncio.ensure_future(bench.time_baseline())
        judged = await judge(bench, path.read_text(), path.name, baseline=baseline)
        await baseline
        return judged

    return asyncio.run(run())


@pytest.mark.parametrize("path", JUDGED, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_an_honest_kernel_passes(path: Path) -> None:
    task = with_one_bench_size(load_task(path.parent.name))
    verdict = judge_file(task, path).verdict
    assert isinstance(verdict, Passed), f"{verdict.code}: {describe(verdict)}"
    assert verdict.profile is not None
    assert verdict.profile.speedup is not None
    assert verdict.profile.bottlenecks


@pytest.mark.parametrize("task", TIED)
def test_the_baseline_passes_and_ties_with_itself(task: str) -> None:
    loaded = with_one_bench_size(load_task(task))
    verdict = judge_file(loaded, loaded.baseline).verdict
    assert isinstance(verdict, Passed), f"{verdict.code}: {describe(verdict)}"
    assert verdict.profile is not None
    assert verdict.profile.speedup == pytest.approx(1.0, rel=0.1)
