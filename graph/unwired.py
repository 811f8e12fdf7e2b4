"""A run without a `Wiring` in its context: LangGraph Studio, or a bare `ainvoke`.

Its wiring is made from the public input, kept by run id until the run is over, and made again from
the run's folder where a server was restarted in between.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cuda_llm.graph.bind import Find
from cuda_llm.graph.overrides import Overrides
from cuda_llm.graph.request import make_request
from cuda_llm.graph.runs.parts import Parts, find_parts
from cuda_llm.graph.state import SearchInput
from cuda_llm.graph.wiring import Wiring
from cuda_llm.traces.recorder import Recorder

_open: dict[str, Wiring] = {}


def finder(overrides: Overrides) -> Find:
    """How the nodes of a graph find their wiring; `overrides` rules over what a context holds."""
    parts = {name: part for name, part in overrides.given.items() if name != "agents"}

    async def find(state: Mapping[str, Any], given: object) -> Wiring:
        wiring = given if isinstance(given, Wiring) else await opened(state, overrides)
        return replace(wiring, **parts) if parts else wiring  # type: ignore[arg-type]

    return find


def anew(find: Find) -> Find:
    """Finds wirings of new runs: what a thread's earlier run left in the state does not count."""

    async def find_new(state: Mapping[str, Any], given: object) -> Wiring:
        return await find(input_of(state), given)

    return find_new


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


def release(wiring: Wiring) -> None:
    """The run is over: give its trace back. A run wired by its caller is the caller's to close."""
    mine = _open.pop(wiring.run_id, None)
    if mine is not None and isinstance(mine.record, Recorder):
        mine.record.close()


def input_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the state that the user gave."""
    return {key: state[key] for key in SearchInput.__annotations__ if key in state}


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
    return wire_parts(parts, recorder, budget)


def parts_again(name: str, overrides: Overrides) -> Parts:
    """The parts of a run that another process began. Raises UsageError where it is not found."""
    from cuda_llm.graph.runs.resume import parts_of
    from cuda_llm.traces.find import find_run

    return parts_of(find_run(name), overrides)
