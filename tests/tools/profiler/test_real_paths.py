"""The longest path through a block of a real kernel names the lines that its last warp waits at."""

import asyncio

import pytest

from cuda_llm.profile import Phase
from cuda_llm.tools.compiler.compile import compile_candidate
from cuda_llm.tools.device import CallOptions, CallReport, Level, SamplingSession, Scalar
from cuda_llm.tools.device.buffers import BufferSpec, Role
from cuda_llm.tools.device.candidate import Compiled, CompileRequest
from cuda_llm.tools.open_device import open_emulated

SOURCE = """
__global__ void row_sums(const float* x, float* y, int cols)
{
    __shared__ float sums[32];
    float sum = 0.0f;
    if (threadIdx.x < 32)
        for (int c = threadIdx.x; c < cols; c += 32)
            sum += __ldcv(x + (size_t)blockIdx.x * cols + c); // the first warp waits
    for (int other = 16; other; other /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, other);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads(); // the others wait for it
    if (threadIdx.x == 255) atomicExch(y + blockIdx.x, sums[0] + sums[7]); // the last one joins
}
extern "C" void solve(const float* x, float* y, int rows, int cols)
{
    row_sums<<<rows, 256>>>(x, y, cols);
}
"""
ROWS, COLS = 64, 2048


IN_CLUSTERS = """
__global__ __cluster_dims__(2) void row_sums(const float* x, float* y, int cols)
{
    asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
    BETWEEN
    float read = __ldcv(x + (size_t)blockIdx.x * cols + threadIdx.x);
    if (read < 0.0f) y[blockIdx.x] = read;
    BEHIND
    if (threadIdx.x == 0) y[blockIdx.x] = read;
}
extern "C" void solve(const float* x, float* y, int rows, int cols)
{
    row_sums<<<rows, 256>>>(x, y, cols);
}
"""
WAIT = 'asm volatile("barrier.cluster.wait.aligned;" ::: "memory");'


async def sample(source: str, level: Level = Level.SAMPLE) -> CallReport:
    device = open_emulated("H200")
    request = CompileRequest(source=source, name="rows.cu", target=device.hardware.target)
    compiled = await compile_candidate(request)
    assert isinstance(compiled, Compiled), compiled
    async with device.open(compiled) as session:
        assert isinstance(session, SamplingSession), session
        buffers = (
            BufferSpec(name="x", role=Role.IN, dtype="float32", shape=(ROWS, COLS)),
            BufferSpec(name="y", role=Role.OUT, dtype="float32", shape=(ROWS,)),
        )
        session.place_unfilled(buffers, {"x": bytes(4 << 10)})
        dims = [Scalar(value=extent, ctype="int") for extent in (ROWS, COLS)]
        options = CallOptions(level=level, schedule_seed=3, limit_s=60)
        report = await session.sample(["x", "y", *dims], options)
    assert isinstance(report, CallReport), report
    return report


@pytest.fixture(scope="module")
def phases() -> dict[str, Phase]:
    (launch,) = asyncio.run(sample(SOURCE)).launches
    return {one.kind: one for one in launch.phases}


def test_a_warp_that_ends_last_has_the_path_of_the_warp_it_waited_for(
    phases: dict[str, Phase],
) -> None:
    """64 loads in a chain, 690 clocks each from DRAM, by a warp that does not end last."""
    load = phases["load"]
    assert load.clk > 0.5 * sum(one.clk for one in phases.values())
    assert load.spot is not None
    assert "the first warp waits" in load.spot.text


def test_what_comes_behind_a_load_does_not_blame_the_load(phases: dict[str, Phase]) -> None:
    merge = phases["merge"]
    assert merge.spot is not None
    assert "the last one joins" in merge.spot.text
    assert "__shfl_xor_sync" in (phases["reduce"].spot or merge.spot).text


@pytest.mark.parametrize(
    ("place", "least_clk", "most_clk"), [("BETWEEN", 390, 450), ("BEHIND", 0, 40)]
)
def test_a_barrier_of_a_cluster_that_a_load_hides_costs_nothing(
    place: str, least_clk: float, most_clk: float
) -> None:
    """A barrier takes 400 clocks from the last arrival on, and a load from DRAM 690."""
    source = IN_CLUSTERS.replace(place, WAIT).replace("BETWEEN", "").replace("BEHIND", "")
    (launch,) = asyncio.run(sample(source, Level.ACCOUNT)).launches
    waited_clk = {one.kind: one.clk for one in launch.phases}
    assert least_clk <= waited_clk.get("barrier", 0.0) <= most_clk
    assert waited_clk["load"] >= 690
