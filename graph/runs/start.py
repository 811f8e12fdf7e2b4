"""Starts a run, from Python with `optimize`, and resumes a run that was interrupted or killed, or
waits for a review."""

import asyncio
import time
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Iterable,
    Mapping,
    Sequence,
)
from typing import Any

from cuda_llm.agents.llm.budget import Budget
from cuda_llm.errors import UsageError
from cuda_llm.graph.parts import NO_PARTS, Parts, RunParts
from cuda_llm.graph.review_decisions import ACCEPT, Reviewer
from cuda_llm.graph.runs.keywords import split_keywords
from cuda_llm.graph.runs.parts import find_parts, find_parts_by_name
from cuda_llm.graph.runs.record import (
    check_device,
    check_task_unchanged,
    describe_run,
    recorded_config,
)
from cuda_llm.graph.runs.result import Result, read_result
from cuda_llm.graph.runs.run_context import build_context, open_budget, preflight
from cuda_llm.own_thread import await_here
from cuda_llm.run_config import RunConfig
from cuda_llm.tasks.task import Task
from cuda_llm.tools.open_device import ReportLine, print_line
from cuda_llm.traces.best import remove_best
from cuda_llm.traces.event_log import Observer, is_being_written
from cuda_llm.traces.events import Event
from cuda_llm.traces.find import spell_run
from cuda_llm.traces.run_folder import RunFolder


async def start(
    config: RunConfig,
    *,
    brought: Parts = NO_PARTS,
    observers: Iterable[Observer] = (),
    report: ReportLine = print_line,
    reviewer: Reviewer | None = None,
) -> Result:
    """Run to the end, to a review, or until cancelled; then `resume` goes on.

    `report` gets a line where the device has something to build first; `reviewer` answers reviews.
    Raises UsageError and MissingError before any work starts and any folder is made.
    """
    parts = find_parts(config, brought)
    budget = open_budget(parts)
    probes = await preflight(parts, budget, report)
    folder = make_folder(parts)
    await run_graph(parts, budget, probes, observers, reviewer=reviewer)
    return read_result(folder)


def make_folder(parts: RunParts) -> RunFolder:
    """Make a new run's folder and run.json. Raises UsageError for a folder that exists or cannot be
    written."""
    folder = parts.folder
    try:
        folder.path.mkdir(parents=True)
    except FileExistsError:
        raise UsageError(f"{folder.path}: exists already; {_way_past(folder)}") from None
    except OSError as error:
        msg = f"{folder.path.parent}: {error.strerror}; choose another folder with --out"
        raise UsageError(msg) from None
    folder.write_run(describe_run(parts))
    if parts.replay is not None:
        parts.replay.copy_reviews(folder)
    return folder


def _way_past(folder: RunFolder) -> str:
    """Return what to do about a folder that has the name of a new run."""
    is_open = (folder.path / "run.json").exists() and not _is_finished(folder)
    return f"go on with: {_spell_resume(folder)}" if is_open else "give the new run another name"


def _spell_resume(folder: RunFolder) -> str:
    """Return what resumes a run: a command, or Python where the caller brought parts."""
    brought = folder.read_run().get("brought", ())
    if not brought:
        return f"cuda-llm resume {spell_run(folder)}"
    own = ", ".join(f"{name}=..." for name in brought)
    return f"cuda_llm.resume({str(folder.path)!r}, {own})"


def _is_finished(folder: RunFolder) -> bool:
    return folder.events.exists() and read_result(folder).finished


async def run_graph(
    parts: RunParts,
    budget: Budget,
    probes: Sequence[Event],
    observers: Iterable[Observer],
    answer: object = (),
    reviewer: Reviewer | None = None,
) -> None:
    """Run the graph of a run whose folder exists. Raises UsageError where another process does.

    `answer` is one to the review that the run waits for; `reviewer` gives those that are left.
    """
    from cuda_llm.graph.runs.build_graph import build_graph
    from cuda_llm.graph.runs.drive import open_graph_run, open_recorder

    recorder = open_recorder(parts, probes, observers)
    try:
        context = build_context(parts, recorder, budget)
        async with open_graph_run(context, build_graph(agents=parts.agents)) as driver:
            if answer or reviewer is None or not await driver.waits_for_review():
                await driver.run(answer)
            if reviewer is not None:
                await driver.run_reviewed(outside_the_budget(reviewer, budget))
    finally:
        recorder.close()


def outside_the_budget(reviewer: Reviewer, budget: Budget) -> Reviewer:
    """Return the reviewer, whose time is none of the run's minutes."""

    async def review(shown: Mapping[str, Any]) -> object:
        began = time.monotonic()
        given = reviewer(shown)
        answer = await given if isinstance(given, Awaitable) else given
        budget.leave_out(time.monotonic() - began)
        return answer

    return review


async def resume(
    folder: RunFolder,
    *,
    hints: tuple[str, ...] = (),
    answer: object = (),
    brought: Parts = NO_PARTS,
    observers: Iterable[Observer] = (),
    report: ReportLine = print_line,
    reviewer: Reviewer | None = None,
) -> Result:
    """Run to the end, to the next review, or until cancelled.

    `answer` is one to the review that the run waits for, `hints` accept it and add some. With
    neither, `reviewer` is asked, and without one all is accepted.

    A run that is finished gives its result, as it would have to whoever was waiting for it: its
    process may have been killed before it could. `report` is as for `start`. Raises UsageError: no
    run, an answer to one that is finished, at work in another process, its task has changed, or it
    was started with parts that are not brought again.
    """
    check_at_rest(folder)
    if _is_finished(folder):
        return give_result(folder, hints or answer)
    check_beginning(folder)
    parts = parts_of(folder, brought)
    budget = open_budget(parts)
    probes = await preflight(parts, budget, report)
    await run_graph(parts, budget, probes, observers, hints or answer, reviewer)
    return read_result(folder)


def check_at_rest(folder: RunFolder) -> None:
    """Raise UsageError where the folder holds no run, or another process works on the run."""
    recorded_config(folder, folder.read_run())
    if is_being_written(folder.events):
        msg = f"run {folder.name} is at work in another process; wait for it or stop it"
        raise UsageError(msg)


def give_result(folder: RunFolder, answer: object) -> Result:
    """Return the result of a run that is finished. Raises UsageError where an answer to a review
    comes."""
    if answer not in ((), ACCEPT):
        raise UsageError(
            f"run {folder.name} is finished and waits for no review; fork it with: "
            f"cuda-llm resume {spell_run(folder)} --from-round K --edit-hints"
        )
    result = read_result(folder)
    if result.best is None:
        # Killed between the last event and what follows it.
        remove_best(folder)
    return result


def check_beginning(folder: RunFolder) -> None:
    """Raise UsageError where nothing says any more how a fork began."""
    run = folder.read_run()
    if run["forked_from"] and not folder.checkpoint.exists():
        of, round_ = run["forked_from"]["run"], run["forked_from"]["round"]
        parent = RunFolder(folder.path.with_name(of))
        raise UsageError(
            f"{folder.checkpoint}: gone, and only it knows how the fork began; "
            f"fork again with: cuda-llm resume {spell_run(parent)} --from-round {round_}"
        )


def parts_of(folder: RunFolder, brought: Parts) -> RunParts:
    """Find again the parts that the run was started with."""
    run = folder.read_run()
    config = recorded_config(folder, run)
    missing = [name for name in run["brought"] if name not in brought.given]
    if missing:
        own = ", ".join(missing)
        raise UsageError(
            f"run {folder.name} was started from Python with its own {own}; bring it again: "
            f"{_spell_resume(folder)}"
        )
    # The folder may have been moved, and `auto` would find another device on another day.
    device = run["device_spec"] if config.device == "auto" else config.device
    here = config.changed(out=str(folder.path.parent), run_id=folder.name, device=device)
    parts = find_parts_by_name(here, brought)
    check_device(run, parts.device)
    check_task_unchanged(parts.task, run["task_files"])
    return parts


async def aoptimize(task: Task | str = "", **keywords: Any) -> Result:
    """Search the fastest kernel for a task that passes every check.

    Keywords are the fields of `cuda_llm.run_config.RunConfig`, and `reflector`, `tuner`, `bench`,
    `observers`, `reviewer`; where a field names a part, an object of one's own will do as well.
    What is not given is as on the command line, settings included. Being cancelled leaves a run
    that `resume` goes on with. With `replay`, the name or folder of a run, its record
    answers instead of models and device, and what is not given is as that run was asked for.
    Raises UsageError and MissingError before any work starts, and TypeError for a keyword that is
    none.
    """
    from cuda_llm.graph.runs.replay import as_asked

    config, brought, observers = split_keywords(task, keywords)
    reviewer = keywords.get("reviewer")
    return await start(as_asked(config), brought=brought, observers=observers, reviewer=reviewer)


async def astream(task: Task | str = "", **keywords: Any) -> AsyncGenerator[Event, None]:
    """Yield the events of a search as they happen; keywords are those of `aoptimize`.

    The last event names the best kernel. Leaving early cancels the run, and `resume` goes on
    with it. Raises what `aoptimize` raises.
    """
    queue: asyncio.Queue[Event | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def put(event: Event | None) -> None:
        loop.call_soon_threadsafe(queue.put_nowait, event)

    keywords["observers"] = [*keywords.get("observers", ()), put]
    work = asyncio.ensure_future(aoptimize(task, **keywords))
    work.add_done_callback(lambda _: put(None))
    try:
        while (event := await queue.get()) is not None:
            yield event
        await work
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


def optimize(task: Task | str = "", **keywords: Any) -> Result:
    """`aoptimize` for callers that do not await. Also where a loop runs already, as in a notebook:
    then the search has a thread of its own, and observers are called from there.
    """
    return await_here(aoptimize(task, **keywords))
