"""`cuda-llm trace report` and `trace serve`, as a person calls them."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from commands import Command
from recorded_run import beginning, ending, kept, write_run

from cuda_llm.traces.event_log import Recorder

CLI = [sys.executable, "-m", "cuda_llm"]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A finished run and a killed one, where runs lie unless told otherwise."""
    folder = tmp_path / "traces/runs"
    write_run(folder / "first-run", *beginning(), *ending())
    write_run(folder / "second-run", *beginning())
    return folder


@contextmanager
def started(*arguments: object, cwd: Path) -> Iterator["subprocess.Popen[str]"]:
    """A command at work in a process of its own."""
    command = [*CLI, *map(str, arguments)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def wait_for(path: Path, text: str) -> str:
    """What a file holds once `text` is in it."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        held = path.read_text() if path.exists() else ""
        if text in held:
            return held
        time.sleep(0.05)
    raise AssertionError(f"{text!r} never came")


def test_a_report_lies_in_the_run_s_folder_unless_told_otherwise(
    command: Command, runs: Path, tmp_path: Path
) -> None:
    ran = command("trace", "report", "first")
    assert (ran.code, ran.stderr) == (0, "")
    named = Path(shlex.split(ran.stdout.partition(": ")[0])[0])
    assert named.resolve() == runs / "first-run/report.html"
    assert named.read_text().startswith("<!doctype html>")
    assert command("trace", "report", "first", "--out", "mine/a b.html").code == 0
    assert (tmp_path / "mine/a b.html").is_file()
    assert command("trace", "list").code == 0


def test_two_runs_in_one_file(command: Command, runs: Path, tmp_path: Path) -> None:
    ran = command("trace", "report", "first", "--compare", "second", "--out", "both.html")
    assert ran.code == 0
    assert '"other":{"version":1,"run_id":"second-run"' in (tmp_path / "both.html").read_text()


def test_a_damaged_run_is_written_and_what_is_missing_is_told(command: Command, runs: Path) -> None:
    with (runs / "second-run/events.jsonl").open("a") as events:
        events.write('{"v":2,"seq"')
    for file in (runs / "second-run/candidates").glob("*/brief.json"):
        file.write_text("[")
    ran = command("trace", "report", "second", "--out", "torn.html")
    assert ran.code == 0
    assert ran.stderr.startswith("  not there: events.jsonl: 2 lines cut off, damaged or about")
    assert ran.stderr.count("\n") == 1 and "more" in ran.stderr


@pytest.mark.parametrize(
    "arguments",
    [("report", "nobody"), ("report", "first", "--compare", "nobody"), ("serve", "nowhere")],
)
def test_what_is_not_there_is_one_line(
    command: Command, runs: Path, arguments: tuple[str, ...]
) -> None:
    ran = command("trace", *arguments)
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: ") and ran.stderr.count("\n") == 1


def test_a_file_that_cannot_be_written_is_one_line(command: Command, runs: Path) -> None:
    ran = command("trace", "report", "first", "--out", "/proc/report.html")
    assert ran.code == 2
    assert ran.stderr.startswith("error: /proc/report.html: cannot be written")


def test_follow_keeps_the_file_current_until_the_run_ends(runs: Path, tmp_path: Path) -> None:
    folder = write_run(runs / "third-run", *beginning())
    page = tmp_path / "live.html"
    record = Recorder(folder.events)
    with started("trace", "report", "third", "--follow", "--out", page, cwd=tmp_path) as process:
        assert '"live":true' in wait_for(page, '"state":"running"')
        *early, last = ending()
        for event in early:
            record(kept(folder, event))
        wait_for(page, '"code":"PASSED","summary":"","speedup":3.5')
        record(last)
        record.close()
        out, errors = process.communicate(timeout=240)
        assert (process.returncode, errors) == (0, "")
        assert "kept current until the run ends" in out
    assert '"live":false' in wait_for(page, '"state":"finished"')


def test_follow_of_a_run_that_is_over_writes_once(command: Command, runs: Path) -> None:
    ran = command("trace", "report", "first", "--follow", "--out", "once.html")
    assert ran.code == 0 and "kept current" not in ran.stdout


def test_serve_shows_the_runs_and_ends_with_ctrl_c(runs: Path, tmp_path: Path) -> None:
    with started("trace", "serve", "--port", 0, cwd=tmp_path) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        address = re.match(r"(http://127\.0\.0\.1:\d+/) shows the runs of traces/runs", line)
        assert address
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(address.group(1), timeout=240) as answer:
            assert "first-run" in answer.read().decode()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=240)
        assert (process.returncode, errors) == (0, "")
