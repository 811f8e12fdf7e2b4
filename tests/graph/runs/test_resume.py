"""Going on with a run: after an interruption, for a review, with other hints."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from graph_runs import TableBench
from run_starts import asked, events, parts, the_run, told_of

from cuda_llm.errors import UsageError
from cuda_llm.graph.parts import NO_PARTS, Parts
from cuda_llm.graph.review_decisions import ACCEPT
from cuda_llm.graph.runs.result import Result, read_result
from cuda_llm.graph.runs.start import parts_of, resume, start
from cuda_llm.tasks.loader import load_task
from cuda_llm.traces.event_log import Recorder
from cuda_llm.traces.events import HintGiven, RunInterrupted, RunResumed, RunStarted, StopCause


def outcome(result: Result) -> list[Any]:
    """What a run came to, without its times."""
    return [(one.id, one.code, one.speedup, one.parent) for one in result.attempts]


async def stop_when(text: str, out: Path, **config: Any) -> None:
    """A run that is cancelled when a candidate whose source holds `text` is being judged."""
    reached = asyncio.Event()

    def stuck(name: str) -> float:
        if text not in name:
            return 0.0
        reached.set()
        return 60.0

    bench = TableBench(delay=stuck)
    work = asyncio.create_task(start(asked(out, **config), brought=parts(bench=bench)))
    await reached.wait()
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


@pytest.mark.parametrize("place", ["compile // r1-c1", "profile // r1-c", "validate // r2-c2"])
def test_an_interrupted_run_comes_to_what_the_undisturbed_one_does(
    place: str, tmp_path: Path
) -> None:
    whole = asyncio.run(start(asked(tmp_path / "whole"), brought=parts()))
    asyncio.run(stop_when(place, tmp_path / "cut"))
    run = the_run(tmp_path / "cut")
    before = run.events.read_bytes()
    result = asyncio.run(resume(run, brought=parts()))
    assert outcome(result) == outcome(whole)
    assert result.best and whole.best
    assert result.best.id == whole.best.id
    assert run.events.read_bytes().startswith(before), "a recorded event was lost"
    assert len(events(run, RunStarted)) == len(events(run, RunResumed)) == 1
    assert sorted(told_of(run)) == sorted(one.id for one in result.attempts)


def test_a_finished_run_gives_its_result_and_takes_no_answer(tmp_path: Path) -> None:
    """As a supervisor needs that restarts a run whose process was killed at its very end."""
    whole = asyncio.run(start(asked(tmp_path), brought=parts()))
    run = the_run(tmp_path)
    before = run.events.read_bytes()
    assert asyncio.run(resume(run, answer=ACCEPT)) == whole
    assert run.events.read_bytes() == before
    with pytest.raises(UsageError, match="is finished and waits for no review; fork it with"):
        asyncio.run(resume(run, hints=("use shared memory",)))


def test_a_run_at_work_is_left_alone(tmp_path: Path) -> None:
    asyncio.run(stop_when("r1-c1", tmp_path))
    run = the_run(tmp_path)
    holder = Recorder(run.events)
    with pytest.raises(UsageError, match="at work in another process"):
        asyncio.run(resume(run, brought=parts()))
    holder.close()


def test_a_run_of_a_task_that_changed_is_not_resumed(tmp_path: Path) -> None:
    task = tmp_path / "my_task"
    shutil.copytree(load_task("vector_add").folder, task)
    asyncio.run(stop_when("r1-c1", tmp_path / "runs", task=str(task)))
    with (task / "baseline.cu").open("a") as file:
        file.write("// slower\n")
    with pytest.raises(UsageError, match=r"has changed since the run began \(baseline.cu\)"):
        asyncio.run(resume(the_run(tmp_path / "runs"), brought=parts()))


def test_settings_of_another_day_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model named since then would take the writing from the playbook."""
    brought = parts(generator=None)
    asyncio.run(start(asked(tmp_path, rounds=1, review=True), brought=brought))
    run = the_run(tmp_path)
    monkeypatch.setenv("CUDA_LLM_MODEL", "newer-model")
    monkeypatch.setenv("CUDA_LLM_L2", "warm")
    found = parts_of(run, brought)
    assert (found.generator_choice.name, found.model, found.config.l2) == ("playbook", "", "cold")


def test_what_was_brought_as_an_object_must_be_brought_again(tmp_path: Path) -> None:
    asyncio.run(stop_when("r1-c1", tmp_path))
    with pytest.raises(UsageError, match="with its own bench, device, generator"):
        asyncio.run(resume(the_run(tmp_path), brought=NO_PARTS))


def test_a_moved_run_goes_on_where_it_lies(tmp_path: Path) -> None:
    asyncio.run(stop_when("r2-c1", tmp_path / "here"))
    old = the_run(tmp_path / "here")
    there = tmp_path / "there"
    there.mkdir()
    old.path.rename(there / old.name)
    assert asyncio.run(resume(the_run(there), brought=parts())).finished


def test_a_review_stops_before_each_round_and_takes_hints(tmp_path: Path) -> None:
    def go_on(*hints: str) -> Result:
        return asyncio.run(resume(the_run(tmp_path), hints=hints, brought=parts()))

    first = asyncio.run(start(asked(tmp_path, review=True), brought=parts()))
    assert (first.rounds, first.finished, first.stopped) == (0, False, StopCause.REVIEW)
    second = go_on()
    assert (second.rounds, second.finished) == (1, False)
    third = go_on("Try float4.")
    assert (third.rounds, third.finished) == (2, True)
    run = the_run(tmp_path)
    given = [one.hint.text for one in events(run, HintGiven) if isinstance(one, HintGiven)]
    assert given.count("Try float4.") == 1
    brief = run.brief("r2-c1")
    assert brief is not None
    assert "Try float4." in [hint.text for hint in brief.performance_hints]
    assert len(events(run, RunInterrupted)) == 2


def test_a_run_killed_before_its_first_checkpoint_starts_over(tmp_path: Path) -> None:
    asyncio.run(stop_when("r1-c1", tmp_path))
    run = the_run(tmp_path)
    run.checkpoint.unlink()
    result = asyncio.run(resume(run, brought=parts()))
    assert result.finished
    assert read_result(run).best is not None


def test_no_overrides_are_nothing() -> None:
    assert not Parts().given


def test_a_run_goes_on_only_where_its_times_could_be_ranked(tmp_path: Path) -> None:
    """Started where times were measured: a modelled one never stands beside them."""
    asyncio.run(stop_when("compile // r1-c1", tmp_path))
    run = the_run(tmp_path)
    about = run.read_run()
    run.write_run({**about, "time_source": "measured", "device": "cuda:0 NVIDIA H200"})

    with pytest.raises(UsageError, match="judged on cuda:0 NVIDIA H200, times measured"):
        asyncio.run(resume(run, brought=parts()))


def test_a_run_that_chose_its_device_goes_on_with_that_one(tmp_path: Path) -> None:
    asyncio.run(stop_when("compile // r1-c1", tmp_path, device="auto"))
    run = the_run(tmp_path)
    assert run.read_run()["request"]["device"] == "auto"
    about = run.read_run()
    brought = [name for name in about["brought"] if name != "device"]
    run.write_run({**about, "device_spec": "emulated:RTX 4090", "brought": brought})

    with pytest.raises(UsageError, match="here is emulated RTX 4090"):
        asyncio.run(resume(run, brought=parts(device=None)))


def test_a_device_that_was_named_by_code_is_opened_again(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(
        "from run_starts import ReadyDevice\n"
        "from cuda_llm.extend import open_device\n"
        "device = ReadyDevice(open_device('emulated').hardware)\n"
    )
    spec = f"{own}:device"
    asyncio.run(stop_when("compile // r1-c1", tmp_path / "run", device=spec))
    run = the_run(tmp_path / "run")
    about = run.read_run()
    assert (about["request"]["device"], about["device_spec"]) == (spec, spec)
    brought = [name for name in about["brought"] if name != "device"]
    run.write_run({**about, "brought": brought})
    assert asyncio.run(resume(run, brought=parts(device=None))).finished

    own.unlink()
    with pytest.raises(UsageError, match=r"device '.*own\.py:device': cannot import .*own\.py"):
        asyncio.run(start(asked(tmp_path / "next", device=spec), brought=parts(device=None)))
