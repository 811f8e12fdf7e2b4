"""Nodes of agents between the stages, and what they add to the state."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cuda_llm.agents.llm.agent_ask import folder_of_turn
from cuda_llm.agents.protocols import AgentContext, Contribution, PlacedAgent
from cuda_llm.agents.situation import Situation
from cuda_llm.codec import decode, encode
from cuda_llm.graph.context import FindContext, RunContext, log_fields, open_ask
from cuda_llm.graph.guards import run_untrusted
from cuda_llm.graph.node_report import (
    bind_reporting,
    decisions_of,
    listening,
)
from cuda_llm.graph.state import SearchState, SearchUpdate, without_defaults
from cuda_llm.graph.view import situation_of, withdrawn_words, words_of
from cuda_llm.log import bound
from cuda_llm.outcomes import InfraFailed
from cuda_llm.search import Hint
from cuda_llm.traces.events import AgentDecided, AgentFailed, HintGiven

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

RESEARCHER = "hardware_research"
"""Name of the agent that ships, and of its node; a user's agent of this name replaces it."""
LEAST_AGENT_S = 1.0
"""An agent has this long even where the run's minutes are over."""


def agent_node(placed: PlacedAgent, find: FindContext) -> Any:
    """Return the LangGraph node of one agent."""
    if hasattr(placed.agent, "ainvoke"):
        return subgraph_node(placed, placed.agent, find)

    async def node(state: SearchState, context: RunContext) -> SearchUpdate:
        situation = situation_of(state, context)
        made = await run_agent(context, situation, placed.name, placed.agent)
        return add_contribution(context, placed.name, state, made)

    return bind_reporting(node, find, placed.name)


def subgraph_node(placed: PlacedAgent, subgraph: Any, find: FindContext) -> Any:
    """Return the node of an agent that is a compiled graph; LangGraph finds that graph in the
    closure."""

    async def node(state: Any, runtime: "Runtime[RunContext]") -> SearchUpdate:
        context = await find(state, runtime.context)
        situation = situation_of(state, context)

        async def invoke(seen: Situation) -> Contribution:
            given = {"situation": situation_as_json(seen, context)}
            answer = await subgraph.ainvoke(given, context=AgentContext(seen.ask))
            return decode(Contribution, answer["contribution"])

        with bound(**log_fields(context, state, placed.name)), listening(runtime) as here:
            made = await run_agent(context, situation, placed.name, invoke)
            update = add_contribution(context, placed.name, state, made)
        return {**update, "decided": decisions_of(here.events)}

    return node


async def run_agent(
    context: RunContext,
    situation: Situation,
    name: str,
    agent: Callable[[Situation], Awaitable[Contribution]],
) -> Contribution | InfraFailed:
    """Return the contribution of an agent, or an InfraFailed; the agent is cancelled at its time
    limit."""
    from cuda_llm.settings import settings

    limit_s = min(settings().agent_deadline_s, max(LEAST_AGENT_S, context.seconds_left()))
    folder = folder_of_turn(situation.round, name)
    with open_ask(context, name, folder, limit_s) as ask:
        seen = replace(situation, ask=ask)
        return await run_untrusted(name, lambda: agent(seen), Contribution, limit_s=limit_s)


def situation_as_json(situation: Situation, context: RunContext) -> dict[str, Any]:
    """Encode the situation as plain JSON, without `ask`; its archive is the run's path."""
    values = {**vars(situation), "archive": context.folder.path}
    return {name: encode(value) for name, value in values.items() if name != "ask"}


async def research(state: SearchState, context: RunContext) -> SearchUpdate:
    """Run the hardware researcher; do nothing in a run without the researcher."""
    placed = next((one for one in context.agents if one.name == RESEARCHER), None)
    if placed is None:
        return {}
    situation = situation_of(state, context)
    made = await run_agent(context, situation, RESEARCHER, placed.agent)
    return add_contribution(context, RESEARCHER, state, made)


def add_contribution(
    context: RunContext, agent: str, state: SearchState, made: Contribution | InfraFailed
) -> SearchUpdate:
    """Return the update of the state that a contribution makes; record a failure, which changes
    nothing.

    Hints with the same words as a hint that a person withdrew are left out.
    """
    round_ = max(0, state.get("round", 0))
    if isinstance(made, InfraFailed):
        failed = AgentFailed(agent=agent, round=round_, error=made.detail, traceback=made.traceback)
        context.record(failed)
        return {}
    note = made.note
    if made.decisions or note or made.critique:
        context.record(
            AgentDecided(
                agent=agent,
                round=round_,
                decisions=made.decisions,
                note="" if note is None else note.text,
                critique=made.critique,
            )
        )
    withdrawn = withdrawn_words(state, context)

    def record(channel: str, hints: Sequence[Hint]) -> list[str]:
        fresh = [one for one in hints if words_of(one.text) not in withdrawn]
        return record_hints(context, channel, fresh)

    update: SearchUpdate = {
        "error_hints": record("error_hints", made.error_hints),
        "performance_hints": record("performance_hints", made.performance_hints),
    }
    if note is not None:
        update["notes"] = {agent: without_defaults(note)}
    return update


def record_hints(context: RunContext, channel: str, hints: Sequence[Hint]) -> list[str]:
    """Write and record the hints; return their ids, which the state holds."""
    kept = context.folder.keep_hints(hints)
    for hint in kept:
        context.record(HintGiven(channel=channel, hint=hint))
    return [hint.id for hint in kept]
