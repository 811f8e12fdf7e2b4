r"""GPUs of one host through Ray, beside the same GPUs without it, and what Ray adds to a candidate.

    ray start --head --num-gpus=2
    PYTHONPATH=src:benchmarks python benchmarks/cluster_on_gpu.py --out FOLDER --limit-s 540

Judges the same kernels as `throughput_on_gpu.py` on one GPU, on all GPUs of this process and on
those of the cluster, in turns, each in a process of its own; then asks each device many times to do
nothing. `summarise --out FOLDER` writes `cluster_on_gpu.json` into the results.

With `--without-compilers` the workers have neither g++ nor nvcc, as on a machine with a driver
alone. It refuses to measure where one has. Ray itself needs bash; a cache of their own is empty at
first:

    mkdir bare && ln -s "$(command -v bash)" bare/bash
    env -u CUDA_HOME -u CUDA_PATH PATH="$PWD/bare" CUDA_LLM_NVCC=/nowhere/nvcc \
        CUDA_LLM_CACHE="$PWD/bare-cache" PYTHONPATH="$PWD/src" \
        "$(command -v ray)" start --head --num-gpus=2
    python benchmarks/cluster_on_gpu.py --without-compilers --out FOLDER --limit-s 540
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import record
from throughput_on_gpu import candidates, first_of_each, judge

from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.cluster.connection import connect, list_nodes, run_task
from cuda_llm.tools.cluster.parcel import pack, unpack
from cuda_llm.tools.cluster.spec import parse_cluster
from cuda_llm.tools.cluster.worker import describe_node
from cuda_llm.tools.cuda.messages import WorkRequest
from cuda_llm.tools.device import Device
from cuda_llm.tools.judge.steps import compile_baseline, do_no_work
from cuda_llm.tools.open_device import open_device

SPECS = ("cuda:0", "cuda:all", "ray:auto")
COMPILERS = "compilers.json"
WORKS = 200
"""Works that do nothing, to see how long one is on its way."""


def main() -> None:
    """Measure until the time is up, or summarise."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", nargs="?", default="measure")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit-s", type=float, default=540)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--task", action="append", default=[])
    parser.add_argument("--device", default="", help="of `overhead`")
    parser.add_argument("--without-compilers", action="store_true", help="on the workers")
    parser.add_argument("--about", action="append", default=[], help="NAME=VALUE, for the record")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    match asked.what:
        case "overhead":
            print(json.dumps(asyncio.run(overhead(open_device(asked.device)))))
        case "pairs":
            asyncio.run(judge_pairs(asked))
        case "summarise":
            print(record.write("cluster_on_gpu", summarise(asked.out, asked.about)))
        case "compilers":
            print(json.dumps(asyncio.run(compilers_of_workers())))
        case _:
            measure(asked)


def measure(asked: argparse.Namespace) -> None:
    """Take turns; what is done already in the folder is left as it is."""
    until_s = time.monotonic() + asked.limit_s
    here = Path(__file__).parent
    note_compilers(asked)
    for spec in SPECS[1:]:
        file = asked.out / f"overhead {spec.replace(':', '-')}.json"
        if not file.exists():
            command = [sys.executable, __file__, "overhead", "--device", spec, "--out", asked.out]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            print(spec, done.stdout, done.stderr[-2000:], flush=True)
            if done.returncode == 0:
                file.write_text(done.stdout)
    for turn in range(asked.turns):
        order = SPECS if turn % 2 == 0 else tuple(reversed(SPECS))
        for spec in order:
            left_s = until_s - time.monotonic()
            file = asked.out / f"{turn} {spec.replace(':', '-')}.jsonl"
            if file.exists() or left_s < 60:
                continue
            command = [
                *(sys.executable, here / "throughput_on_gpu.py", "--device", spec),
                *("--out", file, "--limit-s", str(left_s - 20)),
                *(part for name in asked.task for part in ("--task", name)),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            print(turn, spec, done.returncode, done.stdout[-700:], done.stderr[-1500:], flush=True)


def note_compilers(asked: argparse.Namespace) -> None:
    """Write down what the workers compile with; end where they have what they are to lack."""
    command = [sys.executable, __file__, "compilers", "--out", asked.out]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    if asked.without_compilers and any(found.values()):
        raise SystemExit(f"workers have compilers: {found}")
    (asked.out / COMPILERS).write_text(done.stdout)


async def compilers_of_workers() -> dict[str, str]:
    """Return the version of nvcc by machine with a GPU; empty where it, or g++, is missing."""
    connect(parse_cluster("ray:auto"))
    with_gpus = [one for one in list_nodes() if one.gpus]
    told = [unpack(await run_task(describe_node, node=one.id, cpus=0.1)) for one in with_gpus]
    return {node.host: facts.nvcc for node, facts in zip(with_gpus, told, strict=True)}


async def overhead(device: Device) -> dict[str, float]:
    """Return medians of what a work that does nothing takes, and of what packing takes."""
    task = load_task("matrix_multiplication")
    baseline = await compile_baseline(task, device.target)
    await device.carry_out(do_no_work)
    idle = [await seconds_of(device.carry_out(do_no_work)) for _ in range(WORKS)]
    packing = []
    for _ in range(WORKS):
        begun = time.perf_counter()
        parcel = pack(WorkRequest(work=do_no_work, arguments=(task, baseline, baseline)))
        unpack(parcel.payload, functions=True)
        packing.append(time.perf_counter() - begun)
    return {"work_ms": median_ms(idle), "packing_ms": median_ms(packing)}


async def judge_pairs(asked: argparse.Namespace) -> None:
    """Judge each kernel on one GPU without Ray and through it, in turns, until the time is up."""
    until_s = time.monotonic() + asked.limit_s
    devices = {"without": open_device("cuda:0"), "ray": open_device("ray:auto?max_gpus=1")}
    names = asked.task or ["reduction"]
    waiting = await candidates(devices["without"], names)
    for device in devices.values():
        for first in first_of_each(waiting):
            await judge(device, first)
    for number, one in enumerate([*waiting, *waiting]):
        order = list(devices) if number % 2 else list(reversed(devices))
        for which in order:
            if time.monotonic() < until_s:
                row = await judge(devices[which], one)
                record.add_row(asked.out / "pairs.jsonl", {"which": which, "n": number, **row})


async def seconds_of(work: Any) -> float:
    """Return how long a work took."""
    begun = time.perf_counter()
    await work
    return time.perf_counter() - begun


def median_ms(seconds: Sequence[float]) -> float:
    """Return the median in milliseconds."""
    return round(1000 * statistics.median(seconds), 3)


def summarise(folder: Path, about: Sequence[str]) -> dict[str, Any]:
    """Return throughput by device, ratios of it, and how far verdicts and times agree."""
    turns: dict[str, list[dict[str, Any]]] = {}
    for file in sorted(folder.glob("[0-9]*.jsonl")):
        spec = file.stem.split(" ", 1)[1].replace("-", ":")
        turns.setdefault(spec, []).append(summarise_turn(record.read_rows(file)))
    rates = {spec: [one["candidates_per_s"] for one in found] for spec, found in turns.items()}
    middle = {spec: statistics.median(found) for spec, found in rates.items()}
    overheads = {
        file.stem.split(" ", 1)[1].replace("-", ":"): json.loads(file.read_text())
        for file in sorted(folder.glob("overhead *.json"))
    }
    pairs = {
        file.stem.removeprefix("pairs "): summarise_pairs(record.read_rows(file))
        for file in sorted(folder.glob("pairs*.jsonl"))
    }
    return {
        **dict(one.split("=", 1) for one in about),
        "nvcc_of_workers": sorted(set(json.loads((folder / COMPILERS).read_text()).values())),
        "candidates_per_s": rates,
        "over_one_gpu": {spec: round(rate / middle["cuda:0"], 3) for spec, rate in middle.items()},
        "ray_over_without": round(middle["ray:auto"] / middle["cuda:all"], 3),
        "overhead": overheads,
        "added_to_a_candidate_ms": pairs,
        "agreement": agreement(turns),
    }


def summarise_pairs(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return what validating and timing a kernel takes longer through Ray, in turns on one GPU."""
    by_number: dict[int, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        by_number.setdefault(row["n"], {})[row["which"]] = row
    pairs = [one for one in by_number.values() if len(one) == 2]
    longer = [
        sum(one["ray"][step] - one["without"][step] for step in ("validate_s", "time_s"))
        for one in pairs
    ]
    quarters = statistics.quantiles(longer, n=4)
    return {
        "pairs": len(pairs),
        "median": median_ms(longer),
        "quartile_1": round(1000 * quarters[0], 1),
        "quartile_3": round(1000 * quarters[2], 1),
    }


def summarise_turn(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how many were judged a second, and verdicts and speed-ups of each kernel."""
    (run,) = [row for row in rows if row["what"] == "run"]
    judged = [row for row in rows if row["what"] == "judged"]
    return {
        "candidates_per_s": round(run["judged"] / run["wall_s"], 3),
        "codes": {row["name"]: row["code"] for row in judged},
        "us": {row["name"]: row["us"] for row in judged},
    }


def agreement(turns: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Return how verdicts and times through Ray compare with those without, kernel by kernel."""
    with_ray, without = turns["ray:auto"][0], turns["cuda:all"][0]
    names = with_ray["codes"].keys() & without["codes"].keys()
    pairs = [
        (ours, theirs)
        for name in names
        for ours, theirs in zip(with_ray["us"][name], without["us"][name], strict=False)
    ]
    apart = [abs(ours[0] / theirs[0] - 1) for ours, theirs in pairs]
    within = [
        difference <= ours[1] + theirs[1]
        for difference, (ours, theirs) in zip(apart, pairs, strict=True)
    ]
    return {
        "kernels": len(names),
        "same_verdict": sum(with_ray["codes"][name] == without["codes"][name] for name in names),
        "times": len(pairs),
        "within_both_intervals": sum(within),
        "median_apart": round(statistics.median(apart), 4) if apart else None,
        "most_apart": round(max(apart), 4) if apart else None,
    }


if __name__ == "__main__":
    main()
