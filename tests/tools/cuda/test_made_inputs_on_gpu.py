"""Inputs that a task makes together, in the graphs and the sanitizers of a GPU."""

import asyncio
from pathlib import Path

import pytest

from cuda_llm import judge
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import Passed, WrongResult
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.compiler.compile import compile_candidate
from cuda_llm.tools.cuda.inspect import inspect
from cuda_llm.tools.device.candidate import Compiled, CompileRequest
from cuda_llm.tools.device.inspection import InspectionOptions
from cuda_llm.tools.judge.admission import check_task
from cuda_llm.tools.open_device import open_device

pytestmark = pytest.mark.gpu
TASK = load_task(Path(__file__).parents[2] / "fixtures/tasks/sparse_rows")
KERNEL = TASK.baseline.read_text()


def test_a_task_with_made_inputs_is_admissible(gpu: tuple[Hardware, str]) -> None:
    admission = asyncio.run(check_task(TASK, open_device("cuda:0")))
    assert admission.ok, admission.problems


def test_a_right_kernel_passes_and_is_timed(gpu: tuple[Hardware, str]) -> None:
    verdict = judge(TASK, KERNEL, device="cuda:0").verdict
    assert isinstance(verdict, Passed), verdict
    assert verdict.profile is not None
    assert all(one.time_us > 0 for one in verdict.profile.sizes)


def test_a_kernel_for_rows_of_one_length_is_refused(gpu: tuple[Hardware, str]) -> None:
    even = KERNEL.replace("i < offsets[row + 1]", "i < offsets[row] + (offsets[1] - offsets[0])")
    assert even != KERNEL
    assert isinstance(judge(TASK, even, device="cuda:0").verdict, WrongResult)


def test_sanitizers_see_the_offsets_that_the_task_makes(gpu: tuple[Hardware, str]) -> None:
    """Random offsets would lead out of `values`."""
    built = asyncio.run(compile_candidate(CompileRequest(source=KERNEL, target="sm_90a")))
    assert isinstance(built, Compiled)
    dims = TASK.sizes.emulated[-1]
    found = asyncio.run(inspect(TASK, built, dims, InspectionOptions()))
    assert found.sanitized
    assert all(one.state == "clean" for one in found.sanitized), found.sanitized
