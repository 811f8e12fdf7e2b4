"""The candidate subgraph: generator -> compiler -> validator -> profiler, each may end it."""

import json
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cuda_llm.graph.bind import Find, bind
from cuda_llm.graph.judged import settle
from cuda_llm.graph.stages import STAGES
from cuda_llm.graph.state import CandidateState
from cuda_llm.graph.wiring import Wiring
from cuda_llm.outcomes import Passed
from cuda_llm.traces.events import CandidateLate, StageEntered, StageLeft
from cuda_llm.traces.whole_file import read_text, write_whole

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.graph.state import CompiledStateGraph

LATE = "LATE"
NODES = {
    "generator": "generate",
    "compiler": "compile",
    "validator": "validate",
    "profiler": "profile",
}
"""Node to the stage it takes candidates through."""


def candidate_node(find: Find) -> Any:
    """The node that takes one candidate through its subgraph; LangGraph finds it in the closure.

    The subgraph keeps no checkpoints on its way: the folder knows which stages are done. They would
    be five of six of a run's.
    """
    subgraph = build_candidate(find)

    async def candidate(state: CandidateState, config: "RunnableConfig") -> None:
        is_kept = "thread_id" in config["configurable"]
        await subgraph.ainvoke(state, durability="exit" if is_kept else None)

    return candidate


def build_candidate(find: Find) -> "CompiledStateGraph[CandidateState]":
    """The subgraph, compiled."""
    from langgraph.graph import END, START, StateGraph

    graph = StateGraph(CandidateState)
    names = list(NODES)
    for name, stage in NODES.items():
        graph.add_node(name, bind(through(stage), find, name))
    graph.add_conditional_edges(START, enters)
    for name, following in pairwise(names):
        graph.add_conditional_edges(name, goes_on, {"on": following, "end": END})
    graph.add_edge(names[-1], END)
    return graph.compile(name="candidate")


def enters(state: CandidateState) -> Literal["generator", "compiler"]:
    """A kernel that the user or the tuner brought needs no generator."""
    return "compiler" if state["candidate_drafted"] else "generator"


def goes_on(state: CandidateState) -> Literal["on", "end"]:
    """Nothing has ended it yet."""
    return "end" if state.get("candidate_end") else "on"


def through(stage: str) -> Any:
    """The node of one stage."""

    async def node(state: CandidateState, wiring: Wiring) -> CandidateState:
        """Wait until the stage is over or the round goes on without this candidate."""
        name, round_ = state["candidate_id"], state["candidate_round"]
        judged = wiring.folder.attempt(name)
        code = judged.code if judged else await pass_stage(wiring, name, stage, round_)
        if code is None:
            wiring.record(CandidateLate(candidate=name, stage=stage))
        elif code:
            quorum_of(wiring, round_).count(name)
        return {"candidate_end": LATE if code is None else code}

    return node


async def pass_stage(wiring: Wiring, name: str, stage: str, round_: int) -> str | None:
    """Code of the verdict that ends it, empty to go on; None: the round does not wait for it."""
    return await wiring.workbench.join(
        (name, stage),
        lambda: work_on(wiring, name, stage),
        quorum_of(wiring, round_),
        wiring.seconds_left(),
    )


def quorum_of(wiring: Wiring, round_: int) -> Any:
    """How many of the round must be judged; its last round waits for all."""
    waits_for_all = round_ in (0, wiring.plan.rounds)
    return wiring.workbench.quorum(round_, 0 if waits_for_all else wiring.request.round_quorum)


async def work_on(wiring: Wiring, name: str, stage: str) -> str:
    """Take the candidate through one stage; the code of the verdict that ends it, or nothing.

    A stage that it has left, in this process or an earlier one, is behind it.
    """
    behind = kept_seconds(wiring, name)
    if stage in behind:
        return ""
    brief = wiring.folder.brief(name)
    if brief is None:
        raise wiring.folder.gone(wiring.folder.candidate(name) / "brief.json")
    wiring.record(StageEntered(candidate=name, stage=stage))
    started = time.monotonic()
    verdict = await STAGES[stage](wiring, brief)
    took_s = time.monotonic() - started
    seconds = {**behind, stage: took_s}
    if verdict is None:
        write_whole(seconds_file(wiring, name), json.dumps(seconds))
    else:
        settle(wiring, brief, verdict, seconds)
    outcome = "ok" if verdict is None or isinstance(verdict, Passed) else verdict.code
    wiring.record(StageLeft(candidate=name, stage=stage, outcome=outcome, seconds=took_s))
    return "" if verdict is None else verdict.code


def kept_seconds(wiring: Wiring, name: str) -> dict[str, float]:
    """Seconds by stage of the stages behind it, whichever process they were in."""
    kept: dict[str, float] = json.loads(read_text(seconds_file(wiring, name)) or "{}")
    return kept


def seconds_file(wiring: Wiring, name: str) -> Path:
    """Beside the candidate."""
    return wiring.folder.candidate(name) / "seconds.json"
