"""The graph of a run, driven from its checkpoint to its end, an interrupt, or its cancellation,
and the trace that its events go to.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from cuda_llm.atomic_file import describe_full_disk
from cuda_llm.errors import CudaLLMError, UsageError, describe_error
from cuda_llm.graph.context import RunContext
from cuda_llm.graph.node_report import pass_on
from cuda_llm.graph.parts import RunParts
from cuda_llm.graph.review import NODE
from cuda_llm.graph.review_decisions import Reviewer
from cuda_llm.graph.state import SearchOutput, SearchState
from cuda_llm.log import Log, bound
from cuda_llm.traces.best import BestKeeper
from cuda_llm.traces.event_log import Observer, Recorder
from cuda_llm.traces.events import (
    Event,
    RunInterrupted,
    RunResumed,
    StopCause,
)
from cuda_llm.traces.run_folder import RunFolder

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.graph import StateGraph
    from langgraph.types import Durability, StateSnapshot

_log = Log(__name__)
LiveSender = Callable[[RunFolder], Callable[[], object]]
"""Starts to send the spans of a run while the run goes on; returns what ends the sending."""
LIVE_SENDERS: Mapping[str, str] = MappingProxyType({"otlp": "cuda_llm.traces.otlp.send"})
"""The module of each optional room that sends a run elsewhere, by the setting that asks for it: the
module is imported where the setting is true, and its `find_live_sender` returns a LiveSender."""
DURABILITY: "Durability" = "sync"
"""A step's checkpoint is on disk before the next step begins: as cheap as `async` (2.5 ms a step),
and a kill repeats one step at most. `exit` would keep nothing."""
STEPS_A_ROUND = 30
"""More than a round can take: a graph that goes in circles is our fault, and ends."""


def unusable_checkpoint(folder: RunFolder, why: object) -> UsageError:
    """Return the error of a checkpoint that cannot be read.

    Everything but the beginning of a fork is in the folder as well.
    """
    return UsageError(
        f"{folder.checkpoint}: broken ({why}); "
        "remove it: resume works the run out again from what its folder holds"
    )


@contextmanager
def checkpoints_of(folder: RunFolder) -> Iterator[None]:
    """Turn errors of the database into a UsageError with its remedy."""
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise unusable_checkpoint(folder, error) from None
        remedy = "free space there, make it writable, and resume the run"
        is_full = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL
        why = describe_full_disk(folder.path) if is_full else error
        raise UsageError(f"{folder.checkpoint}: {why}; {remedy}") from None


@dataclass(frozen=True)
class GraphRun:
    """A compiled graph with its checkpoints and the context of one run."""

    context: RunContext
    graph: Any

    @property
    def config(self) -> "RunnableConfig":
        """Thread and limits."""
        rounds, agents = self.context.config.rounds, len(self.context.agents)
        return {
            "configurable": {"thread_id": self.context.run_id},
            "recursion_limit": (rounds + 2) * (STEPS_A_ROUND + agents),
        }

    async def run(self, answer: object = ()) -> None:
        """Run the graph on from its checkpoint. `answer` answers the review that the run waits for.

        A cancellation is recorded before it is raised again; all work has ended by then.
        """
        with bound(run_id=self.context.run_id):
            await self._run(answer)

    async def waits_for_review(self) -> bool:
        """Return whether the run waits for the answer to a review."""
        return bool(reviews_of(await self.state()))

    async def run_reviewed(self, reviewer: Reviewer) -> None:
        """Run on from each review with the reviewer's answer, until the answer is None."""
        while reviews := reviews_of(await self.state()):
            given = reviewer(reviews[0])
            answer = await given if isinstance(given, Awaitable) else given
            if answer is None:
                return
            await self.run(answer)

    async def _run(self, answer: object) -> None:
        state = await self.state()
        if state.created_at is not None:
            _log.info("the run goes on from its checkpoint", checkpoint_at=state.created_at)
            # Not `next`: it leaves out what is done and only waits to be taken in.
            over = not state.tasks
            if over and not state.values.get("stop"):
                raise unusable_checkpoint(self.context.folder, "it leads nowhere")
            if over:
                return
            self.context.record(RunResumed(round=max(0, state.values.get("round", 0))))
        try:
            await self._invoke(self.input(state, answer))
        except asyncio.CancelledError:
            _log.info("the run is cancelled")
            await self.record_stopped(StopCause.CANCELLED)
            raise
        except Exception as error:
            trace = None if isinstance(error, CudaLLMError) else error
            _log.error("the run stops", error=describe_error(error), exc_info=trace, shown=True)
            # What stopped the run, a full disk for one, may be in the way of telling it.
            with suppress(CudaLLMError, sqlite3.Error):
                await self.record_stopped(StopCause.ERROR, describe_error(error))
            raise
        if (await self.state()).interrupts:
            await self.record_stopped(StopCause.REVIEW)

    async def _invoke(self, given: Any) -> None:
        await self.graph.ainvoke(given, self.config, context=self.context, durability=DURABILITY)

    def input(self, state: "StateSnapshot", answer: object) -> Any:
        """Return the input of the graph: the task, an answer to a review, or None to just go on."""
        from langgraph.types import Command

        if state.created_at is None:
            return {"task": self.context.config.task}
        if not state.interrupts:
            return None
        # LangGraph takes an empty mapping for no answer at all.
        return Command(resume=list(answer) if isinstance(answer, tuple) else answer or [])

    async def state(self) -> "StateSnapshot":
        """Return the state on disk, without `created_at` before the first checkpoint."""
        try:
            snapshot: StateSnapshot = await self.graph.aget_state(self.config)
        except sqlite3.Error:
            raise
        except Exception as error:
            raise unusable_checkpoint(self.context.folder, describe_error(error)) from error
        return snapshot

    async def record_stopped(self, cause: StopCause, error: str = "") -> None:
        """Record that the run stopped before its end."""
        values = (await self.state()).values
        round_, best = max(0, values.get("round", 0)), values.get("incumbent")
        self.context.record(RunInterrupted(cause=cause, reason=error, round=round_, best=best))


def reviews_of(state: "StateSnapshot") -> list[Mapping[str, Any]]:
    """Return what the run waits for a person to review, as plain JSON."""
    return [one.value for task in state.tasks if task.name == NODE for one in task.interrupts]


@asynccontextmanager
async def open_graph_run(
    context: RunContext, graph: "StateGraph[SearchState, RunContext, Any, SearchOutput]"
) -> AsyncIterator[GraphRun]:
    """Open the run's graph with its checkpoints on disk."""
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    with checkpoints_of(context.folder):
        async with AsyncSqliteSaver.from_conn_string(str(context.folder.checkpoint)) as saver:
            yield GraphRun(context, graph.compile(checkpointer=saver, name="fsr"))


def open_recorder(
    parts: RunParts, probes: Iterable[Event], observers: Iterable[Observer] = ()
) -> Recorder:
    """Open the run's trace; `probes`, trial calls of the models, follow its first event.

    Where the settings say so, the run is sent as spans too. Raises UsageError where another process
    writes the trace, and what `find_live_sender` raises.
    """
    waiting = [*probes]

    def record_probes(event: Event) -> None:
        trials = [*waiting]
        waiting.clear()
        for trial in trials:
            recorder(trial)

    keeper = BestKeeper(parts.folder)
    recorder = Recorder(parts.folder.events, (record_probes, keeper, pass_on, *observers))
    if (send := find_live_sender()) is not None:
        recorder.at_close = send(parts.folder)
    return recorder


def find_live_sender() -> LiveSender | None:
    """Return what sends the spans of a run, or None where the settings ask for no spans.

    Raises MissingError and UsageError where spans cannot be sent from here.
    """
    from cuda_llm.settings import settings

    wanted = [module for name, module in LIVE_SENDERS.items() if getattr(settings(), name)]
    return import_module(wanted[0]).find_live_sender() if wanted else None
