"""Nsight Compute on one call of `solve`: counters where they can be read, else a note."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cuda_llm.tools.compiler.names import without_parameters
from cuda_llm.tools.compiler.nvcc import Toolkit, find_toolkit
from cuda_llm.tools.compiler.workspace import private_folder
from cuda_llm.tools.cuda.vendor_tools import (
    ToolRun,
    find_tool,
    missing_note,
    run_untrusted,
    works_confined,
)
from cuda_llm.tools.device.inspection import KernelCounters, Stall

_SCALES = {
    **{"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0},
    **{"nsecond": 1e-9, "usecond": 1e-6, "msecond": 1e-3, "second": 1.0},
    **{"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12},
    "%": 0.01,
}
"""Factors to seconds, bytes and fractions of 1, by the unit that Nsight Compute prints; other units
are kept."""

DURATION = "gpu__time_duration.sum"
_STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
_STALLS = (
    *("barrier", "branch_resolving", "dispatch_stall", "drain", "gmma", "imc_miss"),
    *("lg_throttle", "long_scoreboard", "math_pipe_throttle", "membar", "mio_throttle", "misc"),
    *("no_instruction", "not_selected", "selected", "short_scoreboard", "sleeping"),
    *("tex_throttle", "wait"),
)
_SHARES = {
    "dram_share": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1_share": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "issue_share": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "fp32_share": "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
    "int_share": "sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active",
    "fp64_share": "sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active",
    "sfu_share": "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
    "tensor_share": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "achieved_occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "l1_hit_share": "l1tex__t_sector_hit_rate.pct",
    "l2_hit_share": "lts__t_sector_hit_rate.pct",
    "l2_bytes": "lts__t_bytes.sum",
}
_L2 = tuple(
    f"lts__{name}.avg.pct_of_peak_sustained_elapsed"
    for name in (
        *("t_sectors", "t_tag_requests", "d_sectors", "d_sectors_fill_device"),
        *("d_atomic_input_cycles_active", "lts2xbar_cycles_active", "xbar2lts_cycles_active"),
    )
)
"""Metrics of L2 that make up "Memory Throughput". `lts__throughput` also counts other units: on an
H200 it shows 80 % in a kernel that streams through DRAM at 60 %."""
_SM_CLOCKS = ("sm__cycles_active.avg", "sm__cycles_active.max")
_SECTORS = {kind: f"l1tex__t_sectors_pipe_lsu_mem_global_op_{kind}.sum" for kind in ("ld", "st")}
_REQUESTS = {kind: f"l1tex__t_requests_pipe_lsu_mem_global_op_{kind}.sum" for kind in ("ld", "st")}
_USED = {
    kind: f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{kind}.pct"
    for kind in ("ld", "st")
}
_LANES = "smsp__thread_inst_executed_per_inst_executed.ratio"
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
_SHARED_PASSES = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
_PASSES = "l1tex__data_pipe_lsu_wavefronts.sum"
_DRAM = ("dram__bytes_read.sum", "dram__bytes_write.sum")
METRICS = (
    DURATION,
    *(*_SHARES.values(), *_L2, *_SM_CLOCKS),
    *(*_SECTORS.values(), *_REQUESTS.values(), *_USED.values()),
    *(_LANES, _CONFLICTS, _SHARED_PASSES, _PASSES, *_DRAM),
    *map(_STALLED.format, _STALLS),
)
"""Metrics that are collected; a chip that lacks a metric leaves it out."""
PERMISSION = (
    "no counters: this user may not read them (ERR_NVGPUCTRPERM); load the driver with "
    "NVreg_RestrictProfilingToAdminUsers=0"
)
MOST_LAUNCHES = 64
"""Largest number of launches of one call that are counted; each is replayed several times."""
_BASE_UNITS = ("--print-units", "base")


@dataclass(frozen=True, kw_only=True)
class NcuRow:
    """Metrics of one kernel launch: a row of Nsight Compute's raw page."""

    kernel: str
    """Name without its parameter list."""
    metrics: Mapping[str, float]
    """Values in seconds, bytes, fractions of 1 or plain counts, by metric; metrics without a number
    are left out."""


def parse_table(text: str) -> tuple[NcuRow, ...]:
    """Return the rows of a raw page, which lines of tool and program may surround."""
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith('"ID","Process ID"')]
    if not starts:
        return ()
    names, *rows = csv.reader(line for line in lines[starts[0] :] if line.startswith('"'))
    rows = [row for row in rows if len(row) == len(names)]
    if not rows:
        return ()
    units, *kernels = rows if not rows[0][0] else [[""] * len(names), *rows]
    return tuple(_kernel(names, units, row) for row in kernels)


def _kernel(names: list[str], units: list[str], row: list[str]) -> NcuRow:
    metrics = {}
    for name, unit, text in zip(names, units, row, strict=True):
        number = _number(text)
        if "__" in name and number is not None:
            metrics[name] = number * _SCALES.get(unit, 1.0)
    kernel = row[names.index("Kernel Name")] if "Kernel Name" in names else ""
    return NcuRow(kernel=without_parameters(kernel), metrics=metrics)


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def read_counters(counted: NcuRow, *, flushed: bool) -> KernelCounters:
    """Return what explains a kernel's time, without figures that the chip does not count."""
    metrics = counted.metrics
    figures = {name: metrics[metric] for name, metric in _SHARES.items() if metric in metrics}
    figures |= _coalescing(metrics) | _banks(metrics)
    if any(name in metrics for name in _L2):
        figures["l2_share"] = max(metrics.get(name, 0.0) for name in _L2)
    if metrics.get(_SM_CLOCKS[1]):
        figures["idle_sm_share"] = 1 - metrics.get(_SM_CLOCKS[0], 0.0) / metrics[_SM_CLOCKS[1]]
    if _LANES in metrics:
        figures["simd_efficiency"] = metrics[_LANES] / 32
    if all(name in metrics for name in _DRAM):
        figures["dram_bytes"] = sum(metrics[name] for name in _DRAM)
    return KernelCounters(
        kernel=counted.kernel,
        duration_us=metrics.get(DURATION, 0.0) * 1e6,
        flushed=flushed,
        figures=figures,
        stalls=_stalls(metrics),
    )


def _coalescing(metrics: Mapping[str, float]) -> dict[str, float]:
    sectors = {kind: metrics.get(name, 0.0) for kind, name in _SECTORS.items()}
    requests = sum(metrics.get(name, 0.0) for name in _REQUESTS.values())
    touched = sum(sectors.values())
    if not requests or not touched:
        return {}
    figures = {"sectors_per_request": touched / requests}
    if all(_USED[kind] in metrics for kind, count in sectors.items() if count):
        used = sum(count * metrics[_USED[kind]] for kind, count in sectors.items() if count)
        figures["useful_byte_share"] = min(1.0, used / touched)
    return figures


def _banks(metrics: Mapping[str, float]) -> dict[str, float]:
    shared, all_passes = metrics.get(_SHARED_PASSES, 0.0), metrics.get(_PASSES, 0.0)
    if not shared:
        return {}
    needed = shared - metrics.get(_CONFLICTS, 0.0)
    ways = {"bank_ways": shared / needed} if needed > 0 else {}
    share = {"shared_passes_share": min(1.0, shared / all_passes)} if all_passes else {}
    return ways | share


def _stalls(metrics: Mapping[str, float]) -> tuple[Stall, ...]:
    """Return for each reason the part of the warps that stall for it, per issue."""
    waiting = {reason: metrics.get(_STALLED.format(reason), 0.0) for reason in _STALLS}
    total = sum(waiting.values())
    if not total:
        return ()
    del waiting["selected"]
    found = (Stall(reason=reason, share=count / total) for reason, count in waiting.items())
    return tuple(
        sorted((one for one in found if one.share > 0), key=lambda one: one.share, reverse=True)
    )


@dataclass(frozen=True, kw_only=True)
class NcuResult:
    """Counters of Nsight Compute for one call of `solve`."""

    counters: tuple[KernelCounters, ...] = ()
    """Counters of each kernel launch, in order."""
    report: Path | None = None
    """Path of the .ncu-rep file; None where no report was written."""
    note: str = ""
    """Why there are no counters."""
    missing: tuple[str, ...] = ()
    """Parts of the confinement that this machine does not grant."""


async def run_ncu(ncu: Path, program: Sequence[str], folder: Path, *, wall_s: float) -> NcuResult:
    """Count what `program` does between starting and stopping the profiler.

    Caches are flushed before each kernel and clocks left alone. The report stays in `folder`.
    """
    report = folder / "counters.ncu-rep"
    command = [str(ncu), *_options(flush=True), "--metrics", ",".join(METRICS)]
    command += ["--launch-count", str(MOST_LAUNCHES), "-f", "-o", str(report.with_suffix(""))]
    run = await run_untrusted([*command, *program], folder, wall_s=wall_s)
    if not report.is_file():
        return NcuResult(note=_why(run, wall_s), missing=run.missing)
    reading = [str(ncu), "--import", str(report), "--csv", "--page", "raw", *_BASE_UNITS]
    page = await run_untrusted(reading, folder, wall_s=wall_s)
    counters = tuple(read_counters(one, flushed=True) for one in parse_table(page.output))
    return NcuResult(
        counters=counters,
        report=report,
        note="" if counters else _why(page, wall_s),
        missing=run.missing,
    )


async def ncu_duration_us(
    program: Sequence[str], cache: bool, *, wall_s: float = 60.0
) -> float | str:
    """Return the microseconds of all kernels of one call together, or a note why they were not
    timed.

    `program` is a driver's command. Caches are flushed before each kernel, unless `cache`. Copies,
    fills and gaps between kernels are left out. Raises MissingError without nvcc, g++ or a writable
    cache.
    """
    ncu = find_tool("ncu", find_toolkit())
    if ncu is None:
        return missing_note("ncu", "counters")
    command = [str(ncu), *_timing_options(flush=not cache)]
    with private_folder() as folder:
        run = await run_untrusted([*command, *program], folder, wall_s=wall_s)
    kernels = parse_table(run.output)
    if not kernels or any(DURATION not in one.metrics for one in kernels):
        return _why(run, wall_s)
    return sum(one.metrics[DURATION] for one in kernels) * 1e6


async def ncu_works_confined(ncu: Path, toolkit: Toolkit, target: str, *, wall_s: float) -> bool:
    """Return whether Nsight Compute prints a table for a confined program on this machine."""

    def is_right(run: ToolRun) -> bool:
        return bool(parse_table(run.output))

    options = _timing_options(flush=False)
    return await works_confined(ncu, options, is_right, toolkit, target, wall_s=wall_s)


def _timing_options(*, flush: bool) -> list[str]:
    raw = ("--csv", "--page", "raw", *_BASE_UNITS)
    return [*_options(flush=flush), "--metrics", DURATION, *raw]


def _options(*, flush: bool) -> list[str]:
    return [
        *("--clock-control", "none", "--cache-control", "all" if flush else "none"),
        *("--profile-from-start", "off", "--target-processes", "application-only"),
    ]


def _why(run: ToolRun, wall_s: float) -> str:
    """Return why a run of Nsight Compute gave no counters."""
    if run.timed_out:
        return f"no counters: ncu did not finish within {wall_s:.0f} s"
    if "ERR_NVGPUCTRPERM" in run.output:
        return PERMISSION
    if "No kernels were profiled" in run.output:
        return "no counters: ncu saw no kernel"
    lines = [line.removeprefix("==ERROR==").strip() for line in run.output.splitlines()]
    errors = [line for line in lines if line.startswith("driver:")] or [
        line.removeprefix("==ERROR==").strip()
        for line in run.output.splitlines()
        if line.startswith("==ERROR==")
    ]
    last = (errors or [line for line in lines if line] or ["no output"])[-1]
    return f"no counters: ncu ended with code {run.exit_code}: {last[:200]}"
