"""Models the kernels of `rank_points.py` on the emulated device: the other side of the comparison.

    PYTHONPATH=benchmarks python benchmarks/rank_model.py --device "emulated:H200" --limit-s 900

Writes `results/rank_modelled.json` when every kernel has its times. Each kernel is a line in the
cache the moment it is modelled, so that the script may be stopped at any time; `--again` takes none
of them. `--shard` takes a part.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import record
from rank_points import SIZES, Variant, variants

from cuda_llm.outcomes import Verdict
from cuda_llm.tasks.task import Task
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.device import CallReport, Device, Level, Session, Site
from cuda_llm.tools.devices.call_report import EmulatedCallReport
from cuda_llm.tools.devices.find import open_device
from cuda_llm.tools.judge.steps import compile_source
from cuda_llm.tools.native import cache_folder
from cuda_llm.tools.validator.referee import run_case

NONCE = b"rank agreement"
"""Inputs are always the same, so that a model that has not changed gives the same times."""

Row = dict[str, Any]


def main() -> None:
    """Model one shard; write the result when nothing is left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="emulated:H200")
    parser.add_argument("--shard", default="1/1", help="which of how many, from 1")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--limit-s", type=float, default=600)
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.limit_s
    device = open_device(arguments.device)
    every = [variant for name in SIZES for variant in variants(name)]
    chosen = record.sharded(every, arguments.shard)
    folder = cache_folder("rank")
    kept = folder / f"{arguments.shard.replace('/', 'of')}.jsonl"
    if arguments.again:
        kept.unlink(missing_ok=True)
    known = {(row["task"], row["variant"]) for row in read_rows(folder)}
    device.prepare()
    with kept.open("a") as file:
        for variant in chosen:
            if (variant.task.name, variant.name) in known or time.monotonic() > deadline:
                continue
            for row in asyncio.run(model(device, variant)):
                file.write(json.dumps(row) + "\n")
                print(json.dumps(row), flush=True)
    rows = read_rows(folder)
    if len(rows) == sum(len(SIZES[name]) * len([*variants(name)]) for name in SIZES):
        profile = device.hardware.model
        constants = {"fill_us": profile.fill_us, "grid_barrier_us": profile.grid_barrier_us}
        whole = {"device": device.name, "constants": constants, "rows": rows}
        print(record.write("rank_modelled", whole))


async def model(device: Device, variant: Variant) -> list[Row]:
    """One row a size."""
    compiled = await compile_source(variant.task, device, variant.source, "rank.cu")
    assert isinstance(compiled, Compiled), compiled
    rows = []
    for dims in SIZES[variant.task.name]:
        outcome = await device.carry_out(time_there, variant.task, compiled, dims)
        row: Row = {"task": variant.task.name, "variant": variant.name, "dims": dict(dims)}
        if isinstance(outcome, EmulatedCallReport):
            limits = [one.code for one in outcome.bottlenecks[:1]]
            fills = sum(one.figures.get("copies", 0.0) for one in outcome.launches)
            row |= {
                "time_us": outcome.time_us,
                "limited_by": limits[0] if limits else "",
                "fills": round(fills),
                "cooperative": sum(one.cooperative for one in outcome.accounts),
            }
        else:
            row["failed"] = outcome.code
        rows.append(row)
    return rows


async def time_there(
    site: Site, task: Task, compiled: Compiled, dims: Mapping[str, int]
) -> CallReport | Verdict:
    """One call, its outputs verified."""
    async with site.open(compiled) as session:
        if not isinstance(session, Session):
            return session
        return await run_case(task, session, dims, level=Level.ACCOUNT, nonce=NONCE)


def read_rows(folder: Path) -> list[Row]:
    """All that was modelled, in the order of the points."""
    files = sorted(folder.glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


if __name__ == "__main__":
    main()
