"""Real transposes, compiled by nvcc and run by the emulated device: order, reasons and lines."""

import asyncio
from pathlib import Path

import pytest

from cuda_llm.tools.compiler.compile import compile_candidate
from cuda_llm.tools.device import CallOptions, CallReport, Level, Scalar, Session
from cuda_llm.tools.device.buffers import BufferSpec, Role
from cuda_llm.tools.device.candidate import Compiled, CompileRequest
from cuda_llm.tools.emulator.call_report import EmulatedCallReport
from cuda_llm.tools.open_device import open_emulated
from cuda_llm.tools.profiler.bottlenecks import list_bottlenecks

NAIVE = Path(__file__).parents[3] / "tasks/matrix_transpose/baseline.cu"

TILED = """
#define WIDTH 32
__global__ void transpose(const float* in, float* out, int rows, int cols)
{
    __shared__ float tile[32][WIDTH];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        if (x < cols && y + i < rows)
            tile[threadIdx.y + i][threadIdx.x] = in[(size_t)(y + i) * cols + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        if (x < rows && y + i < cols)
            out[(size_t)(y + i) * rows + x] = tile[threadIdx.x][threadIdx.y + i]; // conflicts
}
extern "C" void solve(const float* in, float* out, int rows, int cols)
{
    transpose<<<dim3((cols + 31) / 32, (rows + 31) / 32), dim3(32, 8)>>>(in, out, rows, cols);
}
"""
SOURCES = {
    "padded.cu": TILED.replace("#define WIDTH 32", "#define WIDTH 33"),
    "unpadded.cu": TILED,
    "naive.cu": NAIVE.read_text(),
}


async def explain(name: str, n: int) -> EmulatedCallReport:
    report = await call(name, n, Level.ACCOUNT)
    assert isinstance(report, EmulatedCallReport), report
    return report


async def call(name: str, n: int, level: Level) -> CallReport:
    device = open_emulated("RTX 3090 Ti")
    request = CompileRequest(source=SOURCES[name], name=name, target=device.hardware.target)
    compiled = await compile_candidate(request)
    assert isinstance(compiled, Compiled), compiled
    async with device.open(compiled) as session:
        assert isinstance(session, Session), session
        placed = session.place(
            [
                BufferSpec(name="in", role=Role.IN, dtype="float32", shape=(n, n)),
                BufferSpec(name="out", role=Role.OUT, dtype="float32", shape=(n, n)),
            ]
        )
        placed["in"].data[...] = 1.0
        size = Scalar(value=n, ctype="int")
        report = await session.call(["in", "out", size, size], CallOptions(level=level))
    assert isinstance(report, CallReport), report
    return report


@pytest.fixture(scope="module", params=[1024, 2048])
def reports(request: pytest.FixtureRequest) -> dict[str, EmulatedCallReport]:
    n = int(request.param)

    async def every() -> dict[str, EmulatedCallReport]:
        return {name: await explain(name, n) for name in SOURCES}

    return asyncio.run(every())


def test_padded_beats_unpadded_beats_naive(reports: dict[str, EmulatedCallReport]) -> None:
    times = {name: report.time_us for name, report in reports.items()}
    assert times["padded.cu"] * 1.05 < times["unpadded.cu"]
    assert times["unpadded.cu"] * 1.05 < times["naive.cu"]


def test_bank_conflicts_are_named_with_their_line(reports: dict[str, EmulatedCallReport]) -> None:
    listed = list_bottlenecks(reports["unpadded.cu"].bottlenecks)
    first = next(one for one in listed if one.saved_us)
    assert first.code == "bank_conflicts"
    assert "32-way" in first.explanation
    assert first.spot is not None
    assert "conflicts" in first.spot.text
    assert first.spot.file == "unpadded.cu"
    assert TILED.splitlines()[first.spot.line - 1].strip() == first.spot.text


def test_uncoalesced_stores_are_named_with_their_line(
    reports: dict[str, EmulatedCallReport],
) -> None:
    first = list_bottlenecks(reports["naive.cu"].bottlenecks)[0]
    assert first.code == "uncoalesced_global"
    assert "32.0 sectors a request where 4.0 would do" in first.explanation
    assert first.spot is not None
    assert "output[" in first.spot.text


def test_the_padded_one_has_neither(reports: dict[str, EmulatedCallReport]) -> None:
    codes = [one.code for one in list_bottlenecks(reports["padded.cu"].bottlenecks)]
    assert codes[0] == "dram_bandwidth"
    assert not {"bank_conflicts", "uncoalesced_global"} & set(codes)


@pytest.mark.parametrize("level", [Level.CHECK, Level.FULL])
def test_other_levels_count_kernels_alone(level: Level) -> None:
    called = asyncio.run(call("unpadded.cu", 512, level))
    assert called.kernels == 1
    assert not called.launches
    assert called.stored_bytes is None
