"""Goes on with a run that was interrupted, killed, or waits for a review."""

from collections.abc import Iterable
from dataclasses import replace

from cuda_llm.errors import UsageError
from cuda_llm.graph.overrides import NOTHING, Overrides
from cuda_llm.graph.runs.check_request import check_request
from cuda_llm.graph.runs.parts import Parts, find_named
from cuda_llm.graph.runs.preflight import preflight
from cuda_llm.graph.runs.result import Result, read_result
from cuda_llm.graph.runs.run_record import check_device, read_request
from cuda_llm.graph.runs.start import work
from cuda_llm.graph.runs.task_print import check_unchanged
from cuda_llm.graph.runs.wire import open_budget
from cuda_llm.traces.recorder import Observer, is_being_written
from cuda_llm.traces.run_folder import RunFolder


async def resume(
    folder: RunFolder,
    *,
    hints: tuple[str, ...] = (),
    overrides: Overrides = NOTHING,
    observers: Iterable[Observer] = (),
) -> Result:
    """Work to the end, to the next review, or until cancelled. `hints` answer a review.

    Raises UsageError: no run, finished, at work in another process, its task has changed, or it was
    started with parts that are not brought again.
    """
    check_open(folder)
    parts = parts_of(folder, overrides)
    budget = open_budget(parts)
    probes = await preflight(parts, budget)
    # In this program's format: an older one that knows no hints by id does not go on with it.
    folder.write_run(folder.read_run())
    await work(parts, budget, probes, observers, hints)
    return read_result(folder)


def check_open(folder: RunFolder) -> None:
    """Raises UsageError where there is nothing to resume."""
    run = folder.read_run()
    read_request(folder, run)
    if is_being_written(folder.events):
        msg = f"run {folder.name} is at work in another process; wait for it or stop it"
        raise UsageError(msg)
    if run["forked_from"] and not folder.checkpoint.exists():
        of, round_ = run["forked_from"]["run"], run["forked_from"]["round"]
        raise UsageError(
            f"{folder.checkpoint}: gone, and only it knows how the fork began; "
            f"fork again with: cuda-llm resume {of} --from-round {round_}"
        )
    if folder.events.exists() and read_result(folder).finished:
        raise UsageError(
            f"run {folder.name} is finished; fork it with: "
            f"cuda-llm resume {folder.name} --from-round K --edit-hints"
        )


def parts_of(folder: RunFolder, overrides: Overrides) -> Parts:
    """The parts that the run was started with, found again."""
    run = folder.read_run()
    request = read_request(folder, run)
    missing = [name for name in run["brought"] if name not in overrides.given]
    if missing:
        own = ", ".join(missing)
        msg = f"run {folder.name} was started from Python with its own {own}; bring it again"
        raise UsageError(msg)
    # The folder may have been moved, and `auto` would find another device on another day.
    device = run.get("device_spec", request.device) if request.device == "auto" else request.device
    here = replace(request, out=str(folder.path.parent), run_id=folder.name, device=device)
    check_request(here)
    parts = find_named(here, overrides)
    check_device(run, parts.device)
    check_unchanged(parts.task, run["task_files"])
    return parts
