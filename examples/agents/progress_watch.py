"""An agent that is a compiled LangGraph: two nodes that look at how the search gets on.

    cuda-llm run histogram --agent examples/agents/progress_watch.py:progress_watch@reflection

A subgraph sees the run as plain JSON under `situation`, and answers with the plain JSON of a
`Contribution` under `contribution`. Its own keys are its own.
"""

from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph

from cuda_llm.extend import Contribution, Note, encode

SLOW = 1.02
"""A round that gains less than this is a round without gain."""


class Watch(TypedDict, total=False):
    """What passes between the two nodes."""

    situation: dict[str, Any]
    best_by_round: list[float]
    contribution: dict[str, Any]


async def measure(state: Watch) -> Watch:
    """The best speed-up after each round."""
    best: dict[int, float] = {}
    for attempt in state["situation"]["attempts"]:
        speedup = attempt["speedup"] or 0.0
        best[attempt["round"]] = max(best.get(attempt["round"], 0.0), speedup)
    after, rounds = 0.0, []
    for number in sorted(best):
        after = max(after, best[number])
        rounds.append(after)
    return {"best_by_round": rounds}


async def advise(state: Watch) -> Watch:
    """A note for the next prompts where the search stands still."""
    rounds = state["best_by_round"]
    stuck = len(rounds) > 1 and rounds[-2] > 0 and rounds[-1] < SLOW * rounds[-2]
    text = "The last round gained nothing: prefer bold changes to careful ones." if stuck else ""
    said = " -> ".join(f"{one:.2f}x" for one in rounds) or "nothing judged yet"
    made = Contribution(note=Note(text=text, data={"best": rounds}), decisions=(said,))
    return {"contribution": encode(made)}


def build() -> Any:
    """Two nodes in a row, without a checkpointer of its own."""
    graph = StateGraph(Watch)
    graph.add_node("measure", measure)
    graph.add_node("advise", advise)
    graph.add_edge(START, "measure")
    graph.add_edge("measure", "advise")
    graph.add_edge("advise", END)
    return graph.compile(name="progress_watch")


progress_watch = build()
