"""The graph without a run around it: `build_graph()`, LangGraph Studio, or a bare `ainvoke`.

Such a run's context is made from the public input, kept by run id until the run is over, and made
again from the run's folder where a server was restarted in between.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from cuda_llm.agents.protocols import PlacedAgent
from cuda_llm.graph.build import assemble_graph
from cuda_llm.graph.context import FindContext, RunContext, input_of
from cuda_llm.graph.request import Overrides, make_request
from cuda_llm.graph.runs.parts import RunParts, find_parts
from cuda_llm.graph.state import SearchInput, SearchOutput, SearchState
from cuda_llm.traces.event_log import Recorder

if TYPE_CHECKING:
    from langgraph.graph import StateGraph

    from cuda_llm.agents.protocols import Generator, Reflector, Strategy, Tuner
    from cuda_llm.tools.judge.bench import Bench

_open: dict[str, RunContext] = {}


def build_graph(
    *,
    generator: "Generator | None" = None,
    strategy: "Strategy | None" = None,
    reflection: "Reflector | None" = None,
    tuner: "Tuner | None" = None,
    bench: "Bench | None" = None,
    agents: Sequence[PlacedAgent] = (),
) -> "StateGraph[SearchState, Any, SearchInput, SearchOutput]":
    """The graph, not compiled: add nodes of your own, then `compile()` it.

    What is given replaces what the run's `Wiring` holds. `agents` stand behind their stages; one
    named `hardware_research` takes the researcher's place. Raises UsageError for a name used twice.
    """
    overrides = Overrides(
        generator=generator,
        strategy=strategy,
        reflector=reflection,
        tuner=tuner,
        bench=bench,
        agents=tuple(agents),
    )
    return assemble_graph(context_finder(overrides), agents)


def context_finder(overrides: Overrides) -> FindContext:
    """How the nodes of a graph find their context; `overrides` rules over what a context holds."""
    parts = {name: part for name, part in overrides.given.items() if name != "agents"}

    async def find(state: Mapping[str, Any], given: object) -> RunContext:
        context = given if isinstance(given, RunContext) else await open_context(state, overrides)
        return replace(context, **parts) if parts else context  # type: ignore[arg-type]

    return find


async def open_context(state: Mapping[str, Any], overrides: Overrides) -> RunContext:
    """The context of the run that `state` belongs to; made now where there is none."""
    name = state.get("candidate_run") or state.get("run_id", "")
    if name in _open:
        return _open[name]
    parts = (
        parts_of_begun_run(name, overrides)
        if name
        else find_parts(make_request(input_of(state)), overrides)
    )
    context = await make_context(parts, known=bool(name))
    return _open.setdefault(context.run_id, context)


def release_context(run_id: str) -> None:
    """The run is over: give its trace back."""
    context = _open.pop(run_id, None)
    if context is not None and isinstance(context.record, Recorder):
        context.record.close()


async def make_context(parts: RunParts, *, known: bool) -> RunContext:
    """The context of a run that nobody else has opened, with its folder."""
    from cuda_llm.graph.runs.models import preflight
    from cuda_llm.graph.runs.start import ProbeReporter, build_context, make_folder, open_budget
    from cuda_llm.traces.best import BestKeeper
    from cuda_llm.traces.run_folder import RunFolder

    budget = open_budget(parts)
    opening = ProbeReporter(await preflight(parts, budget))
    folder = RunFolder(parts.run) if known else make_folder(parts)
    recorder = Recorder(folder.events, (opening, BestKeeper(folder)))
    opening.record = recorder
    context = build_context(parts, recorder, budget)
    return replace(context, release=partial(release_context, context.run_id))


def parts_of_begun_run(name: str, overrides: Overrides) -> RunParts:
    """The parts of a run that another process began. Raises UsageError where it is not found."""
    from cuda_llm.graph.runs.start import parts_of
    from cuda_llm.traces.find import find_run

    return parts_of(find_run(name), overrides)
