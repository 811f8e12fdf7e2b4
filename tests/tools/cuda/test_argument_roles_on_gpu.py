"""A stream, a workspace and an output of stated content in the captured graphs of a GPU."""

import asyncio
from pathlib import Path

import pytest

from cuda_llm import judge
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import Passed, WrongResult
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.judge.admission import check_task
from cuda_llm.tools.open_device import open_device

pytestmark = pytest.mark.gpu
TASK = load_task(Path(__file__).parents[2] / "fixtures/tasks/argument_roles")
KERNEL = TASK.baseline.read_text()


def test_a_task_of_all_roles_is_admissible(gpu: tuple[Hardware, str]) -> None:
    admission = asyncio.run(check_task(TASK, open_device("cuda:0")))
    assert admission.ok, admission.problems


def test_what_is_launched_on_the_given_stream_is_timed(gpu: tuple[Hardware, str]) -> None:
    verdict = judge(TASK, KERNEL, device="cuda:0").verdict
    assert isinstance(verdict, Passed), verdict
    assert verdict.profile is not None
    assert all(one.time_us > 0 for one in verdict.profile.sizes)


def test_an_output_holds_what_the_task_states_at_each_call(gpu: tuple[Hardware, str]) -> None:
    overwrites = KERNEL.replace("total[2] = most;", "total[2] = most; total[1] = 0;")
    assert isinstance(judge(TASK, overwrites, device="cuda:0").verdict, WrongResult)
