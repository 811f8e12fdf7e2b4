"""Extra agents stand between the stages, and each is seen."""

import asyncio
from pathlib import Path
from typing import Any, TypedDict

import pytest
from graph_runs import context_in, run_graph

from cuda_llm.agents.protocols import Contribution, PlacedAgent, Stage
from cuda_llm.agents.situation import Note, Situation
from cuda_llm.codec import encode
from cuda_llm.errors import UsageError
from cuda_llm.graph.runs.build_graph import build_graph
from cuda_llm.search import Hint
from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.events import AgentDecided, AgentFailed, HintGiven


def counting(seen: list[tuple[str, int, int]], stage: Stage) -> PlacedAgent:
    """Notes when it is asked, and adds to its note and to the hints."""

    async def agent(situation: Situation) -> Contribution:
        seen.append((stage.value, situation.round, len(situation.attempts)))
        return Contribution(
            note=Note(text=f"{stage.value} saw {len(situation.attempts)}"),
            performance_hints=(Hint(round=situation.round, about="", code="MINE", text="try"),),
            decisions=("counted",),
        )

    return PlacedAgent(name=f"after_{stage.value}", after=stage, agent=agent)


def test_an_agent_may_follow_every_stage(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    agents = tuple(counting(seen, stage) for stage in Stage)
    context = context_in(tmp_path, agents=agents, candidates=2, rounds=2)
    state = asyncio.run(run_graph(context))

    once = [("start", 0, 0), ("hardware_research", 0, 0), ("baseline", 0, 0)]
    each = [("strategy", 0), ("candidates", 2), ("tuner", 2), ("reflection", 2)]
    assert seen == [
        *once,
        *((stage, 1, more) for stage, more in each),
        *((stage, 2, 2 + more) for stage, more in each),
    ]
    assert set(state["notes"]) == {placed.name for placed in agents}
    assert state["notes"]["after_reflection"]["text"] == "reflection saw 4"
    hints = [context.folder.hint(one) for one in state["performance_hints"]]
    assert len([one for one in hints if one is not None and one.code == "MINE"]) == len(seen)


def test_what_an_agent_decides_and_adds_is_recorded(tmp_path: Path) -> None:
    agents = (counting([], Stage.BASELINE),)
    context = context_in(tmp_path, agents=agents, candidates=1, rounds=1)
    asyncio.run(run_graph(context))

    events = [one.event for one in read_events(context.folder.events)]
    assert (
        AgentDecided(agent="after_baseline", round=0, decisions=("counted",), note="baseline saw 0")
        in events
    )
    assert any(isinstance(one, HintGiven) and one.hint.code == "MINE" for one in events)


async def fails(_: Situation) -> Contribution:
    raise RuntimeError("lost my notes")


class Own(TypedDict, total=False):
    situation: dict[str, Any]
    contribution: dict[str, Any]


def own_graph() -> Any:
    """An agent that is a compiled graph of two nodes."""
    from langgraph.graph import END, START, StateGraph

    async def look(state: Own) -> Own:
        task = state["situation"]["task"]["name"]
        return {"contribution": encode(Contribution(decisions=(f"saw {task}",)))}

    async def think(state: Own) -> Own:
        note = {"text": "thought", "about_hardware": False, "data": {}}
        return {"contribution": {**state["contribution"], "note": note}}

    graph = StateGraph(Own)
    graph.add_node("look", look)
    graph.add_node("think", think)
    graph.add_edge(START, "look")
    graph.add_edge("look", "think")
    graph.add_edge("think", END)
    return graph.compile()


def test_an_agent_that_raises_ends_only_its_part(tmp_path: Path) -> None:
    agents = (PlacedAgent(name="clumsy", after=Stage.CANDIDATES, agent=fails),)
    context = context_in(tmp_path, agents=agents, candidates=2, rounds=2)
    state = asyncio.run(run_graph(context))

    assert len(state["attempts"]) == 4
    events = [one.event for one in read_events(context.folder.events)]
    failed = [one for one in events if isinstance(one, AgentFailed)]
    assert [(one.agent, one.round) for one in failed] == [("clumsy", 1), ("clumsy", 2)]
    assert "lost my notes" in failed[0].error


def test_an_agent_may_be_a_compiled_graph(tmp_path: Path) -> None:
    agents = (PlacedAgent(name="own_graph", after=Stage.BASELINE, agent=own_graph()),)
    context = context_in(tmp_path, agents=agents, candidates=1, rounds=1)
    state = asyncio.run(run_graph(context))

    assert state["notes"]["own_graph"]["text"] == "thought"
    events = [one.event for one in read_events(context.folder.events)]
    decided = [one for one in events if isinstance(one, AgentDecided) and one.agent == "own_graph"]
    assert decided[0].decisions == ("saw vector_add",)


def test_the_drawing_shows_every_agent_by_name() -> None:
    agents = (
        PlacedAgent(name="clumsy", after=Stage.CANDIDATES, agent=fails),
        PlacedAgent(name="own_graph", after=Stage.BASELINE, agent=own_graph()),
    )
    shown = set(build_graph(agents=agents).compile().get_graph(xray=True).nodes)

    assert {"hardware_research", "baseline", "strategy", "tuner", "reflection", "clumsy"} <= shown
    stages = ("generator", "compiler", "validator", "profiler")
    assert {f"{way}:{stage}" for way in ("candidate", "trial") for stage in stages} <= shown
    assert {"own_graph:look", "own_graph:think"} <= shown


def test_a_researcher_of_ones_own_takes_the_place_of_ours(tmp_path: Path) -> None:
    async def agent(_: Situation) -> Contribution:
        return Contribution(note=Note(text="mine"))

    own = PlacedAgent(name="hardware_research", after=Stage.START, agent=agent)
    state = asyncio.run(run_graph(context_in(tmp_path, agents=(own,), candidates=1, rounds=1)))

    assert state["notes"]["hardware_research"]["text"] == "mine"


@pytest.mark.parametrize("name", ["compile", "strategy", "candidate"])
def test_a_name_that_is_taken_is_refused(name: str) -> None:
    twice = 2 if name == "compile" else 1
    agents = [PlacedAgent(name=name, after=Stage.START, agent=fails)] * twice

    with pytest.raises(UsageError, match=f"agent '{name}': the name is taken"):
        build_graph(agents=agents)
