"""What a report says of a run is what its events and files say, damaged ones as far as they go."""

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from recorded_run import OTHERS, beginning, ending, write_run
from report_runs import Clock, started, write_large_run

from cuda_llm.traces.events import (
    BaselineJudged,
    ModelCalled,
    RoundBegan,
    RunResumed,
    StageEntered,
    StageLeft,
)
from cuda_llm.traces.report.gather import Gathered, gather
from cuda_llm.traces.report.page import render_page
from cuda_llm.traces.run_folder import RunFolder

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "traces/examples/reduction-playbook"


def timed_run(path: Path, *told: tuple[float, object]) -> Gathered:
    """A run of events at seconds of the test's choosing."""
    clock = Clock()
    for at_s, event in told:
        clock.tell(at_s, event)  # type: ignore[arg-type]
    run = RunFolder(path)
    run.write_run({"run_id": path.name, "request": {"task": "reduction"}})
    run.events.write_bytes(b"".join(clock.lines()))
    return gather(run)


def stage(begin_s: float, end_s: float, name: str, what: str) -> list[tuple[float, object]]:
    """A stage from its beginning to its end."""
    left = StageLeft(candidate=name, stage=what, outcome="ok", seconds=end_s - begin_s)
    return [(begin_s, StageEntered(candidate=name, stage=what)), (end_s, left)]


def test_a_finished_run_has_its_rows_its_course_and_its_result() -> None:
    view = gather(RunFolder(EXAMPLE)).run
    assert view.missing == ()
    assert [row.id for row in view.rows][:5] == ["r1-c1", "r1-c2", "r1-c3", "r1-c4", "r2-c1"]
    assert [step.candidate for step in view.steps] == ["r1-c4", "r2-c1", "r3-c4"]
    assert (view.best, view.time_source) == ("r3-c4", "modelled")
    assert view.speedup == pytest.approx(66.127, abs=1e-3)
    row = next(one for one in view.rows if one.id == "r2-c1")
    assert (row.parent, row.outcome, row.code) == ("r1-c4", "won", "PASSED")
    assert row.versus_parent == pytest.approx(59.1865 / 57.0916, abs=1e-4)
    (receivers, *_) = [hint.receivers for hint in view.hints if hint.id == "r2-h1"]
    assert receivers == ("r3-c1", "r3-c2", "r3-c3", "r3-c4")


def test_the_roofline_holds_the_task_s_ceiling_at_each_timed_size() -> None:
    roof = gather(RunFolder(EXAMPLE)).run.roofline
    assert roof is not None
    assert [one.label for one in roof.ceilings] == ["n = 16,384", "n = 65,536", "n = 262,144"]
    assert {one.bound for one in roof.ceilings} == {"memory"}
    largest = roof.ceilings[-1]
    assert largest.time_us == pytest.approx(largest.bytes / roof.gb_s / 1e3)


def test_every_kind_of_event_is_reported(tmp_path: Path) -> None:
    view = gather(write_run(tmp_path / "run", *beginning(), *OTHERS, *ending())).run
    facts = {(round_.round, *fact) for round_ in view.rounds for fact in round_.facts}
    assert (0, "mine failed", "", "ValueError: no luck; the run went on without it") in facts
    assert (1, "late", "r1-c3", "at compile when the minutes of the run were over") in facts
    labels = {label for _, label, *_ in facts}
    assert {"contest", "inspected", "tuned", "retried", "hardware_research"} <= labels
    assert ("forked", "from another-run after round 1") in view.facts
    assert [(one.agent, one.calls, one.failed) for one in view.spends] == [("generator", 2, 1)]


def test_lanes_show_what_overlaps_and_what_waits(tmp_path: Path) -> None:
    line = timed_run(
        tmp_path / "run",
        (0.0, started("run", 1, 2)),
        (2.0, BaselineJudged(sizes=({"n": 8},), times_us=(1.0,), seconds=1.5)),
        (2.0, RoundBegan(round=1, incumbent=None, briefs=())),
        *stage(2.0, 3.0, "a", "compile"),
        *stage(2.5, 4.0, "b", "compile"),
        *stage(5.0, 6.0, "a", "validate"),
    ).run
    found = {(one.lane, one.what, one.candidate, one.start_s, one.end_s) for one in line.spans}
    assert found == {
        ("device", "baseline", "", 0.5, 2.0),
        ("compiler", "compile", "a", 2.0, 3.0),
        ("compiler", "compile", "b", 2.5, 4.0),
        ("waiting", "before validate", "a", 3.0, 5.0),
        ("device", "validate", "a", 5.0, 6.0),
    }
    shares = {one.name: (one.busy_s, one.wall_s) for one in line.shares}
    assert shares["compiler"] == (2.5, 2.0)
    assert shares["search itself"] == (1.5, 1.5)
    before, first = line.round_times
    assert (before.wall_s, before.lanes_s["device"], before.own_s) == (2.0, 1.5, 0.5)
    assert (first.wall_s, first.lanes_s["compiler"], first.own_s) == (4.0, 2.0, 1.0)


def test_a_pause_before_a_resume_is_no_time_at_work(tmp_path: Path) -> None:
    view = timed_run(
        tmp_path / "run",
        (0.0, started("run", 1, 1)),
        (10.0, StageEntered(candidate="a", stage="compile")),
        (5000.0, RunResumed(round=1)),
        (5003.0, StageLeft(candidate="a", stage="compile", outcome="ok", seconds=2.0)),
    ).run
    assert view.wall_s == 13.0
    (span,) = view.spans
    assert (span.start_s, span.end_s) == (11.0, 13.0)


def test_a_call_that_ended_began_its_seconds_before(tmp_path: Path) -> None:
    call = ModelCalled(
        call="candidates/r1-c1",
        agent="generator",
        model="m",
        outcome="ok",
        input_tokens=900,
        output_tokens=100,
        usd=0.25,
        seconds=4.0,
    )
    view = timed_run(tmp_path / "run", (0.0, started("run", 1, 1)), (6.0, call)).run
    (span,) = view.spans
    assert (span.lane, span.candidate, span.start_s, span.end_s) == ("model", "r1-c1", 2.0, 6.0)
    assert [(one.agent, one.usd, one.input_tokens) for one in view.spends] == [
        ("generator", 0.25, 900)
    ]


def test_spending_is_known_at_each_candidate_s_end(tmp_path: Path) -> None:
    view = gather(write_large_run(tmp_path / "run", rounds=3, candidates=5)).run
    last = max(view.rows, key=lambda row: row.evaluation)
    assert last.usd == pytest.approx(15 * 0.011)
    assert last.tokens == 15 * 6300
    assert sorted(row.evaluation for row in view.rows) == list(range(1, 16))
    assert view.records and view.records[0][0] == "dram_bandwidth"


def torn(run: Path) -> None:
    """Cut the log off in the middle of a line."""
    events = run / "events.jsonl"
    events.write_bytes(events.read_bytes()[:-40])


def interleaved(run: Path) -> None:
    """Two lines written into each other."""
    events = run / "events.jsonl"
    lines = events.read_bytes().split(b"\n")
    lines[40] = lines[40][:30] + lines[41] + lines[40][30:]
    events.write_bytes(b"\n".join(lines))


def newer(run: Path) -> None:
    """Lines of a version to come."""
    with (run / "events.jsonl").open("a") as events:
        events.write('{"v":99,"seq":200,"at":"2030-01-01T00:00:00.000Z","kind":"dreamt"}\n')


def events_folder(run: Path) -> None:
    """A folder where the log should be."""
    (run / "events.jsonl").unlink()
    (run / "events.jsonl").mkdir()


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "torn": (torn, "events.jsonl: 1 line cut off"),
    "interleaved": (interleaved, "events.jsonl: 1 line cut off"),
    "newer": (newer, "events.jsonl: 1 line written by a newer cuda-llm"),
    "no-events": (lambda run: (run / "events.jsonl").unlink(), ""),
    "events-folder": (events_folder, "events.jsonl: Is a directory"),
    "run-json": (lambda run: (run / "run.json").write_text("{"), "run.json: broken"),
    "no-run-json": (lambda run: (run / "run.json").unlink(), "no run.json"),
    "newer-run-json": (
        lambda run: (run / "run.json").write_text('{"version": 99}'),
        "run.json: version 99, this program reads version 2",
    ),
    "attempt": (
        lambda run: (run / "candidates/r2-c1/attempt.json").write_text("[]"),
        "candidates/r2-c1/attempt.json: broken",
    ),
    "brief": (lambda run: (run / "candidates/r2-c1/brief.json").unlink(), "events.jsonl: 1 line"),
    "verdict": (
        lambda run: (run / "candidates/r2-c1/verdict.json").write_text('{"code": 3}'),
        "candidates/r2-c1/verdict.json: broken",
    ),
    "profile": (
        lambda run: (run / "candidates/r2-c1/profile.json").unlink(),
        "candidates/r2-c1/profile.json: gone",
    ),
    "hint": (lambda run: (run / "hints/r1-h1.json").unlink(), "hints/r1-h1.json: gone"),
    "source": (
        lambda run: (run / "candidates/r2-c1/source.cu").write_bytes(b"\xff\x00"),
        "candidates/r2-c1/source.cu: not the source that was judged",
    ),
    "no-candidates": (lambda run: shutil.rmtree(run / "candidates"), "events.jsonl"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_run_is_read_as_far_as_it_goes(tmp_path: Path, name: str) -> None:
    run = tmp_path / "run"
    shutil.copytree(EXAMPLE, run)
    harm, told = DAMAGE[name]
    harm(run)
    view = gather(RunFolder(run)).run
    assert told in " · ".join(view.missing)
    assert "expected" not in " · ".join(view.missing), "the remedy is the command's to tell"
    assert str(tmp_path) not in " · ".join(view.missing)
    if name != "no-candidates":
        assert len(view.rows) == 12
        others = [row for row in view.rows if row.id != "r2-c1"]
        assert all(row.code == "PASSED" and row.speedup for row in others)


def senseless(numbers: random.Random, value: Any) -> Any:
    """A value of a file, one thing in it replaced by something that has no place there."""
    if isinstance(value, dict) and value and numbers.random() < 0.9:
        name = numbers.choice(list(value))
        return value | {name: senseless(numbers, value[name])}
    if isinstance(value, list) and value and numbers.random() < 0.9:
        place = numbers.randrange(len(value))
        return [*value[:place], senseless(numbers, value[place]), *value[place + 1 :]]
    return numbers.choice((None, [], {}, "</script>", -1, 0, 1e308, "inf", "nan", True))


@pytest.mark.parametrize("seed", range(12))
def test_values_that_make_no_sense_end_no_report(tmp_path: Path, seed: int) -> None:
    run, numbers = tmp_path / "run", random.Random(seed)
    shutil.copytree(EXAMPLE, run)
    events = run / "events.jsonl"
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    for _ in range(4):
        place = numbers.randrange(len(lines))
        lines[place] = senseless(numbers, lines[place])
    lines[numbers.randrange(9, 30)]["at"] = "2026-11-22T18:56:58"
    events.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for file in numbers.sample(sorted(run.rglob("*.json")), 5):
        file.write_text(json.dumps(senseless(numbers, json.loads(file.read_text()))))
    page = render_page(gather(RunFolder(run)))
    assert page.count("<script") == 3
    assert '"id":"r3-c4"' in page


def test_half_a_candidate_is_shown_with_what_it_is_at(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", *beginning())
    for file in (run.path / "candidates").glob("r*/attempt.json"):
        file.unlink()
    text = run.events.read_text().splitlines()
    kept = [line for line in text if json.loads(line)["kind"] != "attempt_judged"]
    run.events.write_text("\n".join(kept) + "\n")
    rows = {row.id: row for row in gather(run).run.rows}
    assert {name: row.state for name, row in rows.items()} == {
        "r1-c1": "between two stages",
        "r1-c2": "not begun",
        "r1-c3": "at compile",
        "r2-c1": "not begun",
    }


def test_two_runs_are_comparable_only_where_task_device_and_times_agree(tmp_path: Path) -> None:
    first = timed_run(tmp_path / "a", (0.0, started("a", 1, 1))).run
    second = timed_run(tmp_path / "b", (0.0, started("b", 9, 9))).run
    modelled = timed_run(tmp_path / "c", (0.0, started("c", 1, 1, source="modelled"))).run
    warm = timed_run(tmp_path / "d", (0.0, replace(started("d", 1, 1), l2="warm"))).run
    assert first.comparable == second.comparable
    assert len({one.comparable for one in (first, modelled, warm)}) == 3
