"""compute-sanitizer on small sizes, for whoever is about to become the incumbent."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cuda_llm.outcomes import Verdict
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.compiler.toolkit import Toolkit
from cuda_llm.tools.counters.enclosed import ToolRun, run_enclosed
from cuda_llm.tools.counters.findings import read_findings, summary_errors
from cuda_llm.tools.counters.trial import works_confined

TOOLS = ("memcheck", "racecheck", "initcheck")
_EXIT_CODE = 86
_OPTIONS = (
    "--print-limit",
    "50",
    "--error-exitcode",
    str(_EXIT_CODE),
    "--show-backtrace",
    "device",
)
_OF_ONE = {
    "memcheck": ("--report-api-errors", "no"),
    "racecheck": ("--racecheck-report", "analysis"),
    "initcheck": (),
}
"""What CUDA refused is the judge's to tell: a candidate may have found another way."""

State = Literal["clean", "found", "not finished", "not run"]


@dataclass(frozen=True, kw_only=True)
class Sanitized:
    """What one tool said of one size."""

    tool: str
    state: State
    verdicts: tuple[Verdict, ...] = ()
    note: str = ""
    """Why it is neither clean nor found; never empty then."""
    missing: tuple[str, ...] = ()
    """What of the confinement this machine does not grant."""


async def sanitize(
    sanitizer: Path,
    tool: str,
    program: Sequence[str],
    compiled: Compiled,
    folder: Path,
    *,
    wall_s: float,
) -> Sanitized:
    """Run one tool over `program`, a driver's command. A tool that did not finish said nothing."""
    options = (*_OPTIONS, *_OF_ONE[tool])
    command = [str(sanitizer), "--tool", tool, *options, *program]
    run = await run_enclosed(command, folder, wall_s=wall_s)
    return judge(tool, run, compiled, wall_s)


async def sanitizer_works_confined(
    sanitizer: Path, toolkit: Toolkit, target: str, *, wall_s: float
) -> bool:
    """See `works_confined`."""

    def is_right(run: ToolRun) -> bool:
        return run.exit_code == 0 and summary_errors(run.output) == 0

    options = ("--tool", "memcheck", *_OPTIONS)
    return await works_confined(sanitizer, options, is_right, toolkit, target, wall_s=wall_s)


def judge(tool: str, run: ToolRun, compiled: Compiled, wall_s: float) -> Sanitized:
    """What the output of one tool amounts to."""
    verdicts = read_findings(run.output, compiled)
    if verdicts:
        return Sanitized(tool=tool, state="found", verdicts=verdicts, missing=run.missing)
    if run.timed_out:
        note = f"{tool} did not finish within {wall_s:.0f} s"
        return Sanitized(tool=tool, state="not finished", note=note, missing=run.missing)
    if run.exit_code == 0 and summary_errors(run.output) == 0:
        return Sanitized(tool=tool, state="clean", missing=run.missing)
    lines = [line.removeprefix("=========").strip() for line in run.output.splitlines()]
    said = [line for line in lines if line and line != "COMPUTE-SANITIZER"] or ["it said nothing"]
    ours = [line for line in said if line.startswith("driver:")]
    note = f"{tool} came to no result (code {run.exit_code}): {(ours or said)[0][:200]}"
    return Sanitized(tool=tool, state="not run", note=note, missing=run.missing)
