"""Start a run, or resume one that was interrupted, killed, or waits for a review."""

import platform
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from importlib.metadata import PackageNotFoundError, version

from cuda_llm.agents.llm.budget import Budget
from cuda_llm.agents.protocols import Tuner
from cuda_llm.agents.situation import Plan
from cuda_llm.errors import UsageError
from cuda_llm.graph.context import RunContext
from cuda_llm.graph.request import NO_OVERRIDES, Overrides, RunRequest
from cuda_llm.graph.runs.models import ModelClients, open_generator, open_reflector, preflight
from cuda_llm.graph.runs.parts import RunParts, find_parts, find_parts_by_name
from cuda_llm.graph.runs.record import (
    check_device,
    check_task_unchanged,
    describe_run,
    recorded_request,
    setup_note,
)
from cuda_llm.graph.runs.resolve import check_request
from cuda_llm.graph.runs.result import Result, read_result, time_by_stage
from cuda_llm.tools.judge.bench import Bench
from cuda_llm.traces.best import BestKeeper
from cuda_llm.traces.event_log import Observer, Recorder, is_being_written, read_events
from cuda_llm.traces.events import Event, Record
from cuda_llm.traces.run_folder import RunFolder

PACKAGES = ("cuda-llm", "langgraph", "langchain-openai", "optuna")


def versions() -> dict[str, str]:
    """Return versions by package name; what is not installed is left out."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def build_context(parts: RunParts, record: Record, budget: Budget | None = None) -> RunContext:
    """Build the run context of parts already found; `record` receives its events."""
    request, brought = parts.request, parts.overrides
    folder = RunFolder(parts.run)
    budget = budget or open_budget(parts)
    clients = ModelClients(parts, folder, record, budget)
    return RunContext(
        run_id=request.run_id,
        request=replace(request, model=parts.model),
        task=parts.task,
        device=parts.device,
        plan=plan_of(request),
        folder=folder,
        record=record,
        generator=open_generator(parts, clients),
        strategy=parts.strategy,
        reflector=open_reflector(parts, clients),
        tuner=brought.tuner or open_tuner(),
        agents=parts.agents,
        bench=brought.bench or open_bench(parts),
        stop_reason=budget.over,
        seconds_left=budget.seconds_left,
        client_of=clients.of_agent,
        note=setup_note(parts),
        versions=versions(),
    )


def plan_of(request: RunRequest) -> Plan:
    """Return what agents see of the request: the fields that a Plan has too."""
    asked = vars(request)
    shared = {one.name: asked[one.name] for one in fields(Plan) if one.name in asked}
    return Plan(**shared, user_hints=request.hints)


def open_budget(parts: RunParts) -> Budget:
    """Open the budget of the run, less what its earlier processes spent."""
    request, events = parts.request, RunFolder(parts.run).events
    budget = Budget(usd=request.budget_usd, tokens=request.max_tokens, minutes=request.max_minutes)
    if events.exists():
        recorded = read_events(events)
        budget.restore((one.event for one in recorded), time_by_stage(recorded)["total"])
    return budget


def open_tuner() -> Tuner:
    """Open the tuner that ships."""
    from cuda_llm.agents.playbook.tuner import TunableTuner

    return TunableTuner()


def open_bench(parts: RunParts) -> Bench:
    """Open the bench that ships. Candidates' inputs follow from the seed, so that a run repeats."""
    from cuda_llm.tools.judge import device_bench
    from cuda_llm.tools.measure.options import L2, MeasureOptions

    request, options = parts.request, MeasureOptions(l2=L2(parts.request.l2))
    return device_bench.open_bench(parts.task, parts.device, seed=request.seed, options=options)


async def start(
    request: RunRequest,
    *,
    overrides: Overrides = NO_OVERRIDES,
    observers: Iterable[Observer] = (),
) -> Result:
    """Run to the end, to a review, or until cancelled; then `resume` goes on.

    Raises UsageError and MissingError before any work starts and any folder is made.
    """
    parts = find_parts(request, overrides)
    budget = open_budget(parts)
    probes = await preflight(parts, budget)
    folder = make_folder(parts)
    await run_graph(parts, budget, probes, observers)
    return read_result(folder)


def make_folder(parts: RunParts) -> RunFolder:
    """Make a new run's folder and run.json. Raises UsageError: it exists, or cannot be written."""
    folder = RunFolder(parts.run)
    try:
        parts.run.mkdir(parents=True)
    except FileExistsError:
        go_on = f"go on with: cuda-llm resume {shlex.quote(str(parts.run))}"
        msg = f"{parts.run}: exists already; {go_on}"
        raise UsageError(msg) from None
    except OSError as error:
        msg = f"{parts.run.parent}: {error.strerror}; choose another folder with --out"
        raise UsageError(msg) from None
    folder.write_run(describe_run(parts))
    return folder


class ProbeReporter:
    """An observer that records the trial calls of the models after the run's first event."""

    def __init__(self, probes: Sequence[Event]) -> None:
        self.record: Record = _drop
        self._probes = probes

    def __call__(self, event: Event) -> None:
        """Record them, once."""
        probes, self._probes = self._probes, ()
        for probe in probes:
            self.record(probe)


def _drop(event: Event) -> None:
    """Drop an event: no recorder is there yet."""


async def run_graph(
    parts: RunParts,
    budget: Budget,
    probes: Sequence[Event],
    observers: Iterable[Observer],
    hints: tuple[str, ...] = (),
) -> None:
    """Run the graph of a run whose folder exists. Raises UsageError where another process does."""
    from cuda_llm.graph.runs.build_graph import build_graph
    from cuda_llm.graph.runs.drive import open_graph_run

    folder = RunFolder(parts.run)
    opening = ProbeReporter(probes)
    recorder = Recorder(folder.events, (opening, BestKeeper(folder), *observers))
    opening.record = recorder
    try:
        context = build_context(parts, recorder, budget)
        async with open_graph_run(context, build_graph(agents=parts.agents)) as driver:
            await driver.run(hints)
    finally:
        recorder.close()


async def resume(
    folder: RunFolder,
    *,
    hints: tuple[str, ...] = (),
    overrides: Overrides = NO_OVERRIDES,
    observers: Iterable[Observer] = (),
) -> Result:
    """Run to the end, to the next review, or until cancelled. `hints` answer a review.

    Raises UsageError: no run, finished, at work in another process, its task has changed, or it was
    started with parts that are not brought again.
    """
    check_open(folder)
    parts = parts_of(folder, overrides)
    budget = open_budget(parts)
    probes = await preflight(parts, budget)
    # In this program's format: an older one that knows no hints by id does not go on with it.
    folder.write_run(folder.read_run())
    await run_graph(parts, budget, probes, observers, hints)
    return read_result(folder)


def check_open(folder: RunFolder) -> None:
    """Raise UsageError where there is nothing to resume."""
    run = folder.read_run()
    recorded_request(folder, run)
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


def parts_of(folder: RunFolder, overrides: Overrides) -> RunParts:
    """Find again the parts that the run was started with."""
    run = folder.read_run()
    request = recorded_request(folder, run)
    missing = [name for name in run["brought"] if name not in overrides.given]
    if missing:
        own = ", ".join(missing)
        msg = f"run {folder.name} was started from Python with its own {own}; bring it again"
        raise UsageError(msg)
    # The folder may have been moved, and `auto` would find another device on another day.
    device = run.get("device_spec", request.device) if request.device == "auto" else request.device
    here = replace(request, out=str(folder.path.parent), run_id=folder.name, device=device)
    check_request(here)
    parts = find_parts_by_name(here, overrides)
    check_device(run, parts.device)
    check_task_unchanged(parts.task, run["task_files"])
    return parts
