"""The context of a run, LangGraph's runtime context: its parts, the tasks that run in it, and
how nodes get it.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from cuda_llm.agents.llm.agent_ask import AgentAsk
from cuda_llm.agents.protocols import Generator, PlacedAgent, Reflector, Strategy, Tuner
from cuda_llm.agents.situation import Situation
from cuda_llm.conversation import Ask, Call, CallFailed, Reply
from cuda_llm.log import bound
from cuda_llm.run_config import GraphInput, RunConfig
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Device
from cuda_llm.tools.judge.bench import Bench
from cuda_llm.traces.events import Record
from cuda_llm.traces.run_folder import RunFolder

T = TypeVar("T")


class SharedTasks:
    """Tasks by key, each started once; their results stay until the end.

    Belongs to one event loop. Nothing is left running after `close`.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._tasks: dict[Hashable, asyncio.Task[Any]] = {}
        self._quorums: dict[int, Quorum] = {}
        self._failed: BaseException | None = None
        self.views: dict[int, Situation] = {}
        """What the generators of a round see, by round."""

    @property
    def age_s(self) -> float:
        """Seconds that this process has been at work on the run."""
        return time.monotonic() - self._began

    def begin(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> "asyncio.Task[T]":
        """Return the task of that key; start it where there is none, or where it was cancelled."""
        task = self._tasks.get(key)
        if task is None or task.cancelled():
            task = self._tasks[key] = asyncio.ensure_future(_run(work))
        return task

    async def share(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> T:
        """Return the result of the task of that key, started here or elsewhere."""
        return await self.begin(key, work)

    async def join(
        self, key: Hashable, work: Callable[[], Awaitable[T]], quorum: "Quorum", limit_s: float
    ) -> T | None:
        """Return the result; None when the quorum or the limit comes first, and the work goes on.

        What it raises ends the run, and so does being cancelled: all work is ended with it.
        """
        task = self.begin(key, work)
        timeout_s = None if math.isinf(limit_s) else max(0.0, limit_s)
        try:
            if not task.done():
                first = asyncio.FIRST_COMPLETED
                either: set[asyncio.Future[Any]] = {task, quorum.reached}
                await asyncio.wait(either, timeout=timeout_s, return_when=first)
            return task.result() if task.done() else None
        except BaseException as error:
            if not isinstance(error, asyncio.CancelledError):
                self._failed = self._failed or error
            await self.close()
            if isinstance(error, asyncio.CancelledError) and self._failed and not _is_cancelled():
                # Ended because a sibling failed: all raise what it raised.
                raise self._failed from None
            raise

    def quorum(self, round_: int, needed: int) -> "Quorum":
        """Return the quorum of a round; `needed` of 0 is never reached."""
        return self._quorums.setdefault(round_, Quorum(needed))

    async def close(self) -> None:
        """Cancel everything that still runs, child processes included, and forget all results."""
        mine = asyncio.current_task()
        running = [one for one in self._tasks.values() if not one.done() and one is not mine]
        self._tasks.clear()
        self._quorums.clear()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


class Quorum:
    """How many candidates of a round must be judged before it may go on without the others."""

    def __init__(self, needed: int) -> None:
        self.reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._needed = needed
        self._judged: set[str] = set()

    def count(self, name: str) -> None:
        """Count that candidate as judged."""
        self._judged.add(name)
        if 0 < self._needed <= len(self._judged) and not self.reached.done():
            self.reached.set_result(None)


async def _run(work: Callable[[], Awaitable[T]]) -> T:
    return await work()


def _is_cancelled() -> bool:
    """Return whether the current task itself is being cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


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
        mend = f"name one with --agent-model {agent}=MODEL, or with --model"
        detail = f"no model is named for {agent}; {mend}"
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
    tasks: SharedTasks = field(default_factory=SharedTasks)
    """What is at work. The caller that runs the graph closes it in the end, whatever happens."""


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
