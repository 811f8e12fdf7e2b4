"""Kernels of different kinds agree with NumPy."""

import numpy as np
import pytest
from device_calls import run

from cuda_llm.tools.device import CallOptions, Level

VECTOR_ADD = """
__global__ void add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
extern "C" void solve(const float* a, const float* b, float* c, int n) {
  add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
"""
TRANSPOSE = """
__global__ void transpose(const float* in, float* out, int rows, int cols) {
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  if (x < cols && y < rows) tile[threadIdx.y][threadIdx.x] = in[y * cols + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x;
  y = blockIdx.x * 32 + threadIdx.y;
  if (x < rows && y < cols) out[y * rows + x] = tile[threadIdx.x][threadIdx.y];
}
extern "C" void solve(const float* in, float* out, int rows, int cols) {
  dim3 grid((cols + 31) / 32, (rows + 31) / 32);
  transpose<<<grid, dim3(32, 32)>>>(in, out, rows, cols);
  cudaDeviceSynchronize();
}
"""
REDUCTION = """
__global__ void partial(const float* in, float* sums, int n) {
  extern __shared__ float s[];
  float mine = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    mine += in[i];
  s[threadIdx.x] = mine;
  __syncthreads();
  for (int half = blockDim.x / 2; half >= 32; half /= 2) {
    if (threadIdx.x < half) s[threadIdx.x] += s[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x < 32) {
    float v = s[threadIdx.x];
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(~0u, v, d);
    if (threadIdx.x == 0) sums[blockIdx.x] = v;
  }
}
extern "C" void solve(const float* in, float* out, int n) {
  const int blocks = 64;
  float* sums;
  cudaMalloc(&sums, blocks * sizeof(float));
  partial<<<blocks, 256, 256 * sizeof(float)>>>(in, sums, n);
  partial<<<1, 64, 64 * sizeof(float)>>>(sums, out, blocks);
  cudaFree(sums);
}
"""
COOPERATIVE = """
#include <cooperative_groups.h>
__device__ int total;
__global__ void count(int* out, int n) {
  auto grid = cooperative_groups::this_grid();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) total = 0;
  grid.sync();
  if (i < n) atomicAdd(&total, i);
  grid.sync();
  if (i < n) out[i] = total;
}
extern "C" void solve(int* out, int n) {
  void* arguments[] = {&out, &n};
  cudaLaunchCooperativeKernel((void*)count, dim3(8), dim3(128), arguments, 0, 0);
}
"""
CONSTANTS = """
#include <cstdio>
__constant__ float table[4];
__global__ void look_up(const int* in, float* out, int n) {
  int i = threadIdx.x;
  if (i < n) out[i] = table[in[i]];
  if (i == 0) printf("first is %d of %d\\n", in[0], n);
}
extern "C" void solve(const int* in, float* out, int n) {
  const float values[] = {0.5f, 1.5f, 2.5f, 3.5f};
  cudaMemcpyToSymbol(table, values, sizeof values);
  look_up<<<1, 128>>>(in, out, n);
}
"""
rng = np.random.default_rng(7)


@pytest.mark.parametrize("level", list(Level))
def test_vector_add(level: Level) -> None:
    n = 10_007
    a, b = (rng.random(n, dtype=np.float32) for _ in range(2))
    values = {"a": a, "b": b, "c": np.full(n, np.nan, np.float32)}
    called = run(VECTOR_ADD, values, ["c"], n, options=CallOptions(level=level))
    assert np.array_equal(called.outputs["c"], a + b)
    assert called.report.notes["launches"] == "1"


@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (33, 65), (128, 96)])
@pytest.mark.parametrize("seed", [0, 3])
def test_transpose_in_any_order_of_blocks(rows: int, cols: int, seed: int) -> None:
    matrix = rng.random((rows, cols), dtype=np.float32)
    values = {"in": matrix, "out": np.zeros((cols, rows), np.float32)}
    options = CallOptions(level=Level.FULL, schedule_seed=seed)
    called = run(TRANSPOSE, values, ["out"], rows, cols, options=options)
    assert np.array_equal(called.outputs["out"], matrix.T)


def test_reduction_with_scratch_memory_and_two_launches() -> None:
    n = 50_001
    data = rng.random(n, dtype=np.float32)
    values = {"in": data, "out": np.zeros(1, np.float32)}
    called = run(REDUCTION, values, ["out"], n, options=CallOptions(level=Level.ACCOUNT))
    assert called.outputs["out"][0] == pytest.approx(data.sum(dtype=np.float64), rel=1e-5)
    assert [launch.grid for launch in called.report.launches] == [(64, 1, 1), (1, 1, 1)]
    assert [launch.kernel for launch in called.report.launches] == ["partial", "partial"]
    assert called.report.time_us == pytest.approx(
        sum(launch.time_us for launch in called.report.launches)
    )


def test_grid_sync_by_cooperative_launch() -> None:
    n = 1000
    called = run(COOPERATIVE, {"out": np.zeros(n, np.int32)}, ["out"], n)
    assert called.report
    assert np.array_equal(called.outputs["out"], np.full(n, n * (n - 1) // 2))


def test_constant_memory_and_device_printf() -> None:
    index = rng.integers(0, 4, 100).astype(np.int32)
    values = {"in": index, "out": np.zeros(100, np.float32)}
    called = run(CONSTANTS, values, ["out"], 100)
    assert np.array_equal(called.outputs["out"], index + np.float32(0.5))
    assert called.report.output == f"first is {index[0]} of 100\n"
