"""The kernel of a run that is worth exporting."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cuda_llm.errors import CudaLLMError, UsageError
from cuda_llm.outcomes import Passed
from cuda_llm.search import Attempt
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task
from cuda_llm.traces.events import WinnerRemeasured
from cuda_llm.traces.run_folder import RunFolder
from cuda_llm.traces.summary import RunState, read_story, state_of


@dataclass(frozen=True, kw_only=True)
class Winner:
    """The best kernel of a run, and all that proves it."""

    run_id: str
    state: RunState
    run: Mapping[str, Any]
    """What run.json says."""
    task: Task
    attempt: Attempt
    source: str
    verdict: Passed
    remeasured: WinnerRemeasured | None


def find_winner(run: RunFolder) -> Winner:
    """The winner, or the best so far of a run that has not ended.

    Raises UsageError where the run cannot be read, CudaLLMError where no candidate has passed.
    """
    about = run.read_run()
    story, _ = read_story(run)
    name = story.incumbent
    if name is None:
        ended = "; the baseline stands" if story.finished else " yet"
        raise CudaLLMError(f"run {run.name}: no candidate has passed{ended}: nothing to export")
    attempt, verdict, source = run.attempt(name), run.kept_verdict(name), run.source(name)
    if attempt is None or not isinstance(verdict, Passed) or not source:
        raise UsageError(f"{run.candidate(name)}: incomplete; expected a kernel that passed")
    task = about.get("request", {}).get("task")
    if not (isinstance(task, str) and "device_spec" in about):
        msg = f"{run.path / 'run.json'}: names no task and device; expected what a run writes"
        raise UsageError(msg)
    again = story.remeasured
    return Winner(
        run_id=run.name,
        state=state_of(run, story),
        run=about,
        task=load_task(task),
        attempt=attempt,
        source=source,
        verdict=verdict,
        remeasured=again if again and again.attempt == name else None,
    )
