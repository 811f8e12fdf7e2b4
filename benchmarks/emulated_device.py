"""The emulated device: its speed, what it says of three transposes, what judging on it costs.

    python benchmarks/emulated_device.py speed | transposes | judging

`speed`: how fast it executes a tiled 512 x 512 x 512 fp32 matrix product. Bars on one core:
<= 0.5 s with every safety check, <= 1 s with races as well.
Times are of the call alone, as the session reports it, after one warm-up call.

`transposes`: do the modelled times of three transposes come in the right order, for the right
reasons? Expected: tiled + padded faster than tiled unpadded, faster than naive; the reasons are
bank conflicts and uncoalesced stores on the marked lines.

`judging`: what an honest kernel of each task costs, its baseline timed and everything compiled
before: processor seconds of this process and all below it, because other work stretches the clock.
`--beside` names the Python of another checkout, whose judge takes turns with this one. Bar: twice
what it took before calls were repeated and timed sizes checked.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import record

from cuda_llm.outcomes import Passed, Verdict
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.compiler.compile import compile_candidate, compile_request
from cuda_llm.tools.device import CallOptions, CallReport, Device, Level, Scalar, Session, Site
from cuda_llm.tools.device.buffers import BufferSpec, Role
from cuda_llm.tools.device.candidate import Compiled, CompileRequest
from cuda_llm.tools.judge.bench_slots import open_slots
from cuda_llm.tools.judge.device_bench import DeviceBench
from cuda_llm.tools.judge.judge import judge
from cuda_llm.tools.open_device import open_device

MATMUL = record.ROOT / "benchmarks/kernels/matmul_tiled.cu"
N = 512
BARS_S = {Level.CHECK: 0.5, Level.FULL: 1.0}


async def measure_speed(runs: int, limit_s: float) -> dict[str, list[float]]:
    """Measure the seconds of each call, by level."""
    task, device = load_task("matrix_multiplication"), open_device("emulated")
    compiled = await compile_candidate(
        compile_request(task, device.target, MATMUL.read_text(), MATMUL.name)
    )
    assert isinstance(compiled, Compiled), compiled
    return await device.carry_out(time_levels, compiled, runs, limit_s)


async def time_levels(
    site: Site, compiled: Compiled, runs: int, limit_s: float
) -> dict[str, list[float]]:
    """Time calls at every level in one session, until the time is up."""
    deadline = time.monotonic() + limit_s
    seconds: dict[str, list[float]] = {}
    async with site.open(compiled) as session:
        assert isinstance(session, Session), session
        for level in Level:
            seconds[level] = []
            for run in range(runs + 1):
                if time.monotonic() < deadline or not seconds[level]:
                    wall_s = await call(session, level)
                    seconds[level] += [wall_s] if run else []
    return seconds


async def call(session: Session, level: Level) -> float:
    """Compute one product, verify it, and return the seconds of the call."""
    specs = [
        BufferSpec(name=name, role=role, dtype="float32", shape=(N, N))
        for name, role in (("A", Role.IN), ("B", Role.IN), ("C", Role.OUT))
    ]
    placed = session.place(specs)
    rng = np.random.default_rng(1)
    for name in "AB":
        placed[name].data[...] = rng.standard_normal((N, N), dtype=np.float32)
    sizes = [Scalar(value=N, ctype="int")] * 3
    report = await session.call(["A", "B", "C", *sizes], CallOptions(level=level, limit_s=60))
    assert isinstance(report, CallReport), report
    a, b, c = (np.asarray(placed[name].data, dtype=np.float64) for name in "ABC")
    assert np.abs(c - a @ b).max() < 1e-3
    return report.wall_s


def time_matmul() -> None:
    """Measure, print, record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--limit-s", type=float, default=120)
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    arguments = parser.parse_args()
    measured = asyncio.run(measure_speed(arguments.runs, arguments.limit_s))
    figures = {
        level: {
            "median": round(statistics.median(seconds), 3),
            "min": round(min(seconds), 3),
            "max": round(max(seconds), 3),
            "runs": len(seconds),
            "bar": BARS_S.get(Level(level)),
        }
        for level, seconds in measured.items()
    }
    for level, row in figures.items():
        print(f"{level:8} {row}")
    print(record.write("emulator_speed", {"unit": "s", "levels": figures}, arguments.results))


NAIVE = """
__global__ void transpose(const float* in, float* out, int rows, int cols)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x < cols && y < rows) out[(size_t)x * rows + y] = in[(size_t)y * cols + x];
}
extern "C" void solve(const float* in, float* out, int rows, int cols)
{
    transpose<<<dim3((cols + 31) / 32, (rows + 7) / 8), dim3(32, 8)>>>(in, out, rows, cols);
}
"""

TILED = """
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
            out[(size_t)(y + i) * rows + x] = tile[threadIdx.x][threadIdx.y + i];
}
extern "C" void solve(const float* in, float* out, int rows, int cols)
{
    transpose<<<dim3((cols + 31) / 32, (rows + 31) / 32), dim3(32, 8)>>>(in, out, rows, cols);
}
"""

VARIANTS = {
    "padded": TILED.replace("WIDTH", "33"),
    "unpadded": TILED.replace("WIDTH", "32"),
    "naive": NAIVE,
}


async def explain(device: Device, name: str, n: int, limit_s: float) -> CallReport:
    """Compile a variant and call it once on n x n floats."""
    request = CompileRequest(source=VARIANTS[name], name=f"{name}.cu", target=device.target)
    compiled = await compile_candidate(request)
    if not isinstance(compiled, Compiled):
        raise SystemExit(f"{name}: {compiled}")
    report = await device.carry_out(call_transpose, compiled, n, limit_s)
    if not isinstance(report, CallReport):
        raise SystemExit(f"{name}: {report}")
    return report


async def call_transpose(
    site: Site, compiled: Compiled, n: int, limit_s: float
) -> CallReport | Verdict:
    """Call a transpose of n x n floats once, fully counted."""
    async with site.open(compiled) as session:
        if not isinstance(session, Session):
            return session
        placed = session.place(
            [
                BufferSpec(name="in", role=Role.IN, dtype="float32", shape=(n, n)),
                BufferSpec(name="out", role=Role.OUT, dtype="float32", shape=(n, n)),
            ]
        )
        placed["in"].data[...] = 1.0
        size = Scalar(value=n, ctype="int")
        options = CallOptions(level=Level.ACCOUNT, limit_s=limit_s)
        return await session.call(["in", "out", size, size], options)


def row(name: str, n: int, report: CallReport) -> dict[str, Any]:
    """Return one report as JSON."""
    first = report.bottlenecks[0]
    return {
        "variant": name,
        "n": n,
        "time_us": round(report.time_us, 2),
        "source": "modelled",
        "reason": first.code,
        "share": round(first.share, 3),
        "explanation": first.explanation,
        "spot": str(first.spot),
        "terms_us": {term: round(us, 2) for term, us in report.launches[0].terms_us.items()},
    }


async def measure_transposes(gpu: str, sizes: list[int], limit_s: float) -> list[dict[str, Any]]:
    """Model every variant at every size until the time is up."""
    device = open_device(f"emulated:{gpu}")
    deadline = time.monotonic() + limit_s
    rows: list[dict[str, Any]] = []
    for n in sizes:
        for name in VARIANTS:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                print(f"stopped after {limit_s:g} s")
                return rows
            rows.append(row(name, n, await explain(device, name, n, left_s)))
            last = rows[-1]
            print(
                f"{n:6} {name:10} {last['time_us']:9.2f} us  "
                f"{last['reason']} ({last['share']:.0%}): {last['explanation']} at {last['spot']}"
            )
    return rows


def model_transposes() -> None:
    """Model, print, record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", default="RTX 3090 Ti")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1024, 1536, 2048])
    parser.add_argument("--limit-s", type=float, default=120)
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    arguments = parser.parse_args()
    rows = asyncio.run(measure_transposes(arguments.gpu, arguments.sizes, arguments.limit_s))
    figures = {"gpu": arguments.gpu, "unit": "us", "rows": rows}
    print(record.write("transpose_model", figures, arguments.results))


HONEST = record.ROOT / "tests/fixtures/honest"
MOST_TIMES = 2.0


def time_judging() -> None:
    """Measure in turns; print and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", help="the Python of another checkout")
    parser.add_argument("--kernels", type=int, default=3, help="of each task")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--judge", type=Path, nargs="*", help="judge these once, and print")
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    arguments = parser.parse_args()
    if arguments.judge:
        print(json.dumps(asyncio.run(judge_all(arguments.judge))))
        return
    pythons = {"now": sys.executable}
    if arguments.beside:
        pythons["before"] = arguments.beside
    tasks = {}
    for folder in sorted(HONEST.iterdir()):
        files = [str(path) for path in sorted(folder.glob("*.cu"))[: arguments.kernels]]
        seconds: dict[str, list[float]] = {which: [] for which in pythons}
        for _ in range(arguments.runs):
            for which, python in pythons.items():
                command = [python, __file__, "judging", "--judge", *files]
                seconds[which] += json.loads(subprocess.check_output(command).splitlines()[-1])
        figures = {which: round(statistics.median(every), 2) for which, every in seconds.items()}
        if arguments.beside:
            pairs = zip(seconds["now"], seconds["before"], strict=True)
            ratios = sorted(now / before for now, before in pairs)
            spread = (ratios[0], statistics.median(ratios), ratios[-1])
            figures |= dict(zip(("least", "ratio", "most"), map(round2, spread), strict=True))
        tasks[folder.name] = figures
        print(folder.name, figures, flush=True)
    whole: dict[str, Any] = {
        "unit": "processor seconds a kernel",
        "tasks": tasks,
        "bar": MOST_TIMES,
    }
    if arguments.beside:
        whole["before"] = record.commit(Path(arguments.beside).parents[2])
    print(record.write("judging_cost", {**whole, "runs": arguments.runs}, arguments.results))


def round2(value: float) -> float:
    """Round to hundredths."""
    return round(value, 2)


async def judge_all(files: list[Path]) -> list[float]:
    """Judge each file twice, what the first compiles left out; return the processor seconds."""
    device = open_device("emulated")
    bench = DeviceBench(
        task=load_task(files[0].parent.name), device=device, slots=open_slots(device)
    )
    baseline = await bench.time_baseline()
    seconds = []
    for source in [path.read_text() for path in files]:
        for _ in range(2):
            began_s = cpu_s()
            judged = await judge(bench, source, baseline=baseline)
            assert isinstance(judged.verdict, Passed), judged.verdict
        seconds.append(cpu_s() - began_s)
    return seconds


def cpu_s() -> float:
    """Return the processor time of this process and all below it, alive or gone."""
    import psutil

    this = psutil.Process()
    every = [one.cpu_times() for one in (this, *this.children(recursive=True))]
    return sum(sum((one.user, one.system, one.children_user, one.children_system)) for one in every)


if __name__ == "__main__":
    record.dispatch({"speed": time_matmul, "transposes": model_transposes, "judging": time_judging})
