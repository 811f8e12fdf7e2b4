"""Kernels over bfloat16 judged on a GPU: beside a kernel and beside a call of PyTorch, timed."""

import asyncio
from pathlib import Path

import pytest
from typed_tasks import Buffer, typed_task

from cuda_llm import judge
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import Passed, WrongResult
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task
from cuda_llm.tools.judge.admission import check_task
from cuda_llm.tools.open_device import open_device

pytestmark = pytest.mark.gpu
SUMS = """
__global__ void sums(const __nv_bfloat16* x, __nv_bfloat16* y, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0;
    for (int c = 0; c < cols; c++) sum += __bfloat162float(x[row * (size_t)cols + c]);
    y[row] = __float2bfloat16(sum);
}
extern "C" void solve(const __nv_bfloat16* x, __nv_bfloat16* y, int rows, int cols) {
    sums<<<(rows + 31) / 32, 32>>>(x, y, rows, cols);
}
"""
BY_PYTORCH = '''"""Sums of rows, through torch.sum."""

from typing import Any

NAME = "torch.sum"


def call(torch: Any, *, x: Any, y: Any) -> None:
    torch.sum(x, dim=1, out=y)
'''


@pytest.fixture(params=["kernel", "PyTorch"])
def sums(request: pytest.FixtureRequest, tmp_path: Path) -> Task:
    """Sums of rows, which the task wants kept in fp32 and rounded once."""
    task = typed_task(
        tmp_path,
        [
            Buffer("x", "bfloat16", ("rows", "cols"), ("normal", "mixed", "outliers")),
            Buffer("y", "bfloat16", ("rows",)),
        ],
        "def reference(xp, *, x):\n    return {'y': x.sum(axis=1)}\n\n"
        "def scale(xp, *, x):\n    return {'y': xp.abs(x).sum(axis=1)}\n",
        SUMS,
        tolerance='kind = "reduction"\nterms = "cols"\nprecision = "bf16"',
        dims=("rows", "cols"),
    )
    if request.param == "PyTorch":
        (task.folder / "baseline.cu").unlink()
        (task.folder / "baseline.py").write_text(BY_PYTORCH)
    return load_task(task.folder)


def test_a_task_over_bfloat16_is_admissible(gpu: tuple[Hardware, str], sums: Task) -> None:
    admission = asyncio.run(check_task(sums, open_device("cuda:0")))
    assert admission.ok, admission.problems


def test_a_right_kernel_passes_and_is_timed(gpu: tuple[Hardware, str], sums: Task) -> None:
    verdict = judge(sums, SUMS, device="cuda:0").verdict
    assert isinstance(verdict, Passed), verdict
    assert verdict.profile is not None
    assert all(one.time_us > 0 for one in verdict.profile.sizes)


def test_truncation_is_refused(gpu: tuple[Hardware, str], sums: Task) -> None:
    truncated = SUMS.replace("__float2bfloat16(sum)", "__float2bfloat16_rz(sum)")
    assert isinstance(judge(sums, truncated, device="cuda:0").verdict, WrongResult)
