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
from cuda_llm.tasks.sizes import scalar_value, shape_of
from cuda_llm.tasks.task import ArgumentRole, Task
from cuda_llm.tools.compiler.compile import compile_candidate
from cuda_llm.tools.device import (
    Argument,
    CallOptions,
    CallReport,
    Device,
    Level,
    Scalar,
    Session,
    Site,
)
from cuda_llm.tools.device.buffers import BufferSpec, Role
from cuda_llm.tools.device.candidate import Compiled, CompileRequest
from cuda_llm.tools.emulated.session import EmulatedCallReport
from cuda_llm.tools.emulator.codegen.libraries import translate
from cuda_llm.tools.emulator.tables import InstructionClass, KernelTable, Translated
from cuda_llm.tools.open_device import open_device

KINDS = {"load": "loads", "store": "stores", "atomic": "atomics", "async_copy": "loads"}


def counted(report: EmulatedCallReport, tables: tuple[KernelTable, ...]) -> Counter[str]:
    """Count requests, sectors, passes and instructions of a call."""
    total: Counter[str] = Counter()
    for account in report.accounts:
        table = tables[account.kernel]
        for site, count in zip(table.sites, account.sites, strict=True):
            if site.kind not in KINDS:
                continue
            if site.space == "global":
                total[f"global {KINDS[site.kind]}: requests"] += round(count.requests)
                total[f"global {KINDS[site.kind]}: sectors"] += round(count.sectors)
            if site.space == "shared" and site.kind != "atomic":
                total[f"shared {KINDS[site.kind]}: passes"] += round(count.wavefronts)
        for warps, block in zip(account.block_warps, table.blocks, strict=True):
            size = sum(n for kind, n in block.mix.items() if kind != InstructionClass.FREE)
            total["warp instructions"] += round(warps * size)
    return total


def of_hardware(launches: list[dict[str, Any]]) -> Counter[str]:
    """Add up the same from the metrics of a profiler."""
    lsu, data = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum", "l1tex__data_pipe_lsu_wavefronts_mem"
    names = {
        **{f"global loads: {k}": [lsu.format(k, "ld")] for k in ("requests", "sectors")},
        **{f"global stores: {k}": [lsu.format(k, "st")] for k in ("requests", "sectors")},
        **{
            f"global atomics: {k}": [lsu.format(k, "red"), lsu.format(k, "atom")]
            for k in ("requests", "sectors")
        },
        "shared loads: passes": [f"{data}_shared_op_ld.sum"],
        "shared stores: passes": [f"{data}_shared_op_st.sum"],
        "warp instructions": ["smsp__inst_executed.sum"],
    }
    return Counter(
        {
            name: round(sum(launch[metric] for launch in launches for metric in metrics))
            for name, metrics in names.items()
        }
    )


async def call(
    device: Device, task: Task, path: Path, dims: dict[str, int]
) -> tuple[Counter[str], float]:
    """Return the counts of one call on the emulated device, and its modelled time in us."""
    request = CompileRequest(source=path.read_text(), name=path.name, target=device.target)
    made = await compile_candidate(request)
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
    inputs = inputs_of(task, dims)
    specs: list[BufferSpec] = []
    arguments: list[Argument] = []
    for a in task.arguments:
        if a.role == ArgumentRole.SCALAR:
            arguments.append(Scalar(value=int(scalar_value(a, dims)), ctype="int"))
            continue
        role = Role.IN if a.name in inputs else Role.OUT
        specs.append(BufferSpec(name=a.name, role=role, dtype=a.dtype, shape=shape_of(a, dims)))
        arguments.append(a.name)
    async with site.open(compiled) as session:
        if not isinstance(session, Session):
            return session
        placed = session.place(specs)
        for name, value in inputs.items():
            placed[name].data[...] = value
        return await session.call(arguments, CallOptions(level=Level.ACCOUNT, limit_s=120))


async def compare(limit_s: float) -> list[dict[str, Any]]:
    """Compare every recorded kernel until the time is up."""
    measured = json.loads((record.RESULTS / "h200_kernel_counters.json").read_text())["rows"]
    times = json.loads((record.RESULTS / "h200_kernel_times.json").read_text())["rows"]
    device = open_device("emulated:H200")
    deadline = time.monotonic() + limit_s
    rows = []
    for task, path in timed():
        first = next(m for m in measured if m["kernel"] == label(path))
        if time.monotonic() > deadline:
            print(f"stopped after {limit_s:g} s")
            break
        ours, modelled_us = await call(device, task, path, first["dims"])
        theirs = of_hardware(first["launches"])
        clocked = next(t for t in times if all(t[k] == first[k] for k in ("kernel", "dims")))
        row: dict[str, Any] = {
            "kernel": first["kernel"],
            "dims": first["dims"],
            "modelled_us": round(modelled_us, 2),
            "measured_warm_us": clocked["warm"]["median_us"],
            "measured_cold_us": clocked["cold"]["median_us"],
            "counts": {},
        }
        print(*(row[key] for key in list(row)[:-1]))
        for name in theirs:
            if ours[name] or theirs[name]:
                pair = {"emulated": ours[name], "hardware": theirs[name]}
                row["counts"][name] = pair
                ratio = ours[name] / theirs[name] if theirs[name] else float("nan")
                print(f"    {name:26} {ours[name]:12} {theirs[name]:12} {ratio:7.3f}", flush=True)
        rows.append(row)
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
