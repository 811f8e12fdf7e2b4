"""What is exported of a run: its winner, and the proof of how fast and how right it is."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from cuda_llm.codec import encode
from cuda_llm.errors import NothingPassed, UsageError
from cuda_llm.figure_wording import describe_no_gain, describe_over
from cuda_llm.outcomes import Passed
from cuda_llm.search import Attempt
from cuda_llm.tasks.loader import list_tasks, load_task
from cuda_llm.tasks.task import Task
from cuda_llm.traces.best import describe_changes, verify_command
from cuda_llm.traces.events import WinnerRemeasured
from cuda_llm.traces.history import read_history
from cuda_llm.traces.run_folder import RunFolder
from cuda_llm.traces.summary import RunState, state_of

SCHEMA = 1
MOST_TASK_BYTES = 64 << 20
"""A folder larger than this holds more than a task."""


@dataclass(frozen=True, kw_only=True)
class Winner:
    """The best kernel of a run, and all that proves it."""

    run_id: str
    state: RunState
    run: Mapping[str, Any]
    """The content of run.json."""
    task: Task
    attempt: Attempt
    source: str
    verdict: Passed
    remeasured: WinnerRemeasured | None


def find_winner(run: RunFolder) -> Winner:
    """Return the winner, or the best so far of a run that has not ended.

    Raises UsageError where the run cannot be read, NothingPassed where no candidate has passed.
    """
    about = run.read_run()
    history, _ = read_history(run)
    name = history.incumbent
    if name is None:
        ended = "; the baseline stands" if history.finished else " yet"
        raise NothingPassed(f"run {run.name}: no candidate has passed{ended}: nothing to export")
    attempt, verdict, source = run.attempt(name), run.kept_verdict(name), run.source(name)
    if attempt is None or not isinstance(verdict, Passed) or not source:
        raise UsageError(f"{run.candidate(name)}: incomplete; expected a kernel that passed")
    task = about.get("request", {}).get("task")
    if not (isinstance(task, str) and "device_spec" in about):
        msg = f"{run.path / 'run.json'}: names no task and device; expected what a run writes"
        raise UsageError(msg)
    again = history.remeasured
    return Winner(
        run_id=run.name,
        state=state_of(run, history),
        run=about,
        task=load_task(task),
        attempt=attempt,
        source=source,
        verdict=verdict,
        remeasured=again if again and again.attempt == name else None,
    )


def prove(winner: Winner) -> dict[str, Any]:
    """Return the contents of proof.json."""
    attempt, profile = winner.attempt, winner.verdict.profile
    again = winner.remeasured
    return {
        "schema": SCHEMA,
        "task": winner.task.name,
        "kernel": {
            "id": attempt.id,
            "written_by": attempt.written_by,
            "model": author(winner),
            "idea": attempt.idea,
            "tunables": dict(attempt.tunables),
            "source_sha256": hashlib.sha256(winner.source.encode(errors="replace")).hexdigest(),
        },
        "verdict": winner.verdict.code,
        "differential": winner.verdict.differential,
        "checked": dict(profile.checked) if profile else {},
        "device": profile.device if profile else winner.run.get("device", ""),
        "hardware": profile.hardware if profile else winner.run.get("hardware", ""),
        "times": profile.source if profile else winner.run.get("time_source", ""),
        "speedup": attempt.speedup,
        "sizes": encode(profile.sizes) if profile else [],
        "remeasured": None if again is None else encode(again),
        "run": {"id": winner.run_id, "state": winner.state},
        "verify": verify_here(winner),
        "exported_by": f"cuda-llm {version('cuda-llm')}",
    }


def verify_here(winner: Winner) -> str:
    """Return the command that judges the export, from its folder, on any machine."""
    place = task_place(winner.task)
    request = winner.run["request"]
    here = {**request, "task": place} if place else request
    return verify_command({**winner.run, "request": here})


def task_place(task: Task) -> str:
    """Return where in an export a task of the user's own lies; empty for one that ships."""
    shipped = task.name in list_tasks() and load_task(task.name).folder == task.folder
    return "" if shipped else f"task/{task.name}"


def task_files(task: Task) -> Iterator[tuple[str, bytes]]:
    """Yield place in the export and content of each file that a task of the user's own consists of.

    That is all of its folder but hidden files, what Python compiled, and runs. Raises UsageError
    where that is more than a task may be.
    """
    place, total = task_place(task), 0
    if not place:
        return
    for path in sorted(task.folder.rglob("*")):
        inside = path.relative_to(task.folder)
        if inside.parts[:2] == ("traces", "runs") or not path.is_file():
            continue
        if any(part.startswith(".") or part == "__pycache__" for part in inside.parts):
            continue
        total += path.stat().st_size
        if total > MOST_TASK_BYTES:
            raise UsageError(
                f"{task.folder}: holds more than {MOST_TASK_BYTES >> 20} MB, and all of a task "
                "travels with an export; move what is not the task's out of its folder"
            )
        yield f"{place}/{inside.as_posix()}", path.read_bytes()


def proof_text(winner: Winner) -> Iterator[str]:
    """Yield the same in a few lines for a person."""
    profile, again = winner.verdict.profile, winner.remeasured
    model = author(winner)
    by = f"Written by: {winner.attempt.written_by}" + (f" ({model})" if model else "")
    yield by + describe_changes(winner.attempt)
    if profile is not None:
        modelled = ", whose times are modelled, not measured" * (profile.source == "modelled")
        speedup = again.speedup if again and again.speedup else winner.attempt.speedup
        over = describe_over(profile.objective, len(profile.sizes))
        if speedup:
            stands = describe_no_gain(speedup, winner.attempt.spread)
            yield f"Speed: {speedup:.2f}x the baseline's{over}" + (f", {stands}" if stands else "")
        yield f"Judged on {profile.device}{modelled}"
        checked = ", ".join(f"{count:,} {what}" for what, count in profile.checked.items())
        oracle = "the task's baseline" if winner.verdict.differential else "a float64 reference"
        yield f"Checked against {oracle}" + (f": {checked}" if checked else "")
    yield f"From run {winner.run_id}, candidate {winner.attempt.id}"
    if winner.state != "finished":
        yield f"The run is {winner.state}, not finished: this is its best so far"


def author(winner: Winner) -> str:
    """Return the name of the model that wrote it; empty where none did."""
    return str(winner.run.get("model", "")) if winner.attempt.written_by == "model" else ""
