"""The context of a run, LangGraph's runtime context: its parts, and how nodes get it."""

import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from cuda_llm.agents.llm.agent_ask import AgentAsk
from cuda_llm.agents.protocols import Generator, PlacedAgent, Reflector, Strategy, Tuner
from cuda_llm.conversation import Ask, Call, CallFailed, Reply
from cuda_llm.log import bound
from cuda_llm.outcomes import Verdict
from cuda_llm.run_config import GraphInput, RunConfig
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Device
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.bench import Bench
from cuda_llm.traces.events import Record
from cuda_llm.traces.run_folder import RunFolder

T = TypeVar("T")


def no_end(round_: int) -> str:
    """Return no reason to end behind that round."""
    return ""


def no_budget() -> str:
    """Return no reason to stop."""
    return ""


def no_deadline() -> float:
    """Return infinity: there is no deadline."""
    return math.inf


def release_nothing() -> None:
    """Do nothing: the caller closes what it opened."""


def no_client(agent: str) -> Ask:
    """Return a client that answers every call with `no_model`."""

    async def ask(call: Call) -> Reply | CallFailed:
        remedy = f"name one with --agent-model {agent}=MODEL, or with --model"
        detail = f"no model is named for {agent}; {remedy}"
        return CallFailed(kind="no_model", detail=detail, tries=0)

    return ask


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """One run's parts."""

    run_id: str
    config: RunConfig
    task: Task
    device: Device
    folder: RunFolder
    record: Record
    generator: Generator
    strategy: Strategy
    reflector: Reflector
    tuner: Tuner
    agents: tuple[PlacedAgent, ...]
    """The researcher among them, unless the user took it out."""
    bench: Bench
    stop_reason: Callable[[], str] = no_budget
    """Why the run has to end (money, tokens, time), in a few words; empty to go on. Asked before
    each round; what is at work may end."""
    why_end: Callable[[int], str] = no_end
    """Why a replay has no round behind that one; empty to go on."""
    seconds_left: Callable[[], float] = no_deadline
    """Until `--max-minutes` are over: a round does not wait for its candidates any longer."""
    client_of: Callable[[str], Ask] = no_client
    """What asks the model of an agent, generator or reflector of the user's, by its name."""
    release: Callable[[], None] = release_nothing
    """Called when the run is over: closes its trace where no caller would."""
    note: str = ""
    """What the user should know about how this run was set up; part of `RunStarted`."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of what made the run: `cuda-llm`, `nvcc` ... For `RunStarted`."""
    built: dict[str, Compiled | Verdict] = field(default_factory=dict)
    """What this process has compiled, by source."""
    began_s: float = field(default_factory=time.monotonic)
    """When this process began to work on the run."""


GraphNode = Callable[[Any, RunContext], Awaitable[Any]]
FindContext = Callable[[Mapping[str, Any], object], Awaitable[RunContext]]
"""The context of the run that a state belongs to: the runtime context, where that is one."""


def bind_node(node: GraphNode, find: FindContext, name: str) -> Any:
    """Return the node, or what chooses an edge, as LangGraph calls it, with log fields bound."""

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
    """Return a finder for new runs: what a thread's earlier run left in the state is ignored."""

    async def find_new(state: Mapping[str, Any], given: object) -> RunContext:
        return await find(input_of(state), given)

    return find_new


def input_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of the state that the user gave."""
    return {key: state[key] for key in GraphInput.model_fields if key in state}
