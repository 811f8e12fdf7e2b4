"""Runs by the name a person gives them."""

import os
import shlex
from pathlib import Path

from cuda_llm.errors import UsageError
from cuda_llm.traces.event_log import is_being_written
from cuda_llm.traces.run_folder import RunFolder

RUNS = Path("traces/runs")
"""Where runs lie unless the user says otherwise, below the current folder."""
LATEST = "latest"
SHOWN = 5


def find_run(name: str, out: Path | None = None) -> RunFolder:
    """Return the run of that id, of that unique beginning of an id, at that path, or the `latest`.

    Raises UsageError where there is none or more than one, and says what there is.
    """
    here = Path(name)
    if (here / "run.json").is_file():
        return RunFolder(here.resolve())
    if out is not None and not out.is_dir():
        raise UsageError(f"{out}: no such folder; expected a folder of runs")
    runs = list_runs(out)
    if name == LATEST and runs:
        return runs[-1]
    exact = [run for run in runs if run.name == name]
    found = exact or [run for run in runs if name and run.name.startswith(name)]
    if len(found) == 1:
        return found[0]
    folder = out or RUNS
    if found:
        raise UsageError(f"{name!r} is the beginning of {len(found)} runs: {_names(found)}")
    there = f"there are {_names(runs)}" if runs else "there are none"
    raise UsageError(
        f"no run {name!r} in {folder}: {there}; see: cuda-llm trace list{spell_out(out)}"
    )


def spell_run(run: RunFolder) -> str:
    """Return the name that commands find the run by from the current folder, quoted for a shell."""
    if (RUNS / run.name).resolve() == run.path.resolve():
        return shlex.quote(run.name)
    try:
        near = os.path.relpath(run.path)
    except OSError:
        near = ".."
    return shlex.quote(str(run.path) if near.startswith("..") else near)


def spell_out(out: Path | None) -> str:
    """Return the option that commands need to work on runs of this folder, with a space before."""
    return "" if out in (None, RUNS) else f" --out {shlex.quote(str(out))}"


def list_runs(out: Path | None = None) -> tuple[RunFolder, ...]:
    """Return the runs of a folder, oldest first. Raises UsageError where it cannot be read.

    First come runs that never began: folders without an event on which no process works.
    """
    folder = out or RUNS
    try:
        found = [one.parent for one in folder.glob("*/run.json")]
        return tuple(RunFolder(path.resolve()) for path in sorted(found, key=_age))
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}; expected a folder of runs") from None


def _age(run: Path) -> tuple[str, str]:
    """Return when it began. Without an event it is new while at work, else it sorts first."""
    try:
        with (run / "events.jsonl").open(encoding="utf-8", errors="replace") as events:
            first = events.readline()
    except OSError:
        first = ""
    _, found, rest = first.partition('"at":"')
    if found:
        return rest.partition('"')[0], run.name
    return "~" if is_being_written(run / "events.jsonl") else "", run.name


def _names(runs: tuple[RunFolder, ...] | list[RunFolder]) -> str:
    shown = [run.name for run in runs[-SHOWN:]]
    more = f" and {len(runs) - SHOWN} older" if len(runs) > SHOWN else ""
    return ", ".join(shown) + more
