"""Is the slope of honest kernels what their calls take where nothing can be merged?

    PYTHONPATH=src:benchmarks python benchmarks/apart_on_gpu.py --device cuda:0 --out rows.jsonl \\
        --resume --shard 1/1 --limit-s 540

Confirms the honest fixtures at the sizes whose baseline takes at most 5 ms. A row for each size:
the time by the slope, and that of calls whose keys were handed out step by step. `--summary` writes
`apart_on_gpu.json` into `--results`.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import record
from throughput_on_gpu import HONEST, quick_sizes

from cuda_llm.outcomes import Verdict
from cuda_llm.tools.device import Device
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.device_bench import time_compiled
from cuda_llm.tools.judge.steps import compile_source
from cuda_llm.tools.open_device import open_device
from cuda_llm.tools.timing.excess import ALLOWED_CALL_SHARE, ALLOWED_CALL_US
from cuda_llm.tools.timing.failures import without_case
from cuda_llm.tools.timing.options import MeasureOptions, Tier
from cuda_llm.tools.timing.times import KernelTimes


async def confirm(device: Device, file: Path) -> list[dict[str, Any]]:
    """Return a row for each size, or one with the verdict."""
    task = await quick_sizes(device, file.parent.name)
    compiled = await compile_source(task, device, file.read_text(), file.name)
    if not isinstance(compiled, Compiled):
        return [{"code": compiled.code}]
    begun = time.monotonic()
    options = MeasureOptions(tier=Tier.PRECISE)
    timing: KernelTimes | Verdict = without_case(
        await time_compiled(task, device, compiled, options=options)
    )
    if not isinstance(timing, KernelTimes):
        return [{"code": timing.code}]
    return [
        {
            "code": "PASSED",
            "dims": dict(size.dims),
            "time_us": round(size.time_us, 3),
            "stepwise_us": None if size.stepwise_us is None else round(size.stepwise_us, 3),
            "seconds": round(time.monotonic() - begun, 2),
        }
        for size in timing.sizes
    ]


def summarise(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Summarise how far the two times are apart, beside what is allowed."""
    both = [row for row in rows if row.get("stepwise_us") is not None]
    beyond = [row["stepwise_us"] - row["time_us"] for row in both]
    share = [
        more / (ALLOWED_CALL_US + ALLOWED_CALL_SHARE * row["time_us"])
        for more, row in zip(beyond, both, strict=True)
    ]
    codes = [row["code"] for row in rows]
    return {
        "kernels": len({row["name"] for row in rows}),
        "sizes": len(both),
        "codes": {code: codes.count(code) for code in sorted(set(codes))},
        "beyond_us": {
            "least": round(min(beyond), 3),
            "median": round(statistics.median(beyond), 3),
            "most": round(max(beyond), 3),
        },
        "most_of_what_is_allowed": round(max(share), 2),
    }


async def main() -> None:
    """Confirm the kernels of the shard that have no rows yet."""
    asked = parse()
    until_s = time.monotonic() + asked.limit_s
    if not asked.resume and not asked.summary:
        asked.out.unlink(missing_ok=True)
    device = open_device(asked.device)
    # One of each task in turn, so that a limit leaves something of all.
    files = sorted(HONEST.glob("*/*.cu"), key=lambda file: (file.name, file.parent.name))
    done = {row["name"] for row in record.read_rows(asked.out)}
    for file in record.sharded(files, asked.shard) if not asked.summary else ():
        name = f"{file.parent.name}/{file.name}"
        if name not in done and time.monotonic() < until_s:
            for row in await confirm(device, file):
                record.add_row(asked.out, {"name": name, **row})
    figures = {"device": device.name, **summarise(record.read_rows(asked.out))}
    print(json.dumps(figures, indent=2))
    if asked.summary:
        print(record.write("apart_on_gpu", figures, asked.results))


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    record.add_arguments(parser)
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main())
