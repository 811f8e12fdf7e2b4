"""What a run tells while it goes on: in its events, in its updates, in its stream."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from graph_runs import Writer, context_in, numbered, run_graph

from cuda_llm.agents.protocols import Contribution, PlacedAgent, Stage
from cuda_llm.agents.situation import Situation
from cuda_llm.graph.attempts import try_hints
from cuda_llm.graph.context import RunContext
from cuda_llm.graph.node_report import SERVER, pass_on
from cuda_llm.graph.runs.build_graph import build_graph
from cuda_llm.graph.view import attempts_of
from cuda_llm.search import Brief, Draft, Hint, Kind
from cuda_llm.traces.candidate_text import describe_candidate
from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.events import (
    AgentFailed,
    Event,
    GeneratorFailed,
    HintsTried,
    Routed,
    StageEntered,
)
from cuda_llm.traces.run_text import describe_run


async def streamed(context: RunContext, mode: Any) -> list[Any]:
    """What the graph of a run yields in that mode."""
    graph: Any = build_graph(agents=context.agents).compile()
    config, given = {"recursion_limit": 200}, {"task": "vector_add"}
    return [one async for one in graph.astream(given, config, context=context, stream_mode=mode)]


def recorded(context: RunContext, *kinds: type) -> list[Any]:
    events = [one.event for one in read_events(context.folder.events)]
    return [one for one in events if not kinds or isinstance(one, kinds)]


def test_every_update_says_what_was_decided(tmp_path: Path) -> None:
    context = context_in(tmp_path, observers=[pass_on], candidates=3, rounds=2)
    updates = [*asyncio.run(streamed(context, "updates"))]
    told: dict[str, list[Any]] = {}
    for update in updates:
        for node, values in update.items():
            told.setdefault(node, []).append(values)
    assert not [node for node, values in told.items() if None in values], "null tells nothing"
    said = {node: [one["decided"] for one in values] for node, values in told.items()}
    assert said["baseline"] == [["baseline: n = 1,024: 100 us"]]
    assert said["hand_out"][0][0].startswith("r1-c1 to write a kernel: ")
    judged = sorted(one[0].split(":")[0] for one in said["candidate"])[:3]
    assert judged == [
        "r1-c1 PASSED 80.0 us, 1.25x",
        "r1-c2 COMPILE_FAILED",
        "r1-c3 PASSED 70.0 us, 1.43x",
    ]
    assert said["choose"][0][0].startswith("to beat: r1-c")
    assert said["reflection"][0][0] == "learner: looked at 3"
    assert said["route"] == [
        ["another round: 1 round left"],
        ["the end: its rounds were done"],
    ]
    assert said["finish"][0][-1].startswith("its rounds were done; best: r")


def test_the_custom_stream_yields_the_events_themselves(tmp_path: Path) -> None:
    seen: list[Event] = []
    context = context_in(tmp_path, observers=[pass_on, seen.append], candidates=4, rounds=2)
    streamed_events = asyncio.run(streamed(context, "custom"))
    assert streamed_events == seen == recorded(context)
    assert all(one is other for one, other in zip(streamed_events, seen, strict=True))
    assert len([one for one in seen if isinstance(one, StageEntered)]) > 8


def test_a_server_streams_events_as_json_with_their_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SERVER, "local_dev")
    context = context_in(tmp_path, observers=[pass_on], candidates=2, rounds=1)
    found = asyncio.run(streamed(context, "custom"))
    assert json.loads(json.dumps(found)) == found
    assert [one["kind"] for one in found] == [one.kind for one in recorded(context)]


def test_where_each_round_leads_is_recorded(tmp_path: Path) -> None:
    context = context_in(tmp_path, candidates=3, rounds=2)
    asyncio.run(run_graph(context))
    assert recorded(context, Routed) == [
        Routed(round=1, to="strategy", reason="1 round left"),
        Routed(round=2, to="finish", reason="rounds"),
    ]
    assert recorded(context)[-1].kind == "run_finished"


def test_a_candidate_names_the_hints_it_is_told_and_then_what_they_were_worth(
    tmp_path: Path,
) -> None:
    def faster(brief: Brief, _: Situation) -> Draft:
        return Draft(source=f"int ok_{90 - 10 * brief.round - brief.index}_{brief.round};\n")

    context = context_in(tmp_path, generator=Writer(faster), candidates=2, rounds=2)
    state = asyncio.run(run_graph(context))
    entered = {
        one.candidate: one.hints
        for one in recorded(context, StageEntered)
        if one.stage == "generate"
    }
    brief = context.folder.brief("r2-c1")
    assert brief is not None
    assert brief.performance_hints
    assert entered["r1-c1"] == ()
    assert entered["r2-c1"] == tuple(one.id for one in brief.performance_hints)
    tried = {one.candidate: one for one in recorded(context, HintsTried)}
    attempts = {one.id: one for one in attempts_of(state, context)}
    own, parent = attempts["r2-c1"].times_us[-1], attempts[tried["r2-c1"].parent].times_us[-1]
    assert tried["r2-c1"].gained == pytest.approx(1 - own / parent, abs=1e-4)
    assert {*tried["r2-c1"].predicted} == {*entered["r2-c1"]}
    text = " ".join(" ".join(describe_run(context.folder)).split())
    assert f"r2-c1 tried {entered['r2-c1'][0]}" in text
    assert "of the time of r1-c" in text


def test_what_a_critique_expects_is_what_its_hint_promised(tmp_path: Path) -> None:
    context = context_in(tmp_path, candidates=2, rounds=1)
    state = asyncio.run(run_graph(context))
    parent = next(one for one in attempts_of(state, context) if one.passed)
    asked = Hint(round=1, about=parent.id, code="latency", text="x", gain=0.2, by="critique")
    (kept,) = context.folder.keep_hints([asked])
    brief = Brief(
        id="r2-c1",
        round=2,
        index=1,
        kind=Kind.IMPROVE,
        parent=parent.id,
        performance_hints=(kept,),
    )
    failed = replace(parent, id="r2-c1", code="WRONG_RESULT", times_us=())
    assert try_hints(context, brief, failed) == HintsTried(
        candidate="r2-c1", parent=parent.id, predicted={kept.id: 0.2}, gained=None
    )


def test_tracebacks_of_agents_and_generators_are_recorded_and_shown(tmp_path: Path) -> None:
    def broken(brief: Brief, situation: Situation) -> Any:
        if brief.index == 2:
            raise KeyError("tile")
        return numbered(brief, situation)

    async def agent(_: Situation) -> Contribution:
        raise RuntimeError("no such shelf")

    placed = PlacedAgent(name="librarian", agent=agent, after=Stage.REFLECTION)
    context = context_in(
        tmp_path, generator=Writer(broken), agents=(placed,), candidates=2, rounds=1
    )
    asyncio.run(run_graph(context))
    (generator,) = recorded(context, GeneratorFailed)
    assert (generator.candidate, generator.error) == ("r1-c2", "KeyError: 'tile'")
    assert 'raise KeyError("tile")' in generator.traceback
    (failed,) = recorded(context, AgentFailed)
    assert 'raise RuntimeError("no such shelf")' in failed.traceback
    lines = [line.strip() for line in describe_run(context.folder)]
    for shown in ('raise KeyError("tile")', 'raise RuntimeError("no such shelf")'):
        assert shown in lines
    context.folder.write_run({})
    alone = [line.strip() for line in describe_candidate(context.folder, "r1-c2")]
    assert 'raise KeyError("tile")' in alone
    assert context.folder.verdict("r1-c2").code == "INFRA_GENERATOR"
