"""Where a run goes next. LangGraph evaluates these annotations: a list is one of its `Send`."""

from typing import Any, Literal

from cuda_llm.graph.state import CandidateState, SearchState


def each_candidate(state: SearchState) -> list[Any] | Literal["on"]:
    """All candidates of the round at once; on where there is none."""
    from langgraph.types import Send

    orders = [order(state, name, state["round"]) for name in state["briefs"]]
    return [Send("candidate", one) for one in orders] or "on"


def each_trial(state: SearchState) -> list[Any] | Literal["on"]:
    """All of the tuner's trials at once; no quorum leaves one of them behind."""
    from langgraph.types import Send

    orders = [order(state, name, 0) for name in state["trials"]]
    return [Send("trial", one) for one in orders] or "on"


def next_round_or_finish(state: SearchState) -> Literal["strategy", "finish"]:
    """Whether anything speaks against another round."""
    return "finish" if state["stop"] else "strategy"


def order(state: SearchState, name: str, round_: int) -> CandidateState:
    """What a candidate's subgraph is told: ids. `r0-c1` is the user's kernel, `r2-t1` a trial."""
    return {
        "candidate_run": state["run_id"],
        "candidate_id": name,
        "candidate_drafted": name.startswith("r0-") or "-t" in name,
        "candidate_round": round_,
        "candidate_end": "",
    }
