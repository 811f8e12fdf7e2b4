"""A stream, a workspace and an output of stated content, on the emulated device."""

import asyncio
from pathlib import Path

from cuda_llm.outcomes import UninitialisedRead, Verdict, WrongResult
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.judge.admission import check_task
from cuda_llm.tools.judge.judge import judge, open_bench
from cuda_llm.tools.open_device import DEFAULT_GPU, open_emulated

TASK = load_task(Path(__file__).parents[1] / "fixtures/tasks/argument_roles")
KERNEL = TASK.baseline.read_text()


def judged(source: str) -> Verdict:
    async def run() -> Verdict:
        bench = open_bench(TASK, open_emulated(DEFAULT_GPU))
        baseline = asyncio.ensure_future(bench.time_baseline())
        return (await judge(bench, source, "k.cu", baseline=baseline)).verdict

    return asyncio.run(run())


def test_a_task_of_all_roles_is_admissible_emulated() -> None:
    admission = asyncio.run(check_task(TASK, open_emulated(DEFAULT_GPU)))
    assert admission.ok, admission.problems


def test_a_workspace_holds_nothing_at_first() -> None:
    reads = KERNEL.replace("int most = partial[0];", "int most = partial[blocks - 1];").replace(
        "partial[blockIdx.x] = most;", "if (blockIdx.x) partial[blockIdx.x] = most;"
    )
    verdict = judged(reads)
    assert isinstance(verdict, UninitialisedRead), verdict


def test_an_output_holds_what_the_task_states() -> None:
    overwrites = KERNEL.replace("total[2] = most;", "total[2] = most; total[1] = 0;")
    verdict = judged(overwrites)
    assert isinstance(verdict, WrongResult), verdict
