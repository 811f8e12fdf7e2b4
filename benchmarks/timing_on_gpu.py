"""Can a measured time be trusted? Repeated, against Nsight Compute, A/A, and with a planted 3 %.

    python benchmarks/timing_on_gpu.py --out rows.jsonl

Parts: `repeat` (the same kernel in three processes), `ncu` (cold and warm beside Nsight Compute),
`aa` (a kernel against itself) and `planted` (against a kernel that takes 3 % longer). Each trial is
a row. Each call ends by writing `timing_on_gpu.json`, a summary of all rows, into `--results`.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import record

from cuda_llm.outcomes import InfraFailed
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task
from cuda_llm.tools.compiler.nvcc import find_toolkit
from cuda_llm.tools.cuda.device import CudaDevice
from cuda_llm.tools.cuda.ncu import ncu_duration_us
from cuda_llm.tools.cuda.solve_driver import driver_command
from cuda_llm.tools.device import Device
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.compile import compile_source
from cuda_llm.tools.judge.duel import duel
from cuda_llm.tools.open_device import open_device
from cuda_llm.tools.timing.options import L2, MeasureOptions, Tier

HONEST = record.ROOT / "tests/fixtures/honest"
SPIN = """extern "C" __global__ void spin(const float* A, const float* B, float* C, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = A[i];
  for (int k = 0; k < %d; ++k) x = fmaf(x, 0.999f, 0.001f);
  C[i] = A[i] + B[i] + (x == 12345.678f ? 1.0f : 0.0f);
}
extern "C" void solve(const float* A, const float* B, float* C, int n) {
  spin<<<(n + 255) / 256, 256>>>(A, B, C, n);
}
"""
"""Right, and as slow as its loop is long: four clocks a turn, whatever memory does."""
SPIN_SIZE: Mapping[str, int] = {"n": 65536}
TURNS = {"5 us": 1_900, "50 us": 23_000, "1 ms": 480_000}
MIX = ("5 us", *4 * ("50 us", "1 ms"), "50 us")
"""Of trials, which take longest where a call is short."""
NOTHING = "spinning no time"
SHORT = ("spinning 5 us", "matrix_transpose 01_tiled_padded.cu 1024 x 1024")
"""Of less than 10 us: a profiler's own share of a call counts."""
PROCESSES = 3
PLANTED = 0.03
NCU_PROCESSES = 5
"""Nsight Compute times one call; from one process to the next its time differs by some per cent."""
MOST_UNROLLED = 64
SLOPES: dict[str, float] = {}
"""What `slope_of` has measured."""
PARTS = ("repeat", "ncu", "aa", "planted")
FIGURES = ("cold_us", "warm_us", "ncu_cold_us", "ncu_warm_us")


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One kernel of one task at one size."""

    name: str
    task: str
    dims: Mapping[str, int]
    source: str

    def load(self) -> Task:
        """Load its task with this size alone."""
        task = load_task(self.task)
        return replace(task, sizes=replace(task.sizes, bench=(self.dims,)), weights=())


def spinning(turns: int, name: str) -> Kernel:
    """Return a kernel whose time is known to be linear in `turns`."""
    return Kernel(name=name, task="vector_add", dims=SPIN_SIZE, source=SPIN % turns)


def honest(task: str, file: str, **dims: int) -> Kernel:
    """Return one of the honest fixtures."""
    size = " x ".join(str(extent) for extent in dims.values())
    source = (HONEST / task / file).read_text()
    return Kernel(name=f"{task} {file} {size}", task=task, dims=dims, source=source)


def nothing() -> Kernel:
    """Return a call that is hardly more than its launch."""
    return spinning(1, NOTHING)


def kernels() -> tuple[Kernel, ...]:
    """Return kernels of a few us to 1 ms: bound by latency, by memory, by arithmetic."""
    return (
        *(spinning(turns, f"spinning {name}") for name, turns in TURNS.items()),
        honest("matrix_transpose", "01_tiled_padded.cu", rows=1024, cols=1024),
        honest("matrix_transpose", "01_tiled_padded.cu", rows=4096, cols=4096),
        honest("vector_add", "02_float4_tail.cu", n=4194304),
        honest("vector_add", "02_float4_tail.cu", n=67108864),
        honest("matrix_multiplication", "03_register_blocked.cu", M=1024, N=2048, K=1024),
        honest("conv2d", "02_constant_filter.cu", H=1024, W=1024, R=24, S=24),
    )


async def measure(
    device: Device, one: Kernel, other: Kernel, *, l2: L2 = L2.COLD, tier: Tier = Tier.PRECISE
) -> dict[str, Any]:
    """Run one duel; return its row."""
    task = one.load()
    begun = time.monotonic()
    found = await duel(
        task,
        device,
        await built(task, device, one),
        await built(task, device, other),
        options=MeasureOptions(tier=tier, l2=l2),
    )
    if isinstance(found, InfraFailed):
        return {"fault": {"machine": f"{found.code}: {found.detail}"}}
    if found.faults:
        return {"fault": {which: verdict.code for which, verdict in found.faults.items()}}
    (size,) = found.sizes
    return {
        "first_us": size.first_us,
        "second_us": size.second_us,
        "ratio": found.ratio,
        "low": found.low,
        "high": found.high,
        "floor": size.floor,
        "blocks": size.blocks,
        "outcome": found.outcome,
        "seconds": round(time.monotonic() - begun, 3),
    }


async def built(task: Task, device: Device, kernel: Kernel) -> Compiled:
    """Compile the kernel; a benchmark's own kernels have to compile."""
    compiled = await compile_source(task, device, kernel.source, "kernel.cu")
    if not isinstance(compiled, Compiled):
        raise SystemExit(f"{kernel.name}: {compiled}")
    return compiled


TimedTrial = Callable[[Device], Awaitable[dict[str, Any]]]


def repeats(holding: str) -> Iterator[tuple[str, TimedTrial]]:
    """Yield every kernel once: the script is run three times, each with its own `--process`."""
    for kernel in kernels():
        if holding in kernel.name:
            yield kernel.name, partial(measure, one=kernel, other=kernel)


def against_ncu(holding: str) -> Iterator[tuple[str, TimedTrial]]:
    """Yield trials beside Nsight Compute with and without its cache flush."""
    for kernel in (nothing(), *kernels()):
        if holding in kernel.name and kernel.name not in SHORT:
            yield kernel.name, partial(beside_ncu, kernel=kernel)


async def beside_ncu(device: Device, kernel: Kernel) -> dict[str, Any]:
    """Return our two times and Nsight Compute's two."""
    task = kernel.load()
    cold = await measure(device, kernel, kernel)
    warm = await measure(device, kernel, kernel, l2=L2.WARM)
    compiled, toolkit = await built(task, device, kernel), find_toolkit()
    times: dict[bool, list[float]] = {False: [], True: []}
    for number in range(NCU_PROCESSES):
        command = driver_command(
            toolkit, task, compiled, kernel.dims, Path(), seed=number, warm_ups=3, confined=False
        )
        for cache, times_us in times.items():
            time_us = await ncu_duration_us(command, cache=cache)
            times_us += [time_us] if isinstance(time_us, float) else []
    return {
        "cold_us": cold.get("first_us"),
        "warm_us": warm.get("first_us"),
        **{
            f"ncu_{'warm' if cache else 'cold'}_us": statistics.median(times_us)
            for cache, times_us in times.items()
            if times_us
        },
        "ncu_cold_all_us": times[False],
        "ncu_warm_all_us": times[True],
    }


def a_against_a(trials: int) -> Iterator[tuple[str, TimedTrial]]:
    """Yield duels of a kernel with itself."""
    for number in range(trials):
        name = MIX[number % len(MIX)]
        kernel = spinning(TURNS[name], name)
        yield f"{name} #{number}", partial(measure, one=kernel, other=kernel)


def planted(trials: int) -> Iterator[tuple[str, TimedTrial]]:
    """Yield duels of a candidate that takes 3 % longer than the incumbent."""
    for number in range(trials):
        name = MIX[number % len(MIX)]
        yield f"{name} #{number}", partial(with_slow_down, name=name)


async def with_slow_down(device: Device, name: str) -> dict[str, Any]:
    """Run a duel with a slower loop."""
    slope = await slope_of(device, name)
    turns = like_unrolled(TURNS[name], TURNS[name] * PLANTED / slope)
    row = await measure(device, spinning(turns, name), spinning(TURNS[name], name))
    return {**row, "turns": turns, "planted": PLANTED}


async def slope_of(device: Device, name: str) -> float:
    """Return by how much of itself a kernel's time grows for as many turns again.

    It is measured once a process, with three times as many turns, which are unrolled alike.
    """
    if name not in SLOPES:
        one = await measure(device, spinning(TURNS[name], name), spinning(3 * TURNS[name], name))
        SLOPES[name] = (one["second_us"] - one["first_us"]) / one["first_us"] / 2
    return SLOPES[name]


def like_unrolled(turns: int, more: float) -> int:
    """Return about `more` turns more, by a loop of the same code."""
    # nvcc unrolls by the largest power of two, up to 64, that divides the turns, and an odd rest
    # makes another loop: that alone was worth 1.6 %.
    step = min(2 * (turns & -turns), MOST_UNROLLED)
    return turns + step * round(more / step)


def summarise(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Summarise the rows of every part."""
    by_part: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_part.setdefault(row["part"], []).append(row)
    summary: dict[str, Any] = {}
    if "repeat" in by_part:
        summary["repeat"] = list(agreement(by_part["repeat"]))
        # Of a kernel against itself: whatever is no tie is wrong.
        summary["repeat_outcomes"] = tally(by_part["repeat"])
    if "ncu" in by_part:
        whole = [row for row in by_part["ncu"] if all(map(row.get, FIGURES))]
        nothing = [row for row in whole if row["trial"] == NOTHING]
        summary["ncu"] = [bracket(row) for row in whole if row not in nothing]
        # What Nsight Compute counts of a launch itself.
        if nothing:
            summary["ncu_of_nothing"] = bracket(nothing[-1])
    for part in ("aa", "planted"):
        if part in by_part:
            by_kernel: dict[str, list[Mapping[str, Any]]] = {}
            for row in by_part[part]:
                by_kernel.setdefault(row["trial"].partition(" #")[0], []).append(row)
            each = {name: tally(found) for name, found in by_kernel.items()}
            summary[part] = {**tally(by_part[part]), "by_kernel": each}
    return summary


def tally(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Count how duels ended, and the median seconds of one."""
    ended = [row for row in rows if "outcome" in row]
    counted = Counter(row["outcome"] for row in ended)
    return {
        "trials": len(ended),
        **{one: counted[one] for one in ("faster", "slower", "tie")},
        "faults": sum("fault" in row for row in rows),
        "median_s": round(statistics.median(row["seconds"] for row in ended), 3) if ended else None,
    }


def agreement(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield how far processes' times of one kernel on one GPU lie apart, in units of the median."""
    times: dict[tuple[str, str], dict[int, float]] = {}
    for row in rows:
        if "first_us" in row:
            times.setdefault((row["trial"], row["gpu"]), {})[row["process"]] = row["first_us"]
    for (name, _gpu), found in times.items():
        if len(found) < 2:
            continue
        middle = statistics.median(found.values())
        apart = (max(found.values()) - min(found.values())) / middle
        yield {
            "kernel": name,
            "median_us": round(middle, 3),
            "times_us": [round(found[one], 3) for one in sorted(found)],
            "apart_percent": round(100 * apart, 2),
        }


def bracket(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return where Nsight Compute's two figures lie beside ours, in percent of ours."""
    low, high = sorted((row["cold_us"], row["warm_us"]))
    beyond = [
        max(low / row[name] - 1, row[name] / high - 1, 0.0)
        for name in ("ncu_cold_us", "ncu_warm_us")
    ]
    figures = {name: round(row[name], 3) for name in FIGURES}
    return {"kernel": row["trial"], **figures, "outside_percent": round(100 * max(beyond), 2)}


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    record.add_arguments(parser)
    parser.add_argument("--part", choices=PARTS, action="append", help="all without it")
    parser.add_argument("--kernel", default="", help="of `repeat` and `ncu`: names that hold this")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--process", type=int, default=-1, help="of three; -1: start all")
    return parser.parse_args()


async def run_part(asked: argparse.Namespace, part: str, device: Device, until_s: float) -> None:
    """Run every trial of a part that this shard has and no row records."""
    trials: dict[str, Iterator[tuple[str, TimedTrial]]] = {
        "repeat": repeats(asked.kernel),
        "ncu": against_ncu(asked.kernel),
        "aa": a_against_a(asked.trials),
        "planted": planted(asked.trials),
    }
    process = max(asked.process, 0)
    made = {(row["part"], row["trial"], row["process"]) for row in record.read_rows(asked.out)}
    for name, trial in record.sharded(list(trials[part]), asked.shard):
        if (part, name, process) in made:
            continue
        if time.monotonic() > until_s:
            print(f"{part}: stopped before {name}, out of time", flush=True)
            return
        trial_of = {"part": part, "trial": name, "process": process, "gpu": which_gpu(device)}
        row = {**trial_of, **await trial(device)}
        record.add_row(asked.out, row)


def repeat_command(asked: argparse.Namespace, process: int, until_s: float) -> list[str]:
    """Return the command of one of the processes of `repeat`."""
    left_s = max(0.0, until_s - time.monotonic())
    return [
        *(sys.executable, __file__, "--part", "repeat", "--process", str(process)),
        *("--device", asked.device, "--out", str(asked.out), "--shard", asked.shard),
        *("--limit-s", str(left_s), "--kernel", asked.kernel),
    ]


def which_gpu(device: Device) -> str:
    """Return what distinguishes this GPU from others of its name."""
    return device.uuid if isinstance(device, CudaDevice) else device.name


async def main() -> None:
    """Run the parts, then put the rows together."""
    asked = parse()
    until_s = time.monotonic() + asked.limit_s
    for part in asked.part or PARTS:
        if part == "repeat" and asked.process < 0:
            for process in range(PROCESSES):
                subprocess.run(repeat_command(asked, process, until_s), check=True)
            continue
        await run_part(asked, part, open_device(asked.device), until_s)
    if asked.process < 0:
        facts = record.device_facts(open_device(asked.device))
        figures = {**facts, **summarise(record.read_rows(asked.out))}
        print(record.write("timing_on_gpu", figures, asked.results))
        print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    asyncio.run(main())
