"""How fast the emulated device executes a tiled 512 x 512 x 512 fp32 matrix product.

Bars on one core: <= 0.5 s with every safety check, <= 1 s with shared-memory races and a sampled
account as well. Times are of the call alone, as the session reports it, after one warm-up call.
"""

import argparse
import asyncio
import statistics
import time
from pathlib import Path

import numpy as np
import record

from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.buffers import BufferSpec, Role
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.compiler.compile import compile_candidate
from cuda_llm.tools.compiler.request import compile_request
from cuda_llm.tools.device import CallOptions, CallReport, Level, Scalar, Session
from cuda_llm.tools.devices.find import open_device

SOURCE = record.ROOT / "benchmarks/kernels/matmul_tiled.cu"
N = 512
BARS_S = {Level.CHECK: 0.5, Level.FULL: 1.0}


async def measure(runs: int, limit_s: float) -> dict[str, list[float]]:
    """Seconds of each call, by level."""
    task, device = load_task("matrix_multiplication"), open_device("emulated")
    compiled = await compile_candidate(
        compile_request(task, device.target, SOURCE.read_text(), SOURCE.name)
    )
    assert isinstance(compiled, Compiled), compiled
    deadline = time.monotonic() + limit_s
    seconds: dict[str, list[float]] = {}
    async with device.open(compiled) as session:
        assert isinstance(session, Session), session
        for level in Level:
            seconds[level] = []
            for run in range(runs + 1):
                if time.monotonic() < deadline or not seconds[level]:
                    wall_s = await call(session, level)
                    seconds[level] += [wall_s] if run else []
    return seconds


async def call(session: Session, level: Level) -> float:
    """One verified product."""
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


def main() -> None:
    """Measure, print, record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--limit-s", type=float, default=120)
    parser.add_argument("--out", type=Path, default=record.RESULTS)
    arguments = parser.parse_args()
    measured = asyncio.run(measure(arguments.runs, arguments.limit_s))
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
    print(record.write("emulator_speed", {"unit": "s", "levels": figures}, arguments.out))


if __name__ == "__main__":
    main()
