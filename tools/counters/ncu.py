"""Nsight Compute on one call of `solve`: counters where they can be read, a note where not."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cuda_llm.tools.compiler.toolkit import Toolkit, find_toolkit
from cuda_llm.tools.compiler.workspace import private_folder
from cuda_llm.tools.counters.enclosed import ToolRun, run_enclosed
from cuda_llm.tools.counters.find import find_tool, missing
from cuda_llm.tools.counters.metrics import DURATION, METRICS, condense
from cuda_llm.tools.counters.ncu_table import parse_table
from cuda_llm.tools.counters.trial import works_confined
from cuda_llm.tools.profiler.measured.counters import KernelCounters

PERMISSION = (
    "no counters: this user may not read them (ERR_NVGPUCTRPERM); load the driver with "
    "NVreg_RestrictProfilingToAdminUsers=0"
)
MOST_LAUNCHES = 64
"""Counted of one call: each is replayed several times."""


@dataclass(frozen=True, kw_only=True)
class Counted:
    """What Nsight Compute said."""

    counters: tuple[KernelCounters, ...] = ()
    """One a kernel launch, in order."""
    report: Path | None = None
    """The .ncu-rep, where one was written."""
    note: str = ""
    """Why there are no counters."""
    missing: tuple[str, ...] = ()
    """What of the confinement this machine does not grant."""


async def count(ncu: Path, program: Sequence[str], folder: Path, *, wall_s: float) -> Counted:
    """Counters of what `program` does between starting and stopping the profiler.

    Caches are flushed before each kernel and clocks left alone. The report stays in `folder`.
    """
    report = folder / "counters.ncu-rep"
    command = [str(ncu), *_options(flush=True), "--metrics", ",".join(METRICS)]
    command += ["--launch-count", str(MOST_LAUNCHES), "-f", "-o", str(report.with_suffix(""))]
    run = await run_enclosed([*command, *program], folder, wall_s=wall_s)
    if not report.is_file():
        return Counted(note=_why(run, wall_s), missing=run.missing)
    reading = [str(ncu), "--import", str(report), "--csv", "--page", "raw", *_BASE_UNITS]
    page = await run_enclosed(reading, folder, wall_s=wall_s)
    counters = tuple(condense(one, flushed=True) for one in parse_table(page.output))
    return Counted(
        counters=counters,
        report=report,
        note="" if counters else _why(page, wall_s),
        missing=run.missing,
    )


async def ncu_duration_us(
    program: Sequence[str], cache: bool, *, wall_s: float = 60.0
) -> float | str:
    """Sum of the times of one call's kernels, caches flushed before each or kept; else why not.

    `program` is a driver's command; `cache`: keep what is in the caches. Copies, fills and gaps
    between kernels are left out. Raises MissingError without nvcc, g++ or a writable cache.
    """
    ncu = find_tool("ncu", find_toolkit())
    if ncu is None:
        return missing("ncu", "counters")
    command = [str(ncu), *_timing_options(flush=not cache)]
    with private_folder() as folder:
        run = await run_enclosed([*command, *program], folder, wall_s=wall_s)
    kernels = parse_table(run.output)
    if not kernels or any(DURATION not in one.metrics for one in kernels):
        return _why(run, wall_s)
    return sum(one.metrics[DURATION] for one in kernels) * 1e6


async def ncu_works_confined(ncu: Path, toolkit: Toolkit, target: str, *, wall_s: float) -> bool:
    """See `works_confined`."""

    def is_right(run: ToolRun) -> bool:
        return bool(parse_table(run.output))

    options = _timing_options(flush=False)
    return await works_confined(ncu, options, is_right, toolkit, target, wall_s=wall_s)


_BASE_UNITS = ("--print-units", "base")


def _timing_options(*, flush: bool) -> list[str]:
    raw = ("--csv", "--page", "raw", *_BASE_UNITS)
    return [*_options(flush=flush), "--metrics", DURATION, *raw]


def _options(*, flush: bool) -> list[str]:
    return [
        *("--clock-control", "none", "--cache-control", "all" if flush else "none"),
        *("--profile-from-start", "off", "--target-processes", "application-only"),
    ]


def _why(run: ToolRun, wall_s: float) -> str:
    """Why a run of Nsight Compute gave no counters."""
    if run.timed_out:
        return f"no counters: ncu did not finish within {wall_s:.0f} s"
    if "ERR_NVGPUCTRPERM" in run.output:
        return PERMISSION
    if "No kernels were profiled" in run.output:
        return "no counters: ncu saw no kernel"
    said = [line.removeprefix("==ERROR==").strip() for line in run.output.splitlines()]
    errors = [line for line in said if line.startswith("driver:")] or [
        line.removeprefix("==ERROR==").strip()
        for line in run.output.splitlines()
        if line.startswith("==ERROR==")
    ]
    last = (errors or [line for line in said if line] or ["it said nothing"])[-1]
    return f"no counters: ncu ended with code {run.exit_code}: {last[:200]}"
