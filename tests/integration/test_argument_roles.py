"""A stream, a workspace and an output of stated content, on the emulated device."""

import asyncio
from pathlib import Path

from cuda_llm import judge
from cuda_llm.outcomes import UninitialisedRead, WrongResult
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.judge.admission import check_task
from cuda_llm.tools.open_device import DEFAULT_GPU, open_emulated

TASK = load_task(Path(__file__).parents[1] / "fixtures/tasks/argument_roles")
KERNEL = TASK.baseline.read_text()


def test_a_task_of_all_roles_is_admissible_emulated() -> None:
    admission = asyncio.run(check_task(TASK, open_emulated(DEFAULT_GPU)))
    assert admission.ok, admission.problems


def test_a_workspace_holds_nothing_at_first() -> None:
    reads = KERNEL.replace("int most = partial[0];", "int most = partial[blocks - 1];").replace(
        "partial[blockIdx.x] = most;", "if (blockIdx.x) partial[blockIdx.x] = most;"
    )
    verdict = judge(TASK, reads, device="emulated").verdict
    assert isinstance(verdict, UninitialisedRead), verdict


def test_an_output_holds_what_the_task_states() -> None:
    overwrites = KERNEL.replace("total[2] = most;", "total[2] = most; total[1] = 0;")
    verdict = judge(TASK, overwrites, device="emulated").verdict
    assert isinstance(verdict, WrongResult), verdict
