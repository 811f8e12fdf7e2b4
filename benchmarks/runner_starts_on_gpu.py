"""How long a runner takes to be there and to be gone, on several GPUs at once.

    PYTHONPATH=src:benchmarks python benchmarks/runner_starts_on_gpu.py --gpus 1,2,4 --limit-s 60

The driver of a machine has one lock for much of what makes a context and takes it down, so that
runners of one GPU wait for those of another. Each GPU has a process of its own that holds a context
as a host process does, and starts and ends one runner after the other. `--results` takes
`runner_starts_on_gpu.json`.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import record

from cuda_llm.errors import InfrastructureError
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.tools.cuda.arrays import on_gpu
from cuda_llm.tools.cuda.discovery import detect_gpus
from cuda_llm.tools.cuda.driver_query import GpuAttributes
from cuda_llm.tools.cuda.runner import WARM_LIMIT_S, start_gpu_runner
from cuda_llm.tools.cuda.site import launch_of
from cuda_llm.tools.device.protocol import ReplyFrame


async def starts(gpu: GpuAttributes, count: int, until_s: float) -> list[tuple[float, float]]:
    """Time `count` runners after one more: seconds until each is ready, and until it is gone."""
    cupy: Any = on_gpu().xp
    cupy.zeros(1)
    launch = launch_of(find_hardware(gpu.name), gpu.uuid)
    rows: list[tuple[float, float]] = []
    while len(rows) <= count and time.time() < until_s:
        begun = time.perf_counter()
        runner = start_gpu_runner(launch)
        outcome = await runner.warm_up(WARM_LIMIT_S)
        ready = time.perf_counter()
        await runner.stop()
        if not isinstance(outcome, ReplyFrame):
            raise InfrastructureError("runner", str(outcome))
        rows.append((ready - begun, time.perf_counter() - ready))
    return rows[1:]


def at_once(gpus: Sequence[GpuAttributes], count: int, until_s: float) -> dict[str, Any]:
    """Time runners of each GPU in processes that begin together; return medians and the rate."""
    own = [sys.executable, "-P", __file__, f"--count={count}", f"--until-s={until_s}"]
    children = [
        subprocess.Popen(
            [*own, f"--one={gpu.uuid}"],
            env={**os.environ, "CUDA_VISIBLE_DEVICES": gpu.uuid},
            stdout=subprocess.PIPE,
            text=True,
        )
        for gpu in gpus
    ]
    printed = [child.communicate()[0] for child in children]
    rows = [row for one in printed for row in json.loads(one.splitlines()[-1])]
    ready, gone = zip(*rows, strict=True)
    mean_s = statistics.mean(map(sum, rows))
    return {
        "gpus": len(gpus),
        "runners": len(rows),
        "ready_s": round(statistics.median(ready), 4),
        "ready_most_s": round(max(ready), 4),
        "gone_s": round(statistics.median(gone), 4),
        "gone_most_s": round(max(gone), 4),
        "runners_a_second": round(len(gpus) / mean_s, 2),
    }


def main() -> None:
    """Measure each number of GPUs in turn."""
    asked = parse()
    until_s = asked.until_s or time.time() + asked.limit_s
    gpus = detect_gpus()
    if asked.one:
        (gpu,) = (one for one in gpus if one.uuid == asked.one)
        print(json.dumps(asyncio.run(starts(gpu, asked.count, until_s))))
        return
    numbers = [int(one) for one in asked.gpus.split(",") if int(one) <= len(gpus)]
    rows = []
    for number in numbers:
        rows.append(at_once(gpus[:number], asked.count, until_s))
        print(json.dumps(rows[-1]), flush=True)
    figures = {"device": f"{len(gpus)} x {gpus[0].name}", "at_once": rows}
    print(record.write("runner_starts_on_gpu", figures, asked.results))


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gpus", default="1,2,4", help="how many at once; more than there are: no")
    parser.add_argument("--count", type=int, default=8, help="runners of each GPU")
    parser.add_argument("--limit-s", type=float, default=60.0)
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    parser.add_argument("--one", default="", help="for itself: the GPU of this process")
    parser.add_argument("--until-s", type=float, default=0.0, help="for itself")
    return parser.parse_args()


if __name__ == "__main__":
    main()
