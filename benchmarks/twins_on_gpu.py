"""Does the emulated device see what makes one of two right kernels slower, by as much as a GPU?

    python benchmarks/twins_on_gpu.py time --out measured.jsonl
    python benchmarks/twins_on_gpu.py time --device emulated:H200 --out modelled.jsonl
    python benchmarks/twins_on_gpu.py tabulate --modelled modelled.jsonl
    python benchmarks/twins_on_gpu.py compare --measured measured.jsonl --modelled modelled.jsonl

The kernels are the pairs of `tests/fixtures/strangers/time`: the same results, of which one kernel
takes longer on hardware. `time` takes the time of each kernel at every `bench` size of its task.
`tabulate` writes `results/twins_modelled.json`: the slower kernel's modelled speed over its twin's.
`compare` writes `results/twins_agreement.json`: of each pair and size, how many times as long the
slower kernel takes on either device. No constant of the time model may be chosen by these kernels.
"""

import argparse
import asyncio
import os
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import record

from cuda_llm.errors import CudaLLMError
from cuda_llm.outcomes import Verdict
from cuda_llm.profile import limiter
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.device import Device
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.compile import compile_baseline, compile_source
from cuda_llm.tools.judge.judge import time_compiled
from cuda_llm.tools.open_device import open_device
from cuda_llm.tools.profiler.bottlenecks import list_bottlenecks
from cuda_llm.tools.timing.failures import without_case
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.verdict_wording import describe

PAIRS = record.ROOT / "tests/fixtures/strangers/time"
MOST_GAIN = 1.15
"""By how much the slower kernel of a pair may look better than a GPU finds it."""
Row = dict[str, Any]


def table() -> Mapping[str, Mapping[str, Any]]:
    """Return what the table says of each kernel."""
    return tomllib.loads((PAIRS / "table.toml").read_text())


def time_kernels() -> None:
    """Time the kernels of a shard that have no row yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    record.add_arguments(parser)
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) - 2))
    asyncio.run(_time_all(parser.parse_args()))


async def _time_all(asked: argparse.Namespace) -> None:
    until_s = time.monotonic() + asked.limit_s
    device = open_device(asked.device)
    device.prepare()
    done = {row["name"] for row in record.read_rows(asked.out)}
    todo = [name for name in record.sharded(list(table()), asked.shard) if name not in done]
    turns = asyncio.Semaphore(asked.jobs)

    async def compile_ahead(name: str) -> None:
        async with turns:
            await _compile(device, name)

    await asyncio.gather(*map(compile_ahead, todo))
    for name in todo:
        if time.monotonic() < until_s:
            record.add_row(asked.out, await _time(device, name))
    print(f"{len(record.read_rows(asked.out))} of {len(table())} kernels have a row")


async def _compile(device: Device, name: str) -> Compiled | Verdict:
    task = load_task(table()[name]["task"])
    await compile_baseline(task, device.hardware.target)
    return await compile_source(task, device, (PAIRS / f"{name}.cu").read_text(), "kernel.cu")


async def _time(device: Device, name: str) -> Row:
    began_s = time.monotonic()
    task = load_task(table()[name]["task"])
    row: Row = {"name": name, "task": task.name, "device": device.name}
    compiled = await _compile(device, name)
    if not isinstance(compiled, Compiled):
        return row | {"code": compiled.code, "summary": " ".join(describe(compiled)[:1])}
    timing: KernelTimes | Verdict
    try:
        timing = without_case(await time_compiled(task, device, compiled))
    except CudaLLMError as error:
        return row | {"code": type(error).__name__, "summary": str(error)[:300]}
    if not isinstance(timing, KernelTimes):
        row |= {"code": timing.code, "summary": " ".join(describe(timing)[:1])[:300]}
    else:
        row |= {
            "code": "PASSED",
            "times": [[dict(dims), round(time_us, 3)] for dims, time_us in timing.times],
            "notes": list(timing.size_notes),
            "limited_by": _limit(timing),
        }
    return row | {"seconds": round(time.monotonic() - began_s, 2)}


def _limit(timing: KernelTimes) -> str:
    limit = limiter(list_bottlenecks(timing.bottlenecks))
    return limit.code if limit else ""


def tabulate_speeds() -> None:
    """Tabulate the modelled speeds of all pairs; print them and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modelled", type=Path, required=True)
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    asked = parser.parse_args()
    modelled = {row["name"]: row for row in record.read_rows(asked.modelled)}
    rows = [one for pair in slower_kernels() for one in _tabulate_pair(*pair, modelled)]
    for row in rows:
        print(row)
    above = {row["slower"] for row in rows if row["speed"] is not None and row["speed"] > MOST_GAIN}
    figures = {
        "device": next(iter(modelled.values()))["device"],
        "pairs": len(slower_kernels()),
        "above_most_gain": sorted(above),
        "rows": rows,
    }
    print(record.write("twins_modelled", figures, asked.results))


def _tabulate_pair(slower: str, twin: str, modelled: Mapping[str, Row]) -> list[Row]:
    """Return a row for each size of a pair: both times, and the slower kernel's speed over its
    twin's."""
    ours, its = (modelled.get(name, {}) for name in (slower, twin))
    if "times" not in ours or "times" not in its:
        codes = [one.get("code", "no row") for one in (ours, its)]
        return [{"slower": slower, "codes": codes, "speed": None}]
    return [
        {
            "slower": slower,
            "dims": dims,
            "modelled_us": [slow_us, twin_us],
            "speed": round(twin_us / slow_us, 3),
        }
        for (dims, slow_us), (_, twin_us) in zip(ours["times"], its["times"], strict=True)
    ]


def compare_times() -> None:
    """Compare the ratios of all pairs; print them and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measured", type=Path, required=True)
    parser.add_argument("--modelled", type=Path, required=True)
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    asked = parser.parse_args()
    measured, modelled = (
        {row["name"]: row for row in record.read_rows(path)}
        for path in (asked.measured, asked.modelled)
    )
    rows = [one for pair in slower_kernels() for one in _compare_pair(*pair, measured, modelled)]
    for row in rows:
        print(row)
    gains = [row["gain"] for row in rows if row["gain"] is not None]
    figures = {
        "measured_on": next(iter(measured.values()))["device"],
        "modelled_on": next(iter(modelled.values()))["device"],
        "sizes": len(gains),
        "ordered_alike": sum(row["ordered_alike"] for row in rows if row["gain"] is not None),
        "above_most_gain": sum(gain > MOST_GAIN for gain in gains),
        "worst_gain": max(gains, default=None),
        "rows": rows,
    }
    print(record.write("twins_agreement", figures, asked.results))


def slower_kernels() -> list[tuple[str, str]]:
    """Return the slower kernel of each pair, and its twin."""
    return [
        (name, one["twin"])
        for name, one in table().items()
        if name.split("__")[1].startswith(one["slower"])
    ]


def _compare_pair(
    slower: str, twin: str, measured: Mapping[str, Row], modelled: Mapping[str, Row]
) -> list[Row]:
    """Return a row for each size of a pair: both ratios, and what the slower kernel gains."""
    times: list[list[Any]] = [
        [rows.get(name, {}).get("times") for name in (slower, twin)]
        for rows in (measured, modelled)
    ]
    if not all(map(all, times)):
        codes = [
            [rows.get(name, {}).get("code", "no row") for name in (slower, twin)]
            for rows in (measured, modelled)
        ]
        return [{"slower": slower, "codes": codes, "gain": None}]
    found: list[Row] = []
    for (dims, slow_us), (_, twin_us), (_, slow_there_us), (_, twin_there_us) in zip(
        *times[0], *times[1], strict=True
    ):
        gpu, model = slow_us / twin_us, slow_there_us / twin_there_us
        found.append(
            {
                "slower": slower,
                "dims": dims,
                "measured_us": [slow_us, twin_us],
                "modelled_us": [slow_there_us, twin_there_us],
                "measured_ratio": round(gpu, 3),
                "modelled_ratio": round(model, 3),
                "gain": round(gpu / model, 3),
                "ordered_alike": (gpu > 1) == (model > 1),
            }
        )
    return found


if __name__ == "__main__":
    record.dispatch({"time": time_kernels, "tabulate": tabulate_speeds, "compare": compare_times})
