"""What a kernel that hangs, crashes or floods costs the next one, and what it leaves behind.

    PYTHONPATH=src:tests/support python benchmarks/faults_on_gpu.py --what recovery --limit-s 120
    PYTHONPATH=src:tests/support python benchmarks/faults_on_gpu.py --what mixed --out rows.jsonl

`recovery`: seconds from a deadline, or else from the start of the broken candidate, until the next
good candidate's verdict, less what that one takes alone. Compilation is not in it. `mixed`: 300
candidates of all kinds one after the other, in a process of their own; what is there afterwards
that was not before. A run that its time limit stops goes on with the same `--out`. `--shard i/n`
takes every n-th fault, or candidate, beginning with the i-th from 1.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import record
from corpus import FIXTURES, Known, adversarial, fault_of, honest_extra, honest_styles
from record import LeftBehind, adopt_orphans, find_left_behind, gpus_of, snapshot

from cuda_llm.errors import InfrastructureError
from cuda_llm.outcomes import TimedOut, Verdict
from cuda_llm.tools.cuda.device import CudaDevice
from cuda_llm.tools.device import Device
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.device_bench import validate_compiled
from cuda_llm.tools.judge.steps import compile_source
from cuda_llm.tools.native import cache_folder
from cuda_llm.tools.open_device import open_device
from cuda_llm.tools.timing.failures import without_case
from cuda_llm.tools.validator.validate import Validated

FAULTS = {
    "infinite kernel": "never_ends",
    "illegal access": "writes_far_away",
    "device assert": "asserts_what_is_not_so",
    "host segfault": "jumps_into_nowhere",
    "host loop": "host_never_returns",
    "fork bomb": "forks_without_end",
    "stdout flood": "floods_its_output",
    "printf flood": "floods_the_printer",
    "out of memory": "takes_all_memory",
}
GOOD = FIXTURES / "honest/vector_add/01_grid_stride.cu"
TASK = "vector_add"
TARGET_S = 1.5
SEED = 20
"""Of the order of mixed candidates."""

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A compiled candidate and what is known of it."""

    known: Known
    compiled: Compiled


def main() -> None:
    """Measure one of the two, within its time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--what", choices=("recovery", "mixed"), required=True)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--repeats", type=int, default=5, help="of each fault")
    parser.add_argument("--count", type=int, default=300, help="of mixed candidates")
    parser.add_argument("--out", type=Path, help="a line each; faults_WHAT.jsonl unless given")
    parser.add_argument("--shard", default="1/1", help="which part: i/n")
    parser.add_argument("--limit-s", type=float, default=540)
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    arguments = parser.parse_args()
    arguments.out = arguments.out or Path(f"faults_{arguments.what}.jsonl")
    deadline = time.monotonic() + arguments.limit_s
    if not arguments.device.startswith("cuda"):
        os.environ["CUDA_LLM_CALL_LIMIT_S"] = "2"
    if arguments.what == "recovery":
        names = record.sharded(list(FAULTS), arguments.shard)
        work = recover(arguments.device, names, arguments.repeats, deadline, arguments.out)
        report_recovery(asyncio.run(work), arguments.device, arguments.results)
    else:
        run_mixed(arguments, deadline)


async def recover(
    spec: str, names: Sequence[str], repeats: int, deadline: float, out: Path
) -> dict[str, list[float]]:
    """Return seconds by fault, those of earlier rows in `out` among them."""
    device = open_device(spec)
    device.prepare()
    by_name = {known.path.stem: known for known in adversarial()}
    good = Known(path=GOOD, task=TASK, honest=True)
    wanted = [good, *(by_name[FAULTS[name]] for name in names)]
    ready = {one.known.path.stem: one for one in await compile_all(device, wanted)}
    usual = ready[GOOD.stem]
    await seconds_of(device, usual)
    alone_s = statistics.median([(await seconds_of(device, usual))[0] for _ in range(repeats)])
    print(f"a good candidate alone: {alone_s:.3f} s", flush=True)
    costs: dict[str, list[float]] = {name: [] for name in names}
    for row in record.read_rows(out):
        if row.get("fault") in costs:
            costs[row["fault"]].append(row["cost_s"])
    for done in range(repeats):
        for name in names:
            stem = FAULTS[name]
            if len(costs[name]) > done:
                continue
            if time.monotonic() > deadline:
                return costs
            broken_s, verdict = await seconds_of(device, ready[stem])
            next_s, after = await seconds_of(device, usual)
            if not isinstance(after, Validated):
                raise InfrastructureError("device", f"after {name} a good kernel is {after.code}")
            waited_s = verdict.limit_s if isinstance(verdict, TimedOut) else 0.0
            costs[name].append(broken_s - waited_s + next_s - alone_s)
            code = "PASSED" if isinstance(verdict, Validated) else verdict.code
            print(f"{name:16} {code:16} {costs[name][-1]:.3f} s", flush=True)
            with out.open("a") as file:
                file.write(json.dumps({"fault": name, "cost_s": costs[name][-1]}) + "\n")
    return costs


def report_recovery(costs: dict[str, list[float]], spec: str, results: Path) -> None:
    """Print and write the medians, and whether each is within its target."""
    medians = {name: statistics.median(taken) for name, taken in costs.items() if taken}
    for name, median_s in medians.items():
        mark = "" if median_s <= TARGET_S else " !!"
        print(f"{name:16} median {median_s:.3f} s of {len(costs[name])}{mark}")
    if medians:
        figures = {
            "device": open_device(spec).name,
            "target_s": TARGET_S,
            "median_s": {name: round(value, 3) for name, value in medians.items()},
            "all_s": {name: [round(one, 3) for one in taken] for name, taken in costs.items()},
        }
        print(record.write("faults_recovery", figures, results))


def run_mixed(arguments: argparse.Namespace, deadline: float) -> None:
    """Judge candidates in a process of their own, then find what it left behind."""
    rows = record.read_rows(arguments.out)
    mixed = mixture(arguments.count, gpu=arguments.device.startswith("cuda"))
    chosen = record.sharded(mixed, arguments.shard)
    device = open_device(arguments.device)
    # What is built at first use, and what is compiled, stays on purpose.
    device.prepare()
    asyncio.run(compile_all(device, chosen))
    close(device)
    adopt_orphans()
    resource_tracker.ensure_running()
    os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="faults-")
    folders = (cache_folder() / "work", Path(os.environ["TMPDIR"]), Path("/dev/shm"))
    gpus = gpus_of(arguments.device)
    before = snapshot(folders, gpus)
    context = multiprocessing.get_context("spawn")
    first = len(rows)
    child = context.Process(
        target=judge_mixed, args=(arguments.device, chosen[first:], arguments.out, first, deadline)
    )
    child.start()
    child.join(max(1.0, deadline - time.monotonic()) + 60)
    ended = child.exitcode == 0
    if child.is_alive():
        child.kill()
        child.join()
    child.close()
    left = find_left_behind(before, folders, gpus)
    rows = record.read_rows(arguments.out)
    report_mixed(arguments, rows, left, len(chosen), ended=ended)


def judge_mixed(spec: str, chosen: Sequence[Known], out: Path, first: int, deadline: float) -> None:
    """Validate each candidate and write a row each. Runs in the child process."""

    async def work() -> None:
        device = open_device(spec)
        device.prepare()
        for number, one in enumerate(await compile_all(device, chosen), first):
            if time.monotonic() > deadline:
                break
            taken_s, verdict = await seconds_of(device, one)
            code = "PASSED" if isinstance(verdict, Validated) else verdict.code
            gpu = device.capabilities.measures_time
            fault = "" if isinstance(verdict, Validated) else fault_of(one.known, verdict, gpu=gpu)
            row = {"number": number, "name": one.known.name, "code": code, "fault": fault}
            row["seconds"] = round(taken_s, 3)
            with out.open("a") as file:
                file.write(json.dumps(row) + "\n")
        close(device)

    asyncio.run(work())


def report_mixed(
    arguments: argparse.Namespace,
    rows: Sequence[Row],
    left: LeftBehind,
    wanted: int,
    *,
    ended: bool,
) -> None:
    """Print and write what was left behind, and the unexpected verdicts."""
    for row in rows:
        if row["fault"]:
            print(f"!! {row['number']} {row['name']}: {row['fault']}")
    print(f"{len(rows)} of {wanted} candidates; left behind: {left}")
    if not ended:
        print("!! the process that judged them did not end by itself")
    if len(rows) >= wanted:
        figures = {
            "device": open_device(arguments.device).name,
            "candidates": len(rows),
            "ended_by_itself": ended,
            "left_behind": asdict(left),
            "verdicts_that_surprise": sum(bool(row["fault"]) for row in rows),
            "median_s": statistics.median(row["seconds"] for row in rows),
            "codes": {
                code: sum(row["code"] == code for row in rows)
                for code in sorted({row["code"] for row in rows})
            },
        }
        print(record.write("faults_mixed", figures, arguments.results))


def mixture(count: int, *, gpu: bool) -> list[Known]:
    """Choose candidates, half of them honest; the same ones in the same order every time."""
    order = random.Random(SEED)
    honest = [one for one in (*honest_extra(), *honest_styles()) if gpu or not one.gpu_alone]
    kinds = [
        [one for one in kind if gpu or one.device == "emulated"]
        for kind in (honest, broken_at_run_time())
    ]
    mixed = [order.choice(kind) for _ in range(count) for kind in kinds]
    order.shuffle(mixed)
    return mixed[:count]


def broken_at_run_time() -> list[Known]:
    """Return the attacks that get as far as a runner, wherever they are compiled."""
    rules = {"import", "export", "constructor", "include-outside", "embed-file"}
    early = {"COMPILE_FAILED", "LOAD_FAILED"}
    return [
        one for one in adversarial() if one.rule not in rules and not early & set(one.gpu_codes)
    ]


async def compile_all(device: Device, kernels: Sequence[Known]) -> list[Ready]:
    """Return the kernels that compile, in their order; each source is compiled once."""
    turns = asyncio.Semaphore(os.cpu_count() or 1)

    async def one(known: Known) -> Compiled | Verdict:
        async with turns:
            task = known.load_task(small=True)
            return await compile_source(task, device, known.path.read_text(), known.path.name)

    distinct = {known.path: known for known in kernels}
    made = await asyncio.gather(*map(one, distinct.values()))
    by_path = dict(zip(distinct, made, strict=True))
    return [
        Ready(known=known, compiled=compiled)
        for known in kernels
        if isinstance(compiled := by_path[known.path], Compiled)
    ]


async def seconds_of(device: Device, ready: Ready) -> tuple[float, Validated | Verdict]:
    """Return the wall time of one validation, and its outcome."""
    task = ready.known.load_task(small=True)
    started = time.monotonic()
    outcome = await validate_compiled(task, device, ready.compiled)
    return time.monotonic() - started, without_case(outcome)


def close(device: Device) -> None:
    """End the host process of a GPU; it would end with this process at the latest."""
    if isinstance(device, CudaDevice):
        device.host.client.close()


if __name__ == "__main__":
    main()
