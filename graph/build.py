"""The graph of Feature Search and Reinforcement: nodes, and the ways between them."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from cuda_llm.agents.protocols import PlacedAgent, Stage
from cuda_llm.errors import UsageError
from cuda_llm.graph.agents import RESEARCHER, agent_node, research
from cuda_llm.graph.candidate import candidate_node
from cuda_llm.graph.context import FindContext, bind_node, ignoring_earlier_runs
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
from cuda_llm.graph.state import SearchInput, SearchOutput, SearchState

if TYPE_CHECKING:
    from langgraph.graph import StateGraph

NODES = {
    "start": start,
    RESEARCHER: research,
    "baseline": baseline,
    "strategy": strategy,
    "hand_out": hand_out,
    "collect": collect,
    "tuner": tuner,
    "collect_trials": collect_trials,
    "choose": choose,
    "reflection": reflection,
    "route": route,
    "finish": finish,
}
"""In their order. `candidate` stands before `collect`, `trial` before `collect_trials`."""

BEHIND = {
    Stage.START: "start",
    Stage.RESEARCH: RESEARCHER,
    Stage.BASELINE: "baseline",
    Stage.STRATEGY: "strategy",
    Stage.CANDIDATES: "collect",
    Stage.TUNER: "collect_trials",
    Stage.REFLECTION: "reflection",
}
"""The node that ends a stage: extra agents follow it."""

STRAIGHT = (
    ("start", RESEARCHER),
    (RESEARCHER, "baseline"),
    ("baseline", "strategy"),
    ("strategy", "hand_out"),
    ("candidate", "collect"),
    ("collect", "tuner"),
    ("trial", "collect_trials"),
    ("collect_trials", "choose"),
    ("choose", "reflection"),
    ("reflection", "route"),
)


def assemble_graph(
    find: FindContext, agents: Sequence[PlacedAgent] = ()
) -> "StateGraph[SearchState, Any, SearchInput, SearchOutput]":
    """The graph, not compiled; its nodes get their context from `find`.

    `agents` stand behind their stages; one named `hardware_research` takes the researcher's place.
    Raises UsageError for a name used twice.
    """
    from langgraph.graph import END, START, StateGraph

    # No context schema: servers would build a context from the empty one that they send.
    graph = StateGraph(SearchState, input_schema=SearchInput, output_schema=SearchOutput)
    add_nodes(graph, find, agents)
    add_chain(graph, agents)
    graph.add_edge(START, "start")
    graph.add_conditional_edges("route", next_round_or_finish)
    graph.add_edge("finish", END)
    return graph


def add_nodes(graph: Any, find: FindContext, agents: Sequence[PlacedAgent]) -> None:
    """Every node. The same subgraph takes candidates and trials."""
    taken = {*NODES, "candidate", "trial"} - {RESEARCHER}
    for placed in agents:
        if placed.name in taken:
            raise UsageError(f"agent {placed.name!r}: the name is taken; give it another")
        taken.add(placed.name)
        graph.add_node(placed.name, agent_node(placed, find))
    for name, node in NODES.items():
        if name not in graph.nodes:
            graph.add_node(
                name, bind_node(node, ignoring_earlier_runs(find) if node is start else find, name)
            )
    candidate = candidate_node(find)
    graph.add_node("candidate", candidate)
    graph.add_node("trial", candidate)


def add_chain(graph: Any, agents: Sequence[PlacedAgent]) -> None:
    """The ways between the nodes, with the extra agents in them."""
    standing = {
        node: [one.name for one in agents if one.after == stage and one.name != RESEARCHER]
        for stage, node in BEHIND.items()
    }
    for first, last in STRAIGHT:
        way = [first, *standing.get(first, ()), last]
        for before, after in pairwise(way):
            graph.add_edge(before, after)
    tuned = [*standing["collect_trials"], "choose"][0]
    graph.add_conditional_edges(
        "hand_out", each_candidate, {"candidate": "candidate", "on": "collect"}
    )
    graph.add_conditional_edges("tuner", each_trial, {"trial": "trial", "on": tuned})
