"""The graph answers a bare `ainvoke`: no context, no saver, nothing but the name of a task."""

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import psutil
import pytest
from ended import has_ended
from graph_runs import NoTuner, TableBench, Writer, context_in
from tiny_tasks import tiny_task

from cuda_llm.agents.situation import Situation
from cuda_llm.errors import UsageError, nearest
from cuda_llm.graph.runs import build_graph as build_graph_module
from cuda_llm.graph.runs.build_graph import build_graph
from cuda_llm.search import Brief, Draft
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.open_device import open_device
from cuda_llm.traces.event_log import is_being_written

ROOT = Path(__file__).parents[3]
BASELINE = load_task("vector_add").baseline.read_text(encoding="utf-8")


def write(brief: Brief, _: Situation) -> Draft:
    return Draft(source=f"{BASELINE}\n__constant__ int number_{brief.round}_{brief.index};\n")


async def answer(given: dict[str, Any], **parts: Any) -> dict[str, Any]:
    graph: Any = build_graph(**parts).compile()
    return dict(await graph.ainvoke(given))


def test_nothing_but_a_task_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the parts that ship; how much is tried is said only to keep it short."""
    monkeypatch.chdir(tmp_path)
    task = tiny_task(tmp_path, "tiny")
    state = asyncio.run(answer({"task": str(task), "candidates": 1, "rounds": 1, "tune": 0}))
    assert state["best"]["written_by"] == "playbook"
    (run,) = (tmp_path / "traces/runs").iterdir()
    assert (run / "best/solve.cu").is_file()


def test_parts_given_to_the_graph_replace_those_of_the_run(tmp_path: Path) -> None:
    given = {"task": "vector_add", "candidates": 2, "rounds": 1, "out": str(tmp_path)}
    bench = TableBench()
    generator = Writer(lambda brief, _: Draft(source=f"int ok_{90 - brief.index}_1;\n"))
    state = asyncio.run(answer(given, generator=generator, tuner=NoTuner(), bench=bench))

    assert state["best"]["id"] == "r1-c2"
    assert "profile int ok_88_1;" in bench.log
    assert not is_being_written(tmp_path / state["run_id"] / "events.jsonl")


def test_parts_given_to_the_graph_replace_those_of_a_run_context(tmp_path: Path) -> None:
    context = context_in(tmp_path, candidates=1, rounds=1)
    generator = Writer(lambda _, __: Draft(source="int ok_10_1;\n"))

    async def run() -> dict[str, Any]:
        graph: Any = build_graph(generator=generator).compile()
        return dict(await graph.ainvoke({"task": "vector_add"}, context=context))

    assert asyncio.run(run())["best"]["times_us"] == [10.0]


def test_a_second_run_of_a_thread_starts_anew(tmp_path: Path) -> None:
    from langgraph.checkpoint.memory import InMemorySaver

    generator = Writer(lambda brief, _: Draft(source=f"int ok_{90 - brief.index}_1;\n"))
    given = {"task": "vector_add", "candidates": 2, "rounds": 1, "out": str(tmp_path)}

    async def twice() -> list[dict[str, Any]]:
        builder = build_graph(generator=generator, tuner=NoTuner(), bench=TableBench())
        graph: Any = builder.compile(checkpointer=InMemorySaver())
        config = {"configurable": {"thread_id": "same"}}
        return [dict(await graph.ainvoke(given, config)) for _ in range(2)]

    first, second = asyncio.run(twice())
    assert first["run_id"] != second["run_id"]
    assert second["attempts"] == ["r1-c1", "r1-c2"]


def test_input_that_does_not_fit_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="candidates"):
        asyncio.run(answer({"task": "vector_add", "candidates": "many"}))


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"task": "vector_add", "max_token": 5}, "no key 'max_token'; did you mean max_tokens?"),
        ({"task": "vector_add", "voltage": "red"}, "no key 'voltage'; there are: "),
        ({"task": "vector_add", "agents": []}, "has no 'agents'; give them to build_graph"),
        ({"candidates": 2}, "lacks 'task'"),
    ],
)
def test_keys_of_the_input_that_are_none_are_refused_before_anything_begins(
    given: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    """LangGraph drops them: a misspelt budget would be none."""
    with pytest.raises(UsageError, match=re.escape(complaint)):
        asyncio.run(answer({"out": str(tmp_path / "runs"), **given}))
    assert not list(tmp_path.iterdir())


def test_a_server_may_show_what_is_wrong_with_the_input() -> None:
    """LangGraph's own says `An internal error occurred` of errors that are no ValueError."""
    for given in ({"task": "vector_sum"}, {"task": "vector_add", "candidates": "3"}, {"tsk": ""}):
        with pytest.raises(ValueError):
            asyncio.run(answer(given))


def test_the_nearest_key_is_named_alone() -> None:
    assert "\n" not in nearest("max_token", ["max_tokens", "max_minutes"])
    assert nearest("max_token", ["max_tokens", "max_minutes"]) == "did you mean max_tokens?"


def test_a_run_that_is_cancelled_leaves_no_process_behind(tmp_path: Path) -> None:
    """Cancelled while nvcc is at work on two kernels that no cache holds.

    Our own native parts are there: building them at first use is finished, not broken off.
    """
    open_device("emulated").prepare()
    given = {"task": "vector_add", "candidates": 2, "rounds": 1, "out": str(tmp_path)}
    fresh = Writer(
        lambda b, s: Draft(source=f"{write(b, s).source}\n int a{b.index}_{os.urandom(6).hex()};")
    )
    before = children()

    def started() -> set[psutil.Process]:
        return {one for one in children() - before if not has_ended(one)}

    async def cancelled() -> None:
        task = asyncio.create_task(answer(given, generator=fresh, tuner=NoTuner()))
        while not started():
            assert not task.done()
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # Killed processes are reaped when the machine gets round to it.
        async with asyncio.timeout(60):
            while started():
                await asyncio.sleep(0.05)

    asyncio.run(cancelled())


def test_a_server_can_ask_what_a_run_takes() -> None:
    graphs = json.loads((ROOT / "langgraph.json").read_text())["graphs"]
    file, name = graphs["fsr"].split(":")
    assert (ROOT / file).samefile(build_graph_module.__file__)
    taken = getattr(build_graph_module, name)().get_input_jsonschema()
    assert taken["required"] == ["task"]
    assert taken["properties"]["candidates"]["type"] == "integer"


def children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))
