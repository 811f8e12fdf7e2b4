"""The minutes of a run end its round, whatever is at work."""

import asyncio
from pathlib import Path

from graph_runs import Writer, context_in, run_graph

from cuda_llm.agents.situation import Situation
from cuda_llm.search import Brief, Draft
from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.events import CandidateLate


def write(brief: Brief, _: Situation) -> Draft:
    return Draft(source=f"int ok_{60 + brief.index}_{brief.round};\n", idea=brief.id)


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
    late = [one.event for one in read_events(context.folder.events)]
    assert CandidateLate(candidate="r1-c3", stage="generate") in late
    assert state["stop"] == "20 minutes are over"
    assert state["best"]["id"] == "r1-c1"


def test_no_work_goes_on_after_the_run(tmp_path: Path) -> None:
    context = context_in(
        tmp_path,
        generator=Writer(write, delay=lambda name: 60.0 if name.endswith("c3") else 0.0),
        candidates=3,
        rounds=2,
        seconds_left=lambda: 1.0,
        stop_reason=lambda: "enough",
    )

    async def run() -> set[str]:
        await run_graph(context)
        return {task.get_name() for task in asyncio.all_tasks() if not task.done()}

    assert len(asyncio.run(run())) == 1
