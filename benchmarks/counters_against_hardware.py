"""What the emulated device counts beside what an H200's counters said for the same calls.

Reads benchmarks/results/h200_kernel_counters.json; runs each kernel at the smallest recorded size.
"""

import argparse
import asyncio
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import record
from native_kernels import inputs_of, label, timed

from cuda_llm.outcomes import Verdict
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import CallOptions, CallReport, Device, Level, Session, Site
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.emulator.call_report import EmulatedCallReport
from cuda_llm.tools.emulator.codegen.libraries import translate
from cuda_llm.tools.judge.steps import compile_source
from cuda_llm.tools.open_device import open_device
from cuda_llm.tools.profiler.tables import InstructionClass, KernelTable, Translated
from cuda_llm.tools.validator.buffers import buffer_specs, call_arguments

OPERATIONS = {"load": "loads", "store": "stores", "atomic": "atomics", "async_copy": "loads"}


def counted(report: EmulatedCallReport, tables: tuple[KernelTable, ...]) -> Counter[str]:
    """Count requests, sectors, passes and instructions of a call."""
    total: Counter[str] = Counter()
    for account in report.accounts:
        table = tables[account.kernel]
        for site, count in zip(table.sites, account.sites, strict=True):
            operation = OPERATIONS.get(site.kind)
            if operation and site.space == "global":
                total[f"global {operation}: requests"] += round(count.requests)
                total[f"global {operation}: sectors"] += round(count.sectors)
            if operation and site.space == "shared" and operation != "atomics":
                total[f"shared {operation}: passes"] += round(count.wavefronts)
        for warps, block in zip(account.block_warps, table.blocks, strict=True):
            size = sum(n for kind, n in block.mix.items() if kind != InstructionClass.FREE)
            total["warp instructions"] += round(warps * size)
    return total


def of_hardware(launches: list[dict[str, Any]]) -> Counter[str]:
    """Add up the same from the metrics of a profiler."""
    lsu, data = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum", "l1tex__data_pipe_lsu_wavefronts_mem"
    codes = {"loads": ("ld",), "stores": ("st",), "atomics": ("red", "atom")}
    names = {
        **{
            f"global {operation}: {unit}": [lsu.format(unit, code) for code in codes[operation]]
            for operation in codes
            for unit in ("requests", "sectors")
        },
        "shared loads: passes": [f"{data}_shared_op_ld.sum"],
        "shared stores: passes": [f"{data}_shared_op_st.sum"],
        "warp instructions": ["smsp__inst_executed.sum"],
    }
    total: Counter[str] = Counter()
    for name, metrics in names.items():
        total[name] = round(sum(launch[metric] for launch in launches for metric in metrics))
    return total


async def call(
    device: Device, task: Task, path: Path, dims: dict[str, int]
) -> tuple[Counter[str], float]:
    """Return the counts of one call on the emulated device, and its modelled time in us."""
    made = await compile_source(task, device, path.read_text(), path.name)
    assert isinstance(made, Compiled), made
    translated = await translate(
        made.ptx, kernels=made.kernels, source_name=made.name, source=made.source
    )
    assert isinstance(translated, Translated), translated
    report = await device.carry_out(call_there, task, made, dims)
    assert isinstance(report, EmulatedCallReport), report
    return counted(report, translated.kernels), report.time_us


async def call_there(
    site: Site, task: Task, compiled: Compiled, dims: dict[str, int]
) -> CallReport | Verdict:
    """Call the kernel once in a session of its own."""
    async with site.open(compiled) as session:
        if not isinstance(session, Session):
            return session
        placed = session.place(buffer_specs(task, dims))
        for name, value in inputs_of(task, dims).items():
            placed[name].data[...] = value
        options = CallOptions(level=Level.ACCOUNT, limit_s=120)
        return await session.call(call_arguments(task, dims), options)


async def compare(limit_s: float) -> list[dict[str, Any]]:
    """Compare every recorded kernel until the time is up."""
    measured = json.loads((record.RESULTS / "h200_kernel_counters.json").read_text())["rows"]
    times = json.loads((record.RESULTS / "h200_kernel_times.json").read_text())["rows"]
    device, deadline = open_device("emulated:H200"), time.monotonic() + limit_s
    rows = []
    for task, path in timed():
        first = next(m for m in measured if m["kernel"] == label(path))
        if time.monotonic() > deadline:
            print(f"stopped after {limit_s:g} s")
            break
        ours, modelled_us = await call(device, task, path, first["dims"])
        theirs = of_hardware(first["launches"])
        clocked = next(t for t in times if all(t[k] == first[k] for k in ("kernel", "dims")))
        row = {
            "kernel": first["kernel"],
            "dims": first["dims"],
            "modelled_us": round(modelled_us, 2),
            "measured_warm_us": clocked["warm"]["median_us"],
            "measured_cold_us": clocked["cold"]["median_us"],
        }
        print(*row.values())
        counts = {}
        for name in (one for one in theirs if ours[one] or theirs[one]):
            counts[name] = {"emulated": ours[name], "hardware": theirs[name]}
            ratio = ours[name] / theirs[name] if theirs[name] else float("nan")
            print(f"    {name:26} {ours[name]:12} {theirs[name]:12} {ratio:7.3f}", flush=True)
        rows.append({**row, "counts": counts})
    return rows


def main() -> None:
    """Count, print, record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit-s", type=float, default=300)
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    arguments = parser.parse_args()
    rows = asyncio.run(compare(arguments.limit_s))
    print(record.write("counters_against_hardware", {"rows": rows}, arguments.results))


if __name__ == "__main__":
    main()
