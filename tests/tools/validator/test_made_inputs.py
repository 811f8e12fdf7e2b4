"""Kernels over inputs that inputs.py makes together, judged whole by the emulated device."""

import asyncio
from pathlib import Path

import pytest
from typed_tasks import validated

from cuda_llm import judge
from cuda_llm.outcomes import IllegalAccess, Passed, WrongResult
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.judge.admission import check_task
from cuda_llm.tools.open_device import open_device

TASK = load_task(Path(__file__).parents[2] / "fixtures/tasks/sparse_rows")
WARP_A_ROW = """
__global__ void add_rows(const int* offsets, const float* values, const float* weights,
    float* sums, int rows)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int i = offsets[row] + lane; i < offsets[row + 1]; i += 32) sum += values[i];
    for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    if (lane == 0) sums[row] = weights[row] * sum;
}

extern "C" void solve(const int* offsets, const float* values, const float* weights,
    float* sums, int rows)
{
    add_rows<<<(rows + 3) / 4, 128>>>(offsets, values, weights, sums, rows);
}
"""


def test_a_task_with_made_inputs_is_admissible() -> None:
    admission = asyncio.run(check_task(TASK, open_device("emulated:H200")))
    assert admission.ok, admission.problems


def test_another_right_kernel_passes_and_is_timed() -> None:
    verdict = judge(TASK, WARP_A_ROW, device="emulated:H200").verdict
    assert isinstance(verdict, Passed), verdict
    assert verdict.profile is not None
    assert all(one.time_us > 0 for one in verdict.profile.sizes)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Rows of one length, as the timed ones nearly are.
        ("i < offsets[row + 1]", "i < offsets[row] + (offsets[1] - offsets[0])"),
        # At most a warp's turn of the longest row.
        ("i < offsets[row + 1]", "i < min(offsets[row + 1], offsets[row] + 96)"),
        # Empty rows are left out.
        ("if (lane == 0) ", "if (lane == 0 && offsets[row] < offsets[row + 1]) "),
        ("offsets[row] + lane; i <", "offsets[row] + lane; i <="),
    ],
)
def test_kernels_that_hold_for_some_offsets_alone_are_refused(old: str, new: str) -> None:
    assert old in WARP_A_ROW
    verdict = validated(TASK, WARP_A_ROW.replace(old, new))
    assert isinstance(verdict, WrongResult | IllegalAccess), verdict
