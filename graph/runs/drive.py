"""Takes a run's graph from its checkpoint to its end, an interrupt, or its cancellation."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cuda_llm.errors import CudaLLMError, describe_error
from cuda_llm.graph.damage import checkpoints_of, unusable
from cuda_llm.graph.runs.retell import lost_events
from cuda_llm.graph.state import SearchInput, SearchOutput, SearchState
from cuda_llm.graph.wiring import Wiring
from cuda_llm.log import Log, bound
from cuda_llm.traces.events import RunInterrupted, RunResumed

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.graph import StateGraph
    from langgraph.types import Durability, StateSnapshot

_log = Log(__name__)

DURABILITY: "Durability" = "sync"
"""A step's checkpoint is on disk before the next step begins: as cheap as `async` (2.5 ms a step),
and a kill repeats one step at most. `exit` would keep nothing."""
STEPS_A_ROUND = 30
"""More than a round can take: a graph that goes in circles is our fault, and ends."""


@dataclass(frozen=True)
class Driver:
    """A compiled graph with its checkpoints, wired to one run."""

    wiring: Wiring
    graph: Any

    @property
    def config(self) -> "RunnableConfig":
        """Thread and limits."""
        rounds, agents = self.wiring.request.rounds, len(self.wiring.agents)
        return {
            "configurable": {"thread_id": self.wiring.run_id},
            "recursion_limit": (rounds + 2) * (STEPS_A_ROUND + agents),
        }

    async def run(self, hints: Sequence[str] = ()) -> None:
        """Run the graph on from its checkpoint. `hints` answer a review.

        Being cancelled is recorded before it is passed on; everything at work has ended by then.
        """
        with bound(run_id=self.wiring.run_id):
            await self._run(hints)

    async def _run(self, hints: Sequence[str]) -> None:
        state = await self.state()
        if state.created_at is not None:
            _log.info("the run goes on from its checkpoint", checkpoint_at=state.created_at)
            # Not `next`: it leaves out what is done and only waits to be taken in.
            over = not state.tasks
            if over and not state.values.get("stop"):
                raise unusable(self.wiring.folder, "it leads nowhere")
            values: Any = state.values
            for lost in lost_events(values, self.wiring, over=over):
                self.wiring.record(lost)
            if over:
                return
            self.wiring.record(RunResumed(round=max(0, state.values.get("round", 0))))
        try:
            await self.graph.ainvoke(
                self.input(state, hints), self.config, context=self.wiring, durability=DURABILITY
            )
        except asyncio.CancelledError:
            _log.info("the run is cancelled")
            await self.wiring.workbench.close()
            await self.tell_stopped("interrupted")
            raise
        except Exception as error:
            trace = None if isinstance(error, CudaLLMError) else error
            _log.error("the run stops", error=describe_error(error), exc_info=trace, shown=True)
            await self.wiring.workbench.close()
            # What stopped the run, a full disk for one, may be in the way of telling it.
            with suppress(CudaLLMError, sqlite3.Error):
                await self.tell_stopped(describe_error(error))
            raise
        if (await self.state()).interrupts:
            await self.tell_stopped("stopped for review")

    def input(self, state: "StateSnapshot", hints: Sequence[str]) -> Any:
        """What the graph is invoked with: the task, an answer, or nothing where it just goes on."""
        from langgraph.types import Command

        if state.created_at is None:
            return {"task": self.wiring.request.task}
        return Command(resume=list(hints)) if state.interrupts else None

    async def state(self) -> "StateSnapshot":
        """Where the run stands on disk; without `created_at` where nothing was kept yet."""
        try:
            snapshot: StateSnapshot = await self.graph.aget_state(self.config)
        except sqlite3.Error:
            raise
        except Exception as error:
            raise unusable(self.wiring.folder, describe_error(error)) from error
        return snapshot

    async def tell_stopped(self, reason: str) -> None:
        """Record that the run stopped before its end."""
        values = (await self.state()).values
        round_, best = max(0, values.get("round", 0)), values.get("incumbent")
        self.wiring.record(RunInterrupted(reason=reason, round=round_, best=best))


@asynccontextmanager
async def open_driver(
    wiring: Wiring, graph: "StateGraph[SearchState, Wiring, SearchInput, SearchOutput]"
) -> AsyncIterator[Driver]:
    """The run's graph with its checkpoints on disk; nothing of it works on afterwards."""
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    with checkpoints_of(wiring.folder):
        async with AsyncSqliteSaver.from_conn_string(str(wiring.folder.checkpoint)) as saver:
            try:
                yield Driver(wiring, graph.compile(checkpointer=saver, name="fsr"))
            finally:
                await wiring.workbench.close()
