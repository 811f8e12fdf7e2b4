"""The context of a run, LangGraph's runtime context, and how a node gets the context."""

import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from cuda_llm.agents.llm.agent_ask import AgentAsk
from cuda_llm.agents.protocols import Generator, Reflector, Tuner
from cuda_llm.conversation import Ask, Call, CallFailed, Reply
from cuda_llm.graph.parts import RunParts
from cuda_llm.log import bound
from cuda_llm.outcomes import Verdict
from cuda_llm.run_config import GraphInput
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.bench import Bench
from cuda_llm.traces.events import Record

T = TypeVar("T")


def no_budget() -> str:
    """Return an empty reason: there is no budget to exceed."""
    return ""


def no_deadline() -> float:
    """Return infinity: there is no deadline."""
    return math.inf


def release_nothing() -> None:
    """Do nothing: the caller closes the trace."""


def no_client(agent: str) -> Ask:
    """Return a client that answers every call with `no_model`."""

    async def ask(call: Call) -> Reply | CallFailed:
        remedy = f"name one with --agent-model {agent}=MODEL, or with --model"
        detail = f"no model is named for {agent}; {remedy}"
        return CallFailed(kind="no_model", detail=detail, tries=0)

    return ask


@dataclass(frozen=True, kw_only=True)
class RunContext(RunParts):
    """A run at work: its parts, its trace, and the functions that its nodes ask for models, budget
    and time.
    """

    generator: Generator
    reflector: Reflector
    tuner: Tuner
    bench: Bench
    record: Record
    stop_reason: Callable[[], str] = no_budget
    """Returns why no further round may begin (money, tokens or time is spent), in a few words;
    empty while one may."""
    seconds_left: Callable[[], float] = no_deadline
    """Returns the seconds until `--max-minutes` are over; a round waits no longer for its
    candidates."""
    client_of: Callable[[str], Ask] = no_client
    """Returns the client of the model of a user's agent, generator or reflector, by its name."""
    release: Callable[[], None] = release_nothing
    """Called when the run is over: closes the trace where no caller closes the trace."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of Python and packages by name, for `RunStarted`."""
    built: dict[str, Compiled | Verdict] = field(default_factory=dict)
    """Results of the compiler in this process, by source."""
    began_s: float = field(default_factory=time.monotonic)
    """Monotonic clock when this process began to work on the run."""


GraphNode = Callable[[Any, RunContext], Awaitable[Any]]
FindContext = Callable[[Mapping[str, Any], object], Awaitable[RunContext]]
"""Finds the context of the run that a state belongs to: LangGraph's runtime context where that is a
RunContext."""


def bind_node(node: GraphNode, find: FindContext, name: str) -> Any:
    """Return the node, or the function that chooses an edge, as LangGraph calls it, with log fields
    bound."""

    # `runtime` has no type: LangGraph would evaluate it where the node chooses an edge.
    async def node_of_ours(state: Any, runtime: Any) -> Any:
        context = await find(state, runtime.context)
        with bound(**log_fields(context, state, name)):
            return await node(state, context)

    node_of_ours.__name__ = name
    return node_of_ours


def log_fields(context: RunContext, state: Mapping[str, Any], node: str) -> dict[str, Any]:
    """Return the fields of every log record of a node's work."""
    return {
        "run_id": context.run_id,
        "round": state.get("candidate_round", state.get("round")),
        "candidate": state.get("candidate_id"),
        "stage": node,
    }


@contextmanager
def open_ask(
    context: RunContext, agent: str, folder: str, limit_s: float = math.inf
) -> Iterator[AgentAsk]:
    """Open the `ask` of one turn of an agent, and bind the agent's name to log records meanwhile.

    `folder` below the run's holds prompts and replies; `limit_s` is the agent's own time.
    """
    with bound(agent=agent), AgentAsk(context.client_of(agent), agent, folder, limit_s) as ask:
        yield ask


def ignoring_earlier_runs(find: FindContext) -> FindContext:
    """Return a finder for new runs, which ignores values that an earlier run of the thread left in
    the state."""

    async def find_new(state: Mapping[str, Any], given: object) -> RunContext:
        return await find(input_of(state), given)

    return find_new


def input_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options in the state that the user gave to the graph."""
    return {key: state[key] for key in GraphInput.model_fields if key in state}
