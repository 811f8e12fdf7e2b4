"""Starts a run: checks everything, makes its folder, and works until it ends."""

import shlex
from collections.abc import Iterable, Sequence

from cuda_llm.agents.llm.budget import Budget
from cuda_llm.errors import UsageError
from cuda_llm.graph.overrides import NOTHING, Overrides
from cuda_llm.graph.request import RunRequest
from cuda_llm.graph.runs.best import BestKeeper
from cuda_llm.graph.runs.parts import Parts, find_parts
from cuda_llm.graph.runs.preflight import preflight
from cuda_llm.graph.runs.result import Result, read_result
from cuda_llm.graph.runs.run_record import describe_run
from cuda_llm.graph.runs.wire import open_budget, wire_parts
from cuda_llm.traces.events import Event, Record
from cuda_llm.traces.recorder import Observer, Recorder
from cuda_llm.traces.run_folder import RunFolder


async def start(
    request: RunRequest,
    *,
    overrides: Overrides = NOTHING,
    observers: Iterable[Observer] = (),
) -> Result:
    """Run to the end, to a review, or until cancelled; then `resume` goes on.

    Raises UsageError and MissingError before any work starts and any folder is made.
    """
    parts = find_parts(request, overrides)
    budget = open_budget(parts)
    probes = await preflight(parts, budget)
    folder = make_folder(parts)
    await work(parts, budget, probes, observers)
    return read_result(folder)


def make_folder(parts: Parts) -> RunFolder:
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


class Opening:
    """An observer that records the trial calls of the models behind the run's first event."""

    def __init__(self, probes: Sequence[Event]) -> None:
        self.record: Record = _nobody
        self._probes = probes

    def __call__(self, event: Event) -> None:
        """Record them, once."""
        probes, self._probes = self._probes, ()
        for probe in probes:
            self.record(probe)


def _nobody(event: Event) -> None:
    """Drop an event: no recorder is there yet."""


async def work(
    parts: Parts,
    budget: Budget,
    probes: Sequence[Event],
    observers: Iterable[Observer],
    hints: tuple[str, ...] = (),
) -> None:
    """Run the graph of a run whose folder exists. Raises UsageError where another process does."""
    from cuda_llm.graph.runs.drive import open_driver
    from cuda_llm.graph.unwired import build_graph

    folder = RunFolder(parts.run)
    opening = Opening(probes)
    recorder = Recorder(folder.events, (opening, BestKeeper(folder), *observers))
    opening.record = recorder
    try:
        wiring = wire_parts(parts, recorder, budget)
        async with open_driver(wiring, build_graph(agents=parts.agents)) as driver:
            await driver.run(hints)
    finally:
        recorder.close()
