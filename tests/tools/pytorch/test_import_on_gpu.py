"""A kernel beside a module of PyTorch on a real GPU."""

from dataclasses import replace
from pathlib import Path

import pytest

from cuda_llm import judge
from cuda_llm.errors import MissingError
from cuda_llm.hardware_profiles.roofline import roof
from cuda_llm.outcomes import Passed
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.open_device import open_device
from cuda_llm.tools.pytorch.import_tasks import import_problems

PROBLEM = Path(__file__).parents[2] / "fixtures/kernelbench/1_Scaled_ReLU.py"
ROWS = COLUMNS = 1 << 14
KERNEL = """
__global__ void scale(const float* x, float* out, long long n)
{
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = x[i] > 0.0f ? 0.5f * x[i] : 0.0f;
}

extern "C" void solve(const float* x, float* out, int rows, int columns)
{
    const long long n = (long long)rows * columns;
    scale<<<(unsigned)((n + 255) / 256), 256>>>(x, out, n);
}
"""


@pytest.mark.gpu
def test_neither_of_two_sessions_of_other_kinds_is_timed_faster_than_memory_is(
    tmp_path: Path,
) -> None:
    try:
        device = open_device("cuda:0")
    except MissingError as error:
        pytest.skip(f"no GPU is here: {error}")
    folder = next(import_problems(PROBLEM, tmp_path)).folder
    assert folder is not None
    task = load_task(folder)
    bench_size = {"rows": ROWS, "columns": COLUMNS}
    task = replace(task, sizes=replace(task.sizes, bench=(bench_size,)))
    verdict = judge(task, KERNEL, device=device).verdict
    assert isinstance(verdict, Passed), verdict
    assert verdict.profile is not None
    size = verdict.profile.sizes[0]
    least_us = roof(device.hardware, flops=0, bytes_moved=8 * ROWS * COLUMNS).memory_us
    assert size.baseline_us is not None
    assert size.time_us > least_us
    # Two eager operators move twice as much; both are differences of batches, known within a tenth.
    assert size.baseline_us > 0.9 * 2 * least_us
    assert size.baseline_us > size.time_us
