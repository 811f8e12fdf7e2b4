"""From a request to a result, and what is in the way."""

import asyncio
import json
from pathlib import Path

import pytest
from graph_runs import TableBench
from run_starts import asked, events, parts, the_run

from cuda_llm.errors import UsageError
from cuda_llm.graph.runs.result import read_result
from cuda_llm.graph.runs.start import start
from cuda_llm.traces.events import Event, RunFinished, RunInterrupted, RunStarted


def test_a_run_ends_with_the_fastest_kernel_on_disk(tmp_path: Path) -> None:
    result = asyncio.run(start(asked(tmp_path), brought=parts()))
    fastest = max((one.speedup or 0.0 for one in result.attempts), default=0.0)
    assert result.finished
    assert result.speedup == fastest > 1
    assert result.written_by == "model"
    assert result.file is not None
    assert result.file.read_text() == result.source
    assert {one.round for one in result.attempts} == {1, 2}


def test_the_report_says_who_wrote_it_where_it_ran_and_how_to_repeat_it(tmp_path: Path) -> None:
    result = asyncio.run(start(asked(tmp_path), brought=parts()))
    best = result.run_dir / "best"
    report = (best / "report.md").read_text()
    assert f"Kernel `{result.best and result.best.id}`, written by: model" in report
    assert "modelled, not measured" in report
    assert "Judged once more at the end: PASSED" in report
    command = "cuda-llm evaluate vector_add solve.cu --device 'emulated:RTX 3090 Ti'"
    assert command in report
    assert command in (best / "verify.sh").read_text()


def test_what_is_read_back_is_what_was_returned(tmp_path: Path) -> None:
    result = asyncio.run(start(asked(tmp_path), brought=parts()))
    assert read_result(the_run(tmp_path)) == result


def test_the_same_seed_gives_the_same_run_in_any_order_of_completion(tmp_path: Path) -> None:
    def slow_first(name: str) -> float:
        return 0.03 if "r1-c1" in name else 0.0

    runs = []
    for name, delay in (("even", lambda _name: 0.0), ("uneven", slow_first)):
        bench = TableBench(delay=delay)
        result = asyncio.run(start(asked(tmp_path / name), brought=parts(bench=bench)))
        runs.append([(one.id, one.code, one.speedup) for one in result.attempts])
    assert runs[0] == runs[1]


def test_observers_get_every_event_and_cannot_break_the_run(tmp_path: Path) -> None:
    seen: list[Event] = []

    def clumsy(event: Event) -> None:
        raise RuntimeError("the terminal is gone")

    asyncio.run(start(asked(tmp_path), brought=parts(), observers=[clumsy, seen.append]))
    assert seen == events(the_run(tmp_path))
    assert isinstance(seen[0], RunStarted)
    assert isinstance(seen[-1], RunFinished)


def test_best_is_there_after_the_first_round_already(tmp_path: Path) -> None:
    """Whatever happens to the second."""

    async def until_round_two() -> None:
        work = asyncio.create_task(start(asked(tmp_path), brought=parts(bench=bench)))
        await reached.wait()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    reached = asyncio.Event()

    def stuck(name: str) -> float:
        if "r2-" not in name:
            return 0.0
        reached.set()
        return 60.0

    bench = TableBench(delay=stuck)
    asyncio.run(until_round_two())
    run = the_run(tmp_path)
    result = read_result(run)
    assert not result.finished
    assert result.best is not None
    assert (run.best / "solve.cu").read_text() == result.source
    assert isinstance(events(run)[-1], RunInterrupted)


def test_at_the_deadline_the_best_so_far_is_the_result(tmp_path: Path) -> None:
    bench = TableBench(delay=lambda name: 60.0 if "r2-" in name else 0.0)
    request = asked(tmp_path, rounds=5, max_minutes=0.1)
    result = asyncio.run(start(request, brought=parts(bench=bench)))
    assert result.finished
    assert "minutes are over" in result.reason
    assert result.best is not None
    assert result.best.round == 1


def test_run_json_holds_the_request_and_only_names_of_objects(
    tmp_path: Path,
) -> None:
    asyncio.run(start(asked(tmp_path, hints=("use shared memory",)), brought=parts()))
    run = json.loads((the_run(tmp_path).path / "run.json").read_text())
    assert run["request"]["hints"] == ["use shared memory"]
    assert run["brought"] == ["bench", "device", "generator", "reflector", "tuner"]


def test_a_run_does_not_take_over_the_folder_of_another(tmp_path: Path) -> None:
    request = asked(tmp_path, run_id="mine")
    asyncio.run(start(request, brought=parts()))
    with pytest.raises(UsageError, match="exists already; give the new run another name"):
        asyncio.run(start(request, brought=parts()))


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"file: Not a directory; choose another.*--out"):
        asyncio.run(start(asked(tmp_path / "file"), brought=parts()))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"task": "vector_sum"}, "vector_sum: no such task or folder"),
        ({"device": "emulated:RTX 1"}, "RTX 1"),
        ({"strategy": "greedy"}, "unknown strategy 'greedy'"),
        ({"agents": ("nobody",)}, "nobody"),
        ({"prompts": "nowhere"}, "nowhere is no folder; --prompts"),
        ({"agents": ("-nobody",)}, "there is no such agent to leave out"),
    ],
)
def test_a_missing_part_is_refused_before_a_folder_is_made(
    wrong: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as caught:
        asyncio.run(start(asked(tmp_path / "runs", **wrong), brought=parts(device=None)))
    assert message in str(caught.value)
    assert not (tmp_path / "runs").exists()
