"""`optimize`, called from scripts, from services, from notebooks."""

import asyncio
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from graph_runs import Learner, NoTuner, TableBench, Writer, numbered
from run_starts import ReadyDevice, the_run

import cuda_llm
from cuda_llm import Result, aoptimize, astream, load_task, optimize, resume
from cuda_llm.errors import UsageError
from cuda_llm.graph.runs.result import read_result
from cuda_llm.tools.open_device import open_device
from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.events import AttemptJudged, Event, RunFinished


def table(out: Path) -> Any:
    """A small run that a table judges."""
    return {
        "generator": Writer(numbered),
        "bench": TableBench(),
        "reflector": Learner(),
        "tuner": NoTuner(),
        "device": ReadyDevice(open_device("emulated").hardware),
        "candidates": 4,
        "rounds": 2,
        "out": str(out),
    }


def test_a_script_gets_the_result_of_a_run(tmp_path: Path) -> None:
    seen: list[Event] = []
    result = optimize(load_task("vector_add"), observers=[seen.append], **table(tmp_path))
    assert isinstance(result, Result)
    assert result == read_result(the_run(tmp_path))
    assert result.speedup and result.speedup > 1
    assert isinstance(seen[-1], RunFinished)


def test_a_script_gets_the_settings_of_the_machine_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_LLM_L2", "warm")
    optimize("vector_add", **table(tmp_path))
    assert the_run(tmp_path).read_run()["request"]["l2"] == "warm"


def test_a_service_gets_the_events_as_they_happen(tmp_path: Path) -> None:
    seen: list[Event] = []

    async def watch() -> list[Event]:
        events = astream("vector_add", observers=[seen.append], **table(tmp_path))
        return [event async for event in events]

    streamed = asyncio.run(watch())
    assert streamed == seen == [one.event for one in read_events(the_run(tmp_path).events)]
    assert isinstance(streamed[-1], RunFinished)


def test_who_stops_reading_events_stops_the_run_and_can_resume_it(tmp_path: Path) -> None:
    async def watch() -> None:
        async with aclosing(astream("vector_add", **table(tmp_path))) as events:
            async for event in events:
                if isinstance(event, AttemptJudged):
                    return

    asyncio.run(watch())
    result = read_result(the_run(tmp_path))
    assert (result.finished, result.reason) == (False, "interrupted")
    run = the_run(tmp_path).path
    with pytest.raises(
        UsageError, match=r"go on with: cuda_llm.resume\('.*', bench=..., device=..."
    ):
        optimize("vector_add", **table(tmp_path), run_id=run.name)
    with pytest.raises(UsageError, match=r"with its own device, .* again: cuda_llm.resume\("):
        resume(run, bench=TableBench())
    with pytest.raises(UsageError, match="rounds=3: a resumed run keeps the options it has"):
        resume(run, rounds=3)
    own = {name: one for name, one in table(tmp_path).items() if not isinstance(one, (int, str))}
    assert resume(run, **own).finished


def test_a_class_is_a_part_as_on_the_command_line(tmp_path: Path) -> None:
    class Numbered(Writer):
        def __init__(self) -> None:
            super().__init__(numbered)

    def ready() -> ReadyDevice:
        return ReadyDevice(open_device("emulated").hardware)

    own = {**table(tmp_path), "generator": Numbered, "device": ready, "bench": TableBench}
    assert optimize("vector_add", **own).finished


def test_a_part_with_a_method_that_nobody_could_call_is_refused_before_the_run(
    tmp_path: Path,
) -> None:
    class Blocking(Writer):
        def generate(self, brief: Any, situation: Any) -> Any: ...

    with pytest.raises(
        UsageError, match=r"\(it needs `async def generate\(brief, situation\)`, has"
    ):
        optimize("vector_add", **{**table(tmp_path), "generator": Blocking(numbered)})
    assert not list(tmp_path.iterdir())


def test_events_of_a_run_that_cannot_begin_end_with_its_error(tmp_path: Path) -> None:
    async def watch() -> list[Event]:
        return [one async for one in astream("vector_add", **table(tmp_path) | {"candidates": 0})]

    with pytest.raises(UsageError, match="candidates"):
        asyncio.run(watch())


def test_a_service_awaits_several_at_once(tmp_path: Path) -> None:
    async def both() -> list[Result]:
        first, second = (aoptimize("vector_add", **table(tmp_path / name)) for name in "ab")
        return list(await asyncio.gather(first, second))

    first, second = asyncio.run(both())
    assert first.run_dir != second.run_dir
    assert [one.code for one in first.attempts] == [one.code for one in second.attempts]


def test_a_notebook_calls_it_while_its_own_loop_runs(tmp_path: Path) -> None:
    async def cell() -> Result:
        return optimize("vector_add", **table(tmp_path))

    assert asyncio.run(cell()).finished


def test_what_is_wrong_is_raised_where_it_was_called(tmp_path: Path) -> None:
    async def cell() -> Result:
        return optimize("vector_sum", **table(tmp_path))

    with pytest.raises(UsageError, match="did you mean vector_add"):
        asyncio.run(cell())


def test_a_task_made_in_python_is_taken_as_it_is(tmp_path: Path) -> None:
    task = replace(load_task("vector_add"), title="mine", description="Add two vectors.")
    result = optimize(task, **table(tmp_path))
    assert result.task == "vector_add"
    assert "task" in the_run(tmp_path).read_run()["brought"]


def test_what_the_package_offers_is_there() -> None:
    assert all(callable(getattr(cuda_llm, name)) for name in cuda_llm.__all__)
