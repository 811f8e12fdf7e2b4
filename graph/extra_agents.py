"""Nodes of agents that stand between the stages: a user's own, and the researcher."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cuda_llm.agents.llm.agent_ask import AgentAsk, folder_of_turn
from cuda_llm.agents.seam import AgentContext, Contribution, PlacedAgent
from cuda_llm.agents.situation import Situation
from cuda_llm.codec import decode, encode
from cuda_llm.graph.bind import Find, about, bind
from cuda_llm.graph.contained import contained
from cuda_llm.graph.contributions import contribute
from cuda_llm.graph.state import SearchState, SearchUpdate
from cuda_llm.graph.view import situation_of
from cuda_llm.graph.wiring import Wiring
from cuda_llm.log import bound
from cuda_llm.outcomes import InfraFailed

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

RESEARCHER = "hardware_research"
"""Node and name of the agent that ships; one of the same name takes its place."""
LEAST_S = 1.0
"""An agent has this long even where the run's minutes are over."""


def agent_node(placed: PlacedAgent, find: Find) -> Any:
    """The LangGraph node of one agent."""
    if hasattr(placed.agent, "ainvoke"):
        return subgraph_node(placed, placed.agent, find)

    async def node(state: SearchState, wiring: Wiring) -> SearchUpdate:
        situation = situation_of(state, wiring)
        made = await run_agent(wiring, situation, placed.name, placed.agent)
        return contribute(wiring, placed.name, situation.round, made)

    return bind(node, find, placed.name)


def subgraph_node(placed: PlacedAgent, subgraph: Any, find: Find) -> Any:
    """The node of an agent that is a compiled graph; LangGraph finds it in the closure."""

    async def node(state: Any, runtime: "Runtime[Wiring]") -> SearchUpdate:
        wiring = await find(state, runtime.context)
        situation = situation_of(state, wiring)

        async def invoke(seen: Situation) -> Contribution:
            given = {"situation": plain(seen, wiring)}
            answer = await subgraph.ainvoke(given, context=AgentContext(seen.ask))
            return decode(Contribution, answer["contribution"])

        with bound(**about(wiring, state, placed.name)):
            made = await run_agent(wiring, situation, placed.name, invoke)
        return contribute(wiring, placed.name, situation.round, made)

    return node


async def run_agent(
    wiring: Wiring,
    situation: Situation,
    name: str,
    agent: Callable[[Situation], Awaitable[Contribution]],
) -> Contribution | InfraFailed:
    """What an agent answers, or how it failed; one that hangs is not waited for."""
    from cuda_llm.settings import settings

    limit_s = min(settings().agent_deadline_s, max(LEAST_S, wiring.seconds_left()))
    folder = folder_of_turn(situation.round, name)
    with bound(agent=name), AgentAsk(wiring.client_of(name), name, folder, limit_s) as ask:
        seen = replace(situation, ask=ask)
        return await contained(name, lambda: agent(seen), Contribution, limit_s=limit_s)


def plain(situation: Situation, wiring: Wiring) -> dict[str, Any]:
    """The situation in JSON's own types, without `ask`; its archive is the run's path."""
    values = {**vars(situation), "archive": wiring.folder.path}
    return {name: encode(value) for name, value in values.items() if name != "ask"}


async def research(state: SearchState, wiring: Wiring) -> SearchUpdate:
    """Let the researcher look at the hardware, where the run has one."""
    placed = next((one for one in wiring.agents if one.name == RESEARCHER), None)
    if placed is None:
        return {}
    situation = situation_of(state, wiring)
    made = await run_agent(wiring, situation, RESEARCHER, placed.agent)
    return contribute(wiring, RESEARCHER, situation.round, made)
