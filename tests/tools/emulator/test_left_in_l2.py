"""What launches, fills and copies of a call leave in L2 for the launches after them."""

import asyncio
from functools import cache

import pytest
from unfilled_calls import call_source

from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.device import CallReport, Level
from cuda_llm.tools.emulator.device import EmulatedDevice
from cuda_llm.tools.open_device import open_emulated

MOST = 1 << 21
KERNELS = f"""
#include <cuda_runtime.h>
__device__ float workspace[{MOST}];
__global__ void first(const float* a, float* w, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) w[i] = a[i];
}}
__global__ void second(const float* w, const float* b, float* c, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = w[i] + b[i];
}}
"""
BY_A_WORKSPACE = (
    KERNELS
    + """
extern "C" void solve(const float* A, const float* B, float* C, int n) {
  float* w;
  cudaGetSymbolAddress((void**)&w, workspace);
  first<<<(n + 255) / 256, 256>>>(A, w, n);
  second<<<(n + 255) / 256, 256>>>(w, B, C, n);
}
"""
)
BY_HALVES = (
    KERNELS
    + """
extern "C" void solve(const float* A, const float* B, float* C, int n) {
  int half = n / 2;
  second<<<(half + 255) / 256, 256>>>(A, B, C, half);
  second<<<(half + 255) / 256, 256>>>(A + half, B + half, C + half, n - half);
}
"""
)
AFTER_A_FILL = (
    KERNELS
    + """
extern "C" void solve(const float* A, const float* B, float* C, int n) {
  cudaMemset(C, 0, sizeof(float) * n);
  second<<<(n + 255) / 256, 256>>>(A, B, C, n);
}
"""
)


@cache
def device(gpu: str) -> EmulatedDevice:
    return open_emulated(gpu)


def dram_bytes(source: str, n: int, *, gpu: str = "H200", level: Level = Level.ACCOUNT) -> float:
    """Return what the last launch of `second` moves between L2 and DRAM."""
    task = load_task("vector_add")
    report = asyncio.run(call_source(task, device(gpu), source, {"n": n}, level))
    assert isinstance(report, CallReport), report
    seconds = [one for one in report.launches if one.kernel == "second"]
    return seconds[-1].figures["dram_bytes"]


@pytest.mark.parametrize("level", [Level.ACCOUNT, Level.SAMPLE])
def test_a_workspace_that_fits_is_read_from_l2(level: Level) -> None:
    moved = dram_bytes(BY_A_WORKSPACE, MOST, level=level)
    assert moved == pytest.approx(2 * 4 * MOST, rel=0.02)


@pytest.mark.evidence
def test_of_what_overflowed_l2_the_rest_is_fetched_again() -> None:
    n = 5_000_000 // 4
    moved = dram_bytes(BY_A_WORKSPACE, n, gpu="RTX 3090 Ti")
    left = device("RTX 3090 Ti").hardware.l2_bytes / 2
    assert moved == pytest.approx(3 * 4 * n - left, rel=0.02)


@pytest.mark.evidence
@pytest.mark.parametrize("level", [Level.ACCOUNT, Level.SAMPLE])
def test_another_part_of_the_same_buffers_is_not_in_l2(level: Level) -> None:
    moved = dram_bytes(BY_HALVES, MOST, level=level)
    assert moved == pytest.approx(3 * 4 * MOST / 2, rel=0.02)


@pytest.mark.evidence
def test_what_was_filled_is_in_l2() -> None:
    assert dram_bytes(AFTER_A_FILL, MOST) == pytest.approx(2 * 4 * MOST, rel=0.02)
