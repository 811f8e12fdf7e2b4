"""The graph without a run around it: `build_graph()`, LangGraph Studio, or a bare `ainvoke`.

Such a run's context is made from the public input, kept by run id until the run is over, and made
again from the run's folder where a server was restarted in between.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from cuda_llm.agents.protocols import PlacedAgent, Stage
from cuda_llm.errors import InputRefused, UsageError
from cuda_llm.graph.agents import RESEARCHER, agent_node, research
from cuda_llm.graph.candidate import candidate_node
from cuda_llm.graph.context import (
    FindContext,
    RunContext,
    bind_node,
    ignoring_earlier_runs,
    input_of,
)
from cuda_llm.graph.node_report import bind_reporting
from cuda_llm.graph.parts import Parts, RunParts
from cuda_llm.graph.review import review
from cuda_llm.graph.round_nodes import (
    choose,
    collect,
    collect_trials,
    each_candidate,
    each_trial,
    hand_out,
    next_round_or_finish,
    reflection,
    route,
    strategy,
    tuner,
)
from cuda_llm.graph.run_nodes import baseline, finish, start
from cuda_llm.graph.runs.graph_input import make_search_graph
from cuda_llm.graph.runs.parts import find_parts
from cuda_llm.graph.state import SearchOutput, SearchState
from cuda_llm.run_config import RunConfig, read_config
from cuda_llm.traces.event_log import Recorder

if TYPE_CHECKING:
    from langgraph.graph import StateGraph

    from cuda_llm.agents.protocols import Generator, Reflector, Strategy, Tuner
    from cuda_llm.tools.judge.bench import Bench

NODES = {
    "start": start,
    RESEARCHER: research,
    "baseline": baseline,
    "strategy": strategy,
    "review": review,
    "hand_out": hand_out,
    "collect": collect,
    "tuner": tuner,
    "collect_trials": collect_trials,
    "choose": choose,
    "reflection": reflection,
    "route": route,
    "finish": finish,
}
"""Nodes of the graph by name, in their order. The subgraph `candidate` stands before `collect`,
`trial` before `collect_trials`."""

LAST_NODE = {
    Stage.START: "start",
    Stage.RESEARCH: RESEARCHER,
    Stage.BASELINE: "baseline",
    Stage.STRATEGY: "strategy",
    Stage.CANDIDATES: "collect",
    Stage.TUNER: "collect_trials",
    Stage.REFLECTION: "reflection",
}
"""Last node of each stage: extra agents follow that node."""

EDGES = (
    ("start", RESEARCHER),
    (RESEARCHER, "baseline"),
    ("baseline", "strategy"),
    ("strategy", "review"),
    ("review", "hand_out"),
    ("candidate", "collect"),
    ("collect", "tuner"),
    ("trial", "collect_trials"),
    ("collect_trials", "choose"),
    ("choose", "reflection"),
    ("reflection", "route"),
)

SERVED_STEPS = 1000
"""More than any run takes: a graph that goes in circles is our fault, and ends."""

# The development server refuses whatever touches a file from an async function, unless it was
# started with `--allow-blocking`: this variable, asked for once the modules of its graphs are
# loaded. A run writes small local files between its steps, each in far less than a millisecond.
if os.environ.get("LANGSMITH_LANGGRAPH_API_VARIANT") == "local_dev":
    os.environ["LANGGRAPH_ALLOW_BLOCKING"] = "true"

_open: dict[str, RunContext] = {}
"""Contexts that `open_context` made, by run id."""


def build_graph(
    *,
    generator: "Generator | None" = None,
    strategy: "Strategy | None" = None,
    reflection: "Reflector | None" = None,
    tuner: "Tuner | None" = None,
    bench: "Bench | None" = None,
    agents: Sequence[PlacedAgent] = (),
) -> "StateGraph[SearchState, Any, Any, SearchOutput]":
    """Return the graph, not compiled: add nodes of your own, then `compile()` it.

    What is given replaces what the run's context holds. `agents` stand behind their stages; one
    named `hardware_research` takes the researcher's place. Raises UsageError for a name used twice.
    """
    brought = Parts(
        generator=generator,
        strategy=strategy,
        reflector=reflection,
        tuner=tuner,
        bench=bench,
        agents=tuple(agents),
    )
    return assemble_graph(context_finder(brought), agents)


def assemble_graph(
    find: FindContext, agents: Sequence[PlacedAgent] = ()
) -> "StateGraph[SearchState, Any, Any, SearchOutput]":
    """Build the graph, not compiled; its nodes get their context from `find`.

    `agents` stand behind their stages; one named `hardware_research` takes the researcher's place.
    Raises UsageError for a name used twice.
    """
    from langgraph.graph import END, START

    graph = make_search_graph()
    add_nodes(graph, find, agents)
    add_chain(graph, find, agents)
    graph.add_edge(START, "start")
    graph.add_conditional_edges("route", next_round_or_finish)
    graph.add_edge("finish", END)
    return graph


def add_nodes(graph: Any, find: FindContext, agents: Sequence[PlacedAgent]) -> None:
    """Add every node. The same subgraph takes candidates and trials."""
    taken = {*NODES, "candidate", "trial"} - {RESEARCHER}
    for placed in agents:
        if placed.name in taken:
            raise UsageError(f"agent {placed.name!r}: the name is taken; give it another")
        taken.add(placed.name)
        graph.add_node(placed.name, agent_node(placed, find))
    for name, node in NODES.items():
        if name not in graph.nodes:
            own = ignoring_earlier_runs(find) if node is start else find
            graph.add_node(name, bind_reporting(node, own, name))
    candidate = candidate_node(find)
    graph.add_node("candidate", candidate)
    graph.add_node("trial", candidate)


def add_chain(graph: Any, find: FindContext, agents: Sequence[PlacedAgent]) -> None:
    """Add the edges between the nodes, with the extra agents on them."""
    extra = {
        node: [one.name for one in agents if one.after == stage and one.name != RESEARCHER]
        for stage, node in LAST_NODE.items()
    }
    for first, last in EDGES:
        way = [first, *extra.get(first, ()), last]
        for before, after in pairwise(way):
            graph.add_edge(before, after)
    after_trials = [*extra["collect_trials"], "choose"][0]
    graph.add_conditional_edges(
        "hand_out",
        bind_node(each_candidate, find, "each_candidate"),
        {"candidate": "candidate", "on": "collect"},
    )
    graph.add_conditional_edges("tuner", each_trial, {"trial": "trial", "on": after_trials})


def context_finder(brought: Parts) -> FindContext:
    """Return what finds the context of a node; parts that were `brought` to the graph replace
    the parts of that context."""
    parts = {name: part for name, part in brought.given.items() if name != "agents"}

    async def find(state: Mapping[str, Any], given: object) -> RunContext:
        context = given if isinstance(given, RunContext) else await open_context(state, brought)
        return replace(context, **parts) if parts else context  # type: ignore[arg-type]

    return find


async def open_context(state: Mapping[str, Any], brought: Parts) -> RunContext:
    """Return the context of the run that `state` belongs to, which is made at the first call."""
    name = state.get("candidate_run") or state.get("run_id", "")
    if name in _open:
        return _open[name]
    try:
        parts = parts_of_begun_run(name, brought) if name else parts_of_input(state, brought)
    except UsageError as error:
        raise InputRefused(str(error)) from error
    context = await make_context(parts, known=bool(name))
    return _open.setdefault(context.run_id, context)


def parts_of_input(state: Mapping[str, Any], brought: Parts) -> RunParts:
    """Find the parts of a new run. Raises UsageError."""
    from cuda_llm.graph.runs.replay import as_asked

    return find_parts(as_asked(read_config(input_of(state), RunConfig)), brought)


def release_context(run_id: str) -> None:
    """Close the trace of a run that is over."""
    context = _open.pop(run_id, None)
    if context is not None and isinstance(context.record, Recorder):
        context.record.close()


async def make_context(parts: RunParts, *, known: bool) -> RunContext:
    """Make the context of a run that no other process works on; its folder too unless `known`."""
    from cuda_llm.graph.runs.drive import open_recorder
    from cuda_llm.graph.runs.run_context import build_context, open_budget, preflight
    from cuda_llm.graph.runs.start import make_folder

    budget = open_budget(parts)
    probes = await preflight(parts, budget)
    if not known:
        make_folder(parts)
    recorder = open_recorder(parts, probes)
    context = build_context(parts, recorder, budget)
    return replace(context, release=partial(release_context, context.run_id))


def parts_of_begun_run(name: str, brought: Parts) -> RunParts:
    """Find the parts of a run that another process began. Raises UsageError without such a run."""
    from cuda_llm.graph.runs.start import parts_of
    from cuda_llm.traces.find import find_run

    return parts_of(find_run(name), brought)


def make_graph() -> Any:
    """Return the compiled graph as LangGraph Studio and `langgraph dev` serve it (langgraph.json).

    The server adds a checkpointer. A run needs only a `task`.
    """
    return build_graph().compile(name="fsr").with_config(recursion_limit=SERVED_STEPS)
