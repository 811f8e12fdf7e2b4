"""A round may go on without its slowest; they join the next."""

import asyncio
from pathlib import Path

from graph_runs import TableBench, Writer, context_in, run_graph

from cuda_llm.agents.situation import Situation
from cuda_llm.search import Brief, Draft
from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.events import AttemptJudged, CandidateLate, RoundBegan
from cuda_llm.traces.history import read_history


def write(brief: Brief, _: Situation) -> Draft:
    return Draft(source=f"int ok_{60 + brief.index}_{brief.round};\n", idea=brief.id)


def slow_validation(name: str) -> float:
    """The second of the first round is done after that round and before the next one is."""
    if name.startswith("validate int ok_62_1;"):
        return 0.25
    return 0.75 if name.startswith("validate") and name.endswith("_2;\n") else 0.0


def test_a_late_candidate_joins_the_next_round_and_is_judged_once(tmp_path: Path) -> None:
    bench = TableBench(delay=slow_validation)
    request = {"round_quorum": 2}
    context = context_in(
        tmp_path,
        generator=Writer(write),
        bench=bench,
        candidates=3,
        rounds=3,
        request=request,
    )
    state = asyncio.run(run_graph(context))

    events = [one.event for one in read_events(context.folder.events)]
    assert next(one for one in events if isinstance(one, CandidateLate)) == CandidateLate(
        candidate="r1-c2", stage="validate"
    )
    began = [one for one in events if isinstance(one, RoundBegan)]
    assert began[1].late == ("r1-c2",)
    ids = state["attempts"]
    assert ids[:2] == ["r1-c1", "r1-c3"]
    assert "r1-c2" in ids[2:]
    assert sorted(ids) == sorted(set(ids))
    assert bench.log.count("validate int ok_62_1;") == 1
    assert len(ids) == 9, "the last round waits for all"
    told = [one.attempt.id for one in events if isinstance(one, AttemptJudged)]
    assert sorted(told) == sorted(ids)
    rounds = read_history(context.folder)[0].rounds
    assert "r1-c2" in rounds[2].attempts
    assert [*rounds[1].attempts] == ["r1-c1", "r1-c3"]


def test_without_a_quorum_every_round_is_whole(tmp_path: Path) -> None:
    bench = TableBench(delay=slow_validation)
    context = context_in(tmp_path, generator=Writer(write), bench=bench, candidates=3, rounds=2)
    state = asyncio.run(run_graph(context))

    assert state["attempts"] == [
        *("r1-c1", "r1-c2", "r1-c3"),
        *("r2-c1", "r2-c2", "r2-c3"),
    ]


def test_a_deadline_ends_a_round_with_the_candidates_judged_by_then(tmp_path: Path) -> None:
    context = context_in(
        tmp_path,
        generator=Writer(write, delay=lambda name: 60.0 if name.endswith("c3") else 0.0),
        candidates=3,
        rounds=3,
        seconds_left=lambda: 1.0,
        stop_reason=lambda: "20 minutes are over",
    )
    state = asyncio.run(run_graph(context))

    assert state["attempts"] == ["r1-c1", "r1-c2"]
    assert state["late"] == ["r1-c3"]
    assert state["stop"] == "20 minutes are over"
    assert state["best"]["id"] == "r1-c1"


def test_no_work_goes_on_after_the_run(tmp_path: Path) -> None:
    context = context_in(
        tmp_path,
        generator=Writer(write, delay=lambda name: 60.0 if name.endswith("c3") else 0.0),
        candidates=3,
        rounds=2,
        options={"round_quorum": 2},
        stop_reason=lambda: "enough",
    )

    async def run() -> set[str]:
        await run_graph(context)
        return {task.get_name() for task in asyncio.all_tasks() if not task.done()}

    assert len(asyncio.run(run())) == 1
