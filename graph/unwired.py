"""The graph without a run around it: LangGraph Studio, or a bare `ainvoke`.

Such a run's context is made from the public input, kept by run id until the run is over, and made
again from the run's folder where a server was restarted in between.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from cuda_llm.agents.seam import PlacedAgent
from cuda_llm.graph.bind import Find, input_of
from cuda_llm.graph.build import assemble_graph
from cuda_llm.graph.overrides import Overrides
from cuda_llm.graph.request import make_request
from cuda_llm.graph.runs.parts import Parts, find_parts
from cuda_llm.graph.state import SearchInput, SearchOutput, SearchState
from cuda_llm.graph.wiring import Wiring
from cuda_llm.traces.recorder import Recorder

if TYPE_CHECKING:
    from langgraph.graph import StateGraph

    from cuda_llm.agents.generator import Generator
    from cuda_llm.agents.reflector import Reflector
    from cuda_llm.agents.strategy import Strategy
    from cuda_llm.agents.tuner import Tuner
    from cuda_llm.graph.judging.bench import Bench

_open: dict[str, Wiring] = {}


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
    return assemble_graph(finder(overrides), agents)


def finder(overrides: Overrides) -> Find:
    """How the nodes of a graph find their wiring; `overrides` rules over what a context holds."""
    parts = {name: part for name, part in overrides.given.items() if name != "agents"}

    async def find(state: Mapping[str, Any], given: object) -> Wiring:
        wiring = given if isinstance(given, Wiring) else await opened(state, overrides)
        return replace(wiring, **parts) if parts else wiring  # type: ignore[arg-type]

    return find


async def opened(state: Mapping[str, Any], overrides: Overrides) -> Wiring:
    """The wiring of the run that `state` belongs to; made now where there is none."""
    name = state.get("candidate_run") or state.get("run_id", "")
    if name in _open:
        return _open[name]
    parts = (
        parts_again(name, overrides)
        if name
        else find_parts(make_request(input_of(state)), overrides)
    )
    wiring = await wire_up(parts, known=bool(name))
    return _open.setdefault(wiring.run_id, wiring)


def release(run_id: str) -> None:
    """The run is over: give its trace back."""
    wiring = _open.pop(run_id, None)
    if wiring is not None and isinstance(wiring.record, Recorder):
        wiring.record.close()


async def wire_up(parts: Parts, *, known: bool) -> Wiring:
    """The wiring of a run that nobody else has opened, with its folder."""
    from cuda_llm.graph.runs.best import BestKeeper
    from cuda_llm.graph.runs.preflight import preflight
    from cuda_llm.graph.runs.start import Opening, make_folder
    from cuda_llm.graph.runs.wire import open_budget, wire_parts
    from cuda_llm.traces.run_folder import RunFolder

    budget = open_budget(parts)
    opening = Opening(await preflight(parts, budget))
    folder = RunFolder(parts.run) if known else make_folder(parts)
    recorder = Recorder(folder.events, (opening, BestKeeper(folder)))
    opening.record = recorder
    wiring = wire_parts(parts, recorder, budget)
    return replace(wiring, release=partial(release, wiring.run_id))


def parts_again(name: str, overrides: Overrides) -> Parts:
    """The parts of a run that another process began. Raises UsageError where it is not found."""
    from cuda_llm.graph.runs.resume import parts_of
    from cuda_llm.traces.find import find_run

    return parts_of(find_run(name), overrides)
