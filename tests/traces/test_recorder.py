"""Events are on disk before observers get them, in one order, over kills and restarts."""

import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from recorded_run import ATTEMPTS, kept

from cuda_llm.errors import UsageError
from cuda_llm.traces.event_log import (
    Recorder,
    follow_events,
    is_being_written,
    read_events,
    read_trace,
)
from cuda_llm.traces.events import (
    AttemptJudged,
    AttemptRepeated,
    Event,
    IncumbentChosen,
    ModelRetried,
    RunResumed,
    StageEntered,
)
from cuda_llm.traces.run_folder import RunFolder

EVENT = StageEntered(candidate="r1-c1", stage="compile")
RETRY = ModelRetried(call="c", attempt=1, reason="busy", wait_s=1.0)
"""Happens anew each time."""
CHOSEN = IncumbentChosen(round=1, before=None, incumbent="r1-c1", reason="fastest")


def stages(path: Path) -> list[str]:
    return [one.event.stage for one in read_events(path) if isinstance(one.event, StageEntered)]


def test_an_event_is_one_line_with_version_number_time_and_kind(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    record = Recorder(path)
    record(EVENT)
    record.close()
    (line,) = path.read_text().splitlines()
    fields = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", fields.pop("at"))
    assert fields == {
        **{"v": 2, "seq": 1, "kind": "stage_entered"},
        **{"candidate": "r1-c1", "stage": "compile", "hints": []},
    }


def test_numbers_go_on_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for _ in range(3):
        record = Recorder(path)
        record(RETRY)
        record(RETRY)
        record.close()
    assert [one.seq for one in read_events(path)] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("cut", range(1, 30, 4))
def test_a_torn_last_line_is_mended_and_nothing_whole_is_lost(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "events.jsonl"
    record = Recorder(path)
    for _ in range(3):
        record(RETRY)
    record.close()
    with path.open("rb+") as file:
        file.truncate(path.stat().st_size - cut)
    # Where nothing but the line end is missing, the event is whole.
    whole = 3 if cut == 1 else 2
    assert len(read_events(path)) == whole
    record = Recorder(path)
    record(RETRY)
    record.close()
    trace = read_trace(path)
    assert [one.seq for one in trace.events] == list(range(1, whole + 2))
    assert trace.torn == 0


def test_numbers_go_on_behind_lines_that_are_no_events(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    record = Recorder(path)
    record(RETRY)
    record.close()
    with path.open("a") as file:
        file.write("nonsense\n[1]\n")
    record = Recorder(path)
    record(RETRY)
    record.close()
    trace = read_trace(path)
    assert ([one.seq for one in trace.events], trace.torn) == ([1, 2], 2)


@pytest.mark.parametrize("event", [EVENT, CHOSEN, replace(EVENT, stage="load")])
def test_what_an_earlier_process_told_is_told_once(event: Event, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    seen: list[Event] = []
    for _ in range(3):
        record = Recorder(path, (seen.append,))
        record(event)
        record.close()
    assert [one.event for one in read_events(path)] == [event]
    assert seen == [event] * 3, "observers learn where a resumed run is"


def test_an_attempt_is_told_once_whether_as_it_lands_or_when_its_round_is_over(
    tmp_path: Path,
) -> None:
    run = RunFolder(tmp_path)
    seen: list[Event] = []
    for _ in range(2):
        record = Recorder(run.events, (seen.append,))
        for _ in range(2):
            record(kept(run, AttemptJudged(attempt=ATTEMPTS[0])))
        record.close()
    judged = AttemptJudged(attempt=ATTEMPTS[0])
    assert [one.event for one in read_events(run.events)] == [judged]
    assert seen == [judged] * 2, "each process tells its observers"


def test_who_follows_a_run_sees_a_repetition_as_it_was_told(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    record = Recorder(run.events)
    record(kept(run, AttemptJudged(attempt=ATTEMPTS[0])))
    following = follow_events(run.events, until=lambda: False)
    first = next(following).event
    repeated = replace(ATTEMPTS[0], code="DUPLICATE")
    record(kept(run, AttemptRepeated(attempt=repeated)))
    second = next(following).event
    record.close()
    assert (first, second) == (
        AttemptJudged(attempt=ATTEMPTS[0]),
        AttemptRepeated(attempt=repeated),
    )


def test_observers_get_an_event_that_is_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    seen: list[tuple[Event, int]] = []
    record = Recorder(path, [lambda event: seen.append((event, len(read_events(path))))])
    record(EVENT)
    record(RunResumed(round=2))
    record.close()
    assert seen == [(EVENT, 1), (RunResumed(round=2), 2)]


def test_an_observer_that_raises_is_dropped_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Event] = []

    def broken(event: Event) -> None:
        raise ValueError("no screen")

    record = Recorder(tmp_path / "events.jsonl", [broken, seen.append])
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            record(RunResumed(round=number))
    record.close()
    assert len(seen) == 3
    (warning,) = caplog.records
    assert "broken" in warning.getMessage()
    assert "no screen" in warning.getMessage()


def test_an_observer_may_record_something_itself(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"

    def answers(event: Event) -> None:
        if isinstance(event, RunResumed):
            record(EVENT)

    record = Recorder(path, [answers])
    record(RunResumed(round=1))
    record.close()
    assert [one.event for one in read_events(path)] == [RunResumed(round=1), EVENT]


def test_events_of_many_threads_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    record = Recorder(path)

    def work(name: int) -> None:
        for turn in range(50):
            record(StageEntered(candidate=f"r{name}-c{turn}", stage="x" * 300))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    record.close()
    trace = read_trace(path)
    assert trace.torn == 0
    assert [one.seq for one in trace.events] == list(range(1, 301))
    for name in range(6):
        own = [
            one.event.candidate
            for one in trace.events
            if isinstance(one.event, StageEntered) and one.event.candidate.startswith(f"r{name}-")
        ]
        assert own == [f"r{name}-c{turn}" for turn in range(50)]


def test_a_second_recorder_is_refused_while_the_first_is_open(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    assert not is_being_written(path)
    first = Recorder(path)
    assert is_being_written(path)
    with pytest.raises(UsageError, match="another process"):
        Recorder(path)
    first.close()
    assert not is_being_written(path)
    Recorder(path).close()


def test_after_close_nothing_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    record = Recorder(path)
    record.close()
    record(EVENT)
    record.close()
    assert path.read_bytes() == b""


def test_a_place_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "a-run").write_text("")
    with pytest.raises(UsageError, match="cannot be written") as raised:
        Recorder(tmp_path / "a-run" / "events.jsonl")
    assert "\n" not in str(raised.value)


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from cuda_llm.errors import UsageError
from cuda_llm.traces.events import StageEntered
from cuda_llm.traces.event_log import Recorder

record = Recorder(Path(sys.argv[1]))
record(StageEntered(candidate="r1-c1", stage="compile"))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
try:
    record(StageEntered(candidate="r1-c1", stage="y" * 300))
except UsageError as error:
    print(error)
record(StageEntered(candidate="r1-c1", stage="load"))
"""


def test_an_event_that_does_not_fit_on_the_disk_leaves_no_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    done = subprocess.run(
        [sys.executable, "-P", "-c", FULL_DISK, str(path)], capture_output=True, text=True
    )
    assert "cannot be written" in done.stdout
    assert read_trace(path).torn == 0
    assert stages(path)[0] == "compile"
    assert "y" * 300 not in stages(path)


COUNTER = """
import sys
from pathlib import Path
from cuda_llm.traces.events import StageEntered
from cuda_llm.traces.event_log import Recorder

record = Recorder(Path(sys.argv[1]), [lambda event: print(event.stage, flush=True)])
for turn in range(int(sys.argv[2]), 10**9):
    record(StageEntered(candidate="r1-c1", stage=str(turn)))
"""


def test_a_kill_loses_no_event_that_an_observer_got(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    seen: list[str] = []
    for _ in range(2):
        process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-c",
                COUNTER,
                str(path),
                str(len(stages(path)) if seen else 0),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        seen.append(process.stdout.readline().strip())
        time.sleep(0.03)
        os.kill(process.pid, signal.SIGKILL)
        seen += process.stdout.read().split("\n")[:-1]
        process.stdout.close()
        process.wait()
        assert set(seen) <= set(stages(path))
    assert read_trace(path).torn <= 1
    recorded = read_events(path)
    assert [one.seq for one in recorded] == list(range(1, len(recorded) + 1))
