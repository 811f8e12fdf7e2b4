"""A run at a glance: every candidate in one line, the course of the best, and what went wrong."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from recorded_run import ATTEMPTS, beginning, ending, write_run
from report_runs import write_hostile_run, write_large_run

from cuda_llm.cli.printing import join
from cuda_llm.traces.events import AttemptJudged, Event, RunFinished, WinnerRemeasured
from cuda_llm.traces.terminal.short import describe_in_short


def lines_of(path: Path, *events: Event) -> list[str]:
    """The lines about a run that recorded these events, as a pipe gets them."""
    run = write_run(path, *events)
    return [join(line, None, colours=False) for line in describe_in_short(run)]


def test_a_finished_run_is_shown_at_a_glance(tmp_path: Path) -> None:
    lines = lines_of(tmp_path / "a-run", *beginning(), *ending())
    text = "\n".join(" ".join(line.split()) for line in lines)
    for part in (
        "run a-run · finished: its rounds were done",
        "r1-c1 1.25x 33.2 us first uncoalesced global accesses a short name",
        'r1-c2 COMPILE_FAILED first identifier "tile" is undefined',
        "* r2-c1 3.50x 11.9 us fix of r1-c2 uncoalesced global accesses a short name",
        "round 1 1 of 3 passed r1-c1 1.25x ███████ the first kernel that passed",
        "round 2 1 of 1 passed r2-c1 3.50x ████████████████████ 3.50x is more than 1.25x",
        'COMPILE_FAILED 1 r1-c2 r1-c2: identifier "tile" is undefined',
        "NO_CODE 1 r1-c3 r1-c3: the reply was cut off at its limit",
        "generator 2 calls, 1.2k tokens in, 300 out, $0.01",
        "winner r2-c1 (a short name), written by model: 3.40x the baseline's speed over all sizes",
        f"more cuda-llm trace show {tmp_path}/a-run --long",
    ):
        assert part in text, text


def test_each_candidate_takes_one_line_and_its_id_survives_a_hundred_columns(
    tmp_path: Path,
) -> None:
    run = write_large_run(tmp_path / ("a-long-run-name-" * 4), rounds=3, candidates=12)
    lines = list(describe_in_short(run))
    narrow = [join(line, 100, colours=False) for line in lines]
    for name in run.candidates():
        assert sum(line[2:].startswith(f"{name} ") for line in narrow) == 1, name
    assert (
        max(len(line) for line, parts in zip(narrow, lines, strict=True) if len(parts) > 1) <= 100
    )
    assert run.name in narrow[0]


def test_a_line_in_a_pipe_is_whole(tmp_path: Path) -> None:
    told = "an idea of many words " * 30
    judged = replace(ATTEMPTS[0], idea=told.strip())
    lines = lines_of(tmp_path / "a-run", *beginning(), AttemptJudged(attempt=judged))
    assert any(line.endswith(told.strip()) for line in lines)


def test_a_winner_that_failed_its_last_check_is_marked(tmp_path: Path) -> None:
    wrong = WinnerRemeasured(attempt="r2-c1", code="WRONG_RESULT", speedup=None, detail="1 of 9")
    nobody = RunFinished(reason="rounds", best=None)
    lines = lines_of(tmp_path / "a-run", *beginning(), *ending()[:-2], wrong, nobody)
    (row,) = [line for line in lines if line.startswith("  r2-c1 ")]
    assert "last check: WRONG_RESULT" in row
    assert "WRONG_RESULT; 1 of 9" in " ".join("\n".join(lines).split())


def test_colours_do_not_change_the_text(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a-run", *beginning(), *ending())
    for line in describe_in_short(run):
        coloured = join(line, 100, colours=True)
        assert re.sub(r"\x1b\[\d*m", "", coloured) == join(line, 100, colours=False)
    assert "\x1b[31m" in "".join(join(one, 100, colours=True) for one in describe_in_short(run))


def test_nothing_that_a_model_wrote_controls_the_terminal(tmp_path: Path) -> None:
    run = write_hostile_run(tmp_path / "a-run")
    lines = [join(line, None, colours=False) for line in describe_in_short(run)]
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("events", [(), beginning()[:1], beginning()[:6]])
def test_a_run_that_has_hardly_begun_is_shown(tmp_path: Path, events: tuple[Event, ...]) -> None:
    assert lines_of(tmp_path / "a-run", *events)[0].startswith("run a-run · ")


def test_damaged_files_cost_what_they_held(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a-run", *beginning(), *ending())
    (run.candidate("r1-c2") / "attempt.json").write_text("{")
    with run.events.open("a") as file:
        file.write('{"v": 1, "seq"\n')
    text = "\n".join(join(line, None, colours=False) for line in describe_in_short(run))
    assert "not there  events.jsonl: 2 lines cut off, damaged" in text
    assert "* r2-c1" in text
