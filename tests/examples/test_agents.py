"""The example agents, found as a user names them and run inside the real graph."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from graph_runs import context_in, run_graph
from model_server import Busy, ModelServer, Request, Say, Script
from run_starts import asked, events, parts, the_run
from searches import attempt, situation

from cuda_llm.agents.find_agent import find_agent
from cuda_llm.agents.llm.preflight import PROBE
from cuda_llm.agents.protocols import Contribution, PlacedAgent, Stage
from cuda_llm.agents.situation import Situation
from cuda_llm.codec import decode, encode
from cuda_llm.graph.runs.start import start
from cuda_llm.search import Kind
from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.events import AgentDecided, AgentFailed, Event, HintGiven, IncumbentChosen

EXAMPLES = Path(__file__).parents[2] / "examples/agents"
LESSONS = f"{EXAMPLES}/lessons.py:lessons"
SECOND_OPINION = f"{EXAMPLES}/second_opinion.py:second_opinion"
WATCH = f"{EXAMPLES}/progress_watch.py:progress_watch@reflection"


def run_with(folder: Path, agent: PlacedAgent) -> tuple[dict[str, object], list[AgentDecided]]:
    """The state after a run of two rounds, and what the agent decided."""
    context = context_in(folder, agents=(agent,), rounds=2)
    state = asyncio.run(run_graph(context))
    events = [one.event for one in read_events(context.folder.events)]
    assert not [one for one in events if isinstance(one, AgentFailed)]
    decided = [one for one in events if isinstance(one, AgentDecided) and one.agent == agent.name]
    return state, decided


@pytest.mark.parametrize("spec", [LESSONS, WATCH])
def test_an_example_agent_works_in_the_graph_and_shows_in_the_trace(
    tmp_path: Path, spec: str
) -> None:
    agent = find_agent(spec)
    assert agent.after == Stage.REFLECTION
    state, decided = run_with(tmp_path, agent)
    assert [one.round for one in decided] == [1, 2]
    notes = state["notes"]
    assert isinstance(notes, dict)
    assert agent.name in notes


def test_an_agent_that_is_a_graph_gets_nothing_that_a_checkpoint_cannot_hold(
    tmp_path: Path,
) -> None:
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    from cuda_llm.graph.runs.build_graph import build_graph

    agent = find_agent(WATCH)
    context = context_in(tmp_path, agents=(agent,), rounds=1)
    saver = InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=[]))
    graph = build_graph(agents=(agent,)).compile(checkpointer=saver)

    async def run() -> dict[str, Any]:
        config: Any = {"configurable": {"thread_id": "run"}, "recursion_limit": 100}
        await graph.ainvoke({"task": "vector_add"}, config, context=context)
        return dict((await graph.aget_state(config)).values)

    assert "progress_watch" in asyncio.run(run())["notes"]


def test_an_agent_that_is_a_graph_shows_its_nodes() -> None:
    from cuda_llm.graph.runs.build_graph import build_graph

    drawn = build_graph(agents=(find_agent(WATCH),)).compile().get_graph(xray=True)
    assert {"progress_watch:measure", "progress_watch:advise"} <= set(drawn.nodes)


def review(folder: Path, script: Script) -> tuple[list[Request], list[Event]]:
    """What a reviewer is asked in a run of two rounds, and what the run tells."""
    with ModelServer(script, model="reviewer") as server:
        order = asked(
            folder,
            agents=(SECOND_OPINION,),
            agent_models={"second_opinion": "reviewer"},
            base_url=server.base_url,
        )
        asyncio.run(start(order, brought=parts()))
    return [one for one in server.requests if PROBE not in one.prompt], events(the_run(folder))


def test_the_second_opinion_reviews_each_kernel_that_becomes_the_fastest(tmp_path: Path) -> None:
    requests, told = review(tmp_path, lambda _: Say("Load four\nfloats at once."))
    winners = {one.incumbent for one in told if isinstance(one, IncumbentChosen)}
    assert len(requests) == len(winners) > 0
    assert all(one.body["model"] == "reviewer" for one in requests)
    assert "int ok_" in requests[0].prompt, "the kernel's source is asked about"
    hints = [one.hint for one in told if isinstance(one, HintGiven) and one.hint.code == "REVIEW"]
    assert {one.about for one in hints} == winners
    assert {one.text for one in hints} == {"Load four floats at once."}


def test_the_second_opinion_does_without_an_endpoint_that_fails(tmp_path: Path) -> None:
    _, told = review(tmp_path, lambda one: Say() if PROBE in one.prompt else Busy(400))
    decided = [one for one in told if isinstance(one, AgentDecided)]
    assert any("no review: refused_request" in one.decisions[0] for one in decided)
    assert not [one for one in told if isinstance(one, AgentFailed)]


def ask_lessons(found: Situation) -> Contribution:
    made: Contribution = asyncio.run(find_agent(LESSONS).agent(found))
    return made


def test_lessons_tell_repeated_failures_and_changes_that_paid() -> None:
    made = ask_lessons(
        situation(
            attempt("r1-c1", 1.0),
            attempt("r1-c2", code="DATA_RACE"),
            attempt("r2-c1", code="DATA_RACE"),
            attempt("r2-c2", 1.5, parent="r1-c1", kind=Kind.IMPROVE, direction="wider loads"),
            attempt("r2-c3", 1.01, parent="r1-c1", kind=Kind.IMPROVE, direction="more unrolling"),
        )
    )
    assert made.note is not None
    assert made.note.text == (
        "Avoid what failed before: DATA_RACE 2 times. What paid so far: wider loads (1.50x)."
    )


def test_lessons_say_when_there_is_none() -> None:
    assert ask_lessons(situation(attempt("r1-c1", 1.0))).decisions == ("no lesson yet",)


@pytest.mark.parametrize(
    ("speedups", "stuck"), [((1.5, 1.51), True), ((1.5, 2.0), False), ((1.5,), False)]
)
def test_the_watch_speaks_up_when_a_round_gains_nothing(
    speedups: tuple[float, ...], stuck: bool
) -> None:
    attempts = [attempt(f"r{n}-c1", speedup) for n, speedup in enumerate(speedups, start=1)]
    asked = {"situation": encode(situation(*attempts))}
    watch: Any = find_agent(WATCH).agent
    answer = asyncio.run(watch.ainvoke(asked))
    made = decode(Contribution, answer["contribution"])
    assert made.note is not None
    assert bool(made.note.text) is stuck
    assert made.note.data == {"best": list(speedups)}
