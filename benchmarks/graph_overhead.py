"""What a candidate costs us beside model, compiler and device: graph, state, trace, checkpoint.

A whole run as `cuda-llm run` makes it (run folder, events, sqlite checkpoint), with a generator and
a bench that answer at once. Runs of one and of five rounds of eight are compared, so that what a
run costs once does not count. Bar: <= 20 ms a candidate at N = 8.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import record

from cuda_llm.agents.situation import Situation
from cuda_llm.graph.judging.bench import Bench
from cuda_llm.graph.overrides import Overrides
from cuda_llm.graph.request import RunRequest
from cuda_llm.graph.runs.start import start
from cuda_llm.outcomes import Passed, Verdict
from cuda_llm.profile import Profile, SizeTime
from cuda_llm.search import Author, Brief, Draft
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.judge.timing import Timing
from cuda_llm.tools.validator.validate import Validated

CANDIDATES, SHORT, LONG = 8, 1, 5
SOURCE = (record.ROOT / "benchmarks/kernels/matmul_tiled.cu").read_text(encoding="utf-8")
BAR_MS = 20.0
NOWHERE = Path("nowhere")


@dataclass(frozen=True)
class AtOnce:
    """A generator and a bench that take no time."""

    name: str = "at_once"
    written_by: Author = "human"

    async def generate(self, brief: Brief, situation: Situation) -> Draft:
        """A kernel of ordinary length, new each time."""
        return Draft(source=f"{SOURCE}\n__constant__ int number_{brief.round}_{brief.index};\n")

    async def time_baseline(self) -> Timing:
        """See `Bench`, as below."""
        return Timing(times=(({"n": 1024}, 100.0),), launches=(), bottlenecks=())

    async def compile(self, source: str, name: str) -> Compiled | Verdict:
        return Compiled(
            key="",
            name=name,
            source=source,
            target="sm_86",
            library=NOWHERE,
            ptx=NOWHERE,
            kernels=(),
        )

    async def validate(self, compiled: Compiled) -> Validated | Verdict:
        return Validated(checked={"sizes": 11, "hidden": 4})

    async def profile(self, compiled: Compiled, validated: Validated, baseline: Timing) -> Verdict:
        size = SizeTime(dims={"n": 1024}, time_us=50.0, baseline_us=100.0, source="modelled")
        return Passed(
            profile=Profile(
                device="none", hardware="none", source="modelled", sizes=(size,), speedup=2.0
            )
        )

    def afresh(self) -> Bench:
        return self


async def run(rounds: int, out: str) -> tuple[float, float, int]:
    """Wall and processor seconds of one run, and the bytes of its checkpoint."""
    request = RunRequest(
        task="vector_add", device="emulated", candidates=CANDIDATES, rounds=rounds, out=out, tune=0
    )
    parts = AtOnce()
    wall, cpu = time.perf_counter(), time.process_time()
    result = await start(request, overrides=Overrides(generator=parts, bench=parts))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert len(result.attempts) == rounds * CANDIDATES, result.reason
    return wall, cpu, (result.run_dir / "checkpoint.sqlite").stat().st_size


def main() -> None:
    """Measure, print, record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    more = (LONG - SHORT) * CANDIDATES
    wall_ms, cpu_ms, size = [], [], 0
    with tempfile.TemporaryDirectory() as out:
        asyncio.run(run(SHORT, out))
        for _ in range(runs):
            short_wall, short_cpu, _ = asyncio.run(run(SHORT, out))
            long_wall, long_cpu, size = asyncio.run(run(LONG, out))
            wall_ms.append(1e3 * (long_wall - short_wall) / more)
            cpu_ms.append(1e3 * (long_cpu - short_cpu) / more)
    figures = {
        "unit": "ms a candidate",
        "candidates": CANDIDATES,
        "runs": runs,
        "wall": round(statistics.median(wall_ms), 2),
        "wall_least": round(min(wall_ms), 2),
        "cpu": round(statistics.median(cpu_ms), 2),
        "checkpoint_bytes": size,
        "bar": BAR_MS,
    }
    print(figures)
    print(record.write("graph_overhead", figures))


if __name__ == "__main__":
    main()
