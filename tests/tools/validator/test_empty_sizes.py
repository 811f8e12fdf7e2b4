"""Edge sizes without elements: a kernel that is called with none leaves none and reads none."""

from pathlib import Path

import pytest
from typed_tasks import Buffer, typed_task, validated

from cuda_llm.outcomes import IllegalAccess, LaunchFailed
from cuda_llm.tasks.task import Task
from cuda_llm.tools.validator.validate import Validated

TWICE = """
__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
extern "C" void solve(const float* x, float* y, int n) {
    if (n > 0) twice<<<(n + 127) / 128, 128>>>(x, y, n);
}
"""
SIZES = (
    "bench = [{ n = 1024 }]\nedge = [{ n = 0 }, { n = 1 }, { n = 509 }]\n"
    "emulated = [{ n = 1024 }]\n[sizes.hidden]\ncount = 1\ndims.n = { min = 1, max = 500 }\n"
)


@pytest.fixture
def task(tmp_path: Path) -> Task:
    """Twice each element, of none at one size."""
    return typed_task(
        tmp_path,
        [Buffer("x", "float32", distributions=("normal", "outliers")), Buffer("y", "float32")],
        "def reference(xp, *, x):\n    return {'y': 2 * x}\n",
        TWICE,
        tolerance='kind = "elementwise"',
        sizes=SIZES,
    )


def test_a_kernel_that_launches_nothing_for_no_elements_is_right(task: Task) -> None:
    verdict = validated(task, TWICE)
    assert isinstance(verdict, Validated), verdict


def test_a_grid_without_blocks_is_refused(task: Task) -> None:
    verdict = validated(task, TWICE.replace("if (n > 0) ", ""))
    assert isinstance(verdict, LaunchFailed), verdict


def test_what_reads_an_element_that_is_not_there_is_refused(task: Task) -> None:
    first = TWICE.replace("if (n > 0) twice<<<(n + 127) / 128", "twice<<<n / 128 + 1")
    greedy = first.replace(
        "    if (i < n)", "    float least = x[0];\n    if (i < n && least < 1e30f)"
    )
    verdict = validated(task, greedy)
    assert isinstance(verdict, IllegalAccess), verdict
