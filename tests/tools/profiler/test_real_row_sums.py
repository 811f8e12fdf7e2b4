"""Rows summed by a thread each are no tie with rows summed by warps, and the loads are to blame."""

import asyncio

import pytest

from cuda_llm.profile import limiter
from cuda_llm.tools.compiler.compile import compile_candidate
from cuda_llm.tools.device import CallOptions, CallReport, Level, SamplingSession, Scalar
from cuda_llm.tools.device.buffers import BufferSpec, Role
from cuda_llm.tools.device.candidate import Compiled, CompileRequest
from cuda_llm.tools.open_device import open_emulated
from cuda_llm.tools.profiler.bottlenecks import list_bottlenecks

BY_THREADS = """
__global__ void row_sums(const float* x, float* y, int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int c = 0; c < cols; ++c)
        sum += x[(size_t)row * cols + c]; // a row apart
    y[row] = sum;
}
extern "C" void solve(const float* x, float* y, int rows, int cols)
{
    row_sums<<<(rows + 127) / 128, 128>>>(x, y, rows, cols);
}
"""
BY_WARPS = """
__global__ void row_sums(const float* x, float* y, int rows, int cols)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int c = lane; c < cols; c += 32)
        sum += x[(size_t)row * cols + c];
    for (int other = 16; other; other /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, other);
    if (lane == 0) y[row] = sum;
}
extern "C" void solve(const float* x, float* y, int rows, int cols)
{
    row_sums<<<(rows + 3) / 4, 128>>>(x, y, rows, cols);
}
"""


async def sample(source: str, rows: int, cols: int) -> CallReport:
    device = open_emulated("H200")
    request = CompileRequest(source=source, name="rows.cu", target=device.hardware.target)
    compiled = await compile_candidate(request)
    assert isinstance(compiled, Compiled), compiled
    async with device.open(compiled) as session:
        assert isinstance(session, SamplingSession), session
        session.place_unfilled(
            (
                BufferSpec(name="x", role=Role.IN, dtype="float32", shape=(rows, cols)),
                BufferSpec(name="y", role=Role.OUT, dtype="float32", shape=(rows,)),
            ),
            {"x": bytes(4 << 20)},
        )
        dims = [Scalar(value=extent, ctype="int") for extent in (rows, cols)]
        options = CallOptions(level=Level.SAMPLE, schedule_seed=3, limit_s=60)
        report = await session.sample(["x", "y", *dims], options)
    assert isinstance(report, CallReport), report
    return report


@pytest.mark.parametrize(("rows", "cols"), [(65_536, 1_024), (262_144, 256), (16_384, 4_096)])
def test_rows_by_threads_are_slower_and_limited_by_their_loads(rows: int, cols: int) -> None:
    apart, beside = (asyncio.run(sample(one, rows, cols)) for one in (BY_THREADS, BY_WARPS))
    assert apart.time_us > 3 * beside.time_us, "an H200 takes 4.2 times as long"
    limit = limiter(list_bottlenecks(apart.bottlenecks))
    assert limit is not None
    assert limit.code == "uncoalesced_global"
    assert limit.spot is not None
    assert "a row apart" in limit.spot.text
