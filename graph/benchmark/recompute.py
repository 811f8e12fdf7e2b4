"""Rows of a benchmark computed again from the folders of its runs: nothing is judged."""

from dataclasses import replace

from cuda_llm.errors import CudaLLMError
from cuda_llm.graph.benchmark.folder import BenchmarkFolder, BenchmarkPlan
from cuda_llm.graph.benchmark.row import NONE_TIMED, TaskRow, TimedLibraries, read_row
from cuda_llm.graph.runs.replay import recorded_hardware
from cuda_llm.graph.runs.result import read_result
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.objective import with_objective


def recompute_rows(folder: BenchmarkFolder, plan: BenchmarkPlan) -> tuple[TaskRow, ...]:
    """Return a row for each run of the plan, of a finished run as its folder says now.

    The times of libraries and copies, which no run holds, are those of the stored rows. A row whose
    run is not finished, or cannot be read any more, stays as it is stored.
    """
    stored = zip(plan.tasks, folder.rows(plan), strict=True)
    return folder.place_beside(plan, [_recompute(folder, plan, *one) for one in stored])


def _recompute(folder: BenchmarkFolder, plan: BenchmarkPlan, name: str, stored: TaskRow) -> TaskRow:
    """Return the row of one run."""
    run = folder.run(name)
    if stored.state not in ("done", "waiting") or not run.events.exists():
        return stored
    try:
        if not read_result(run).finished:
            return stored
        config = plan.config.changed(task=plan.tasks[name], **plan.sweep.get(name, {}))
        task = with_objective(load_task(config.task), config.objective, config.weights)
        libraries = timed_libraries(stored)
        row = read_row(run, task, recorded_hardware(run), libraries=libraries)
    except CudaLLMError as unreadable:
        return replace(stored, error=f"not computed again: {unreadable}")
    return plan.place(name, row)


def timed_libraries(row: TaskRow) -> TimedLibraries:
    """Return the times of libraries and copies that a row holds."""
    if not row.sizes:
        return replace(NONE_TIMED, note=row.libraries_note)
    return TimedLibraries(
        fastest=tuple(one.library for one in row.sizes),
        copies_us=tuple(one.copy_us for one in row.sizes),
        note=row.libraries_note,
    )
