"""`cuda-llm trace show --follow`: what another process records is shown as it lands."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from commands import Command
from recorded_run import beginning, ending, kept, write_run

from cuda_llm.traces.event_log import Recorder

CLI = [sys.executable, "-m", "cuda_llm", "trace", "show"]


@contextmanager
def followed(run: Path, out: int = subprocess.PIPE) -> Iterator["subprocess.Popen[str]"]:
    """A process that follows the run."""
    process = subprocess.Popen(
        [*CLI, str(run), "--follow"], stdout=out, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def read_until(process: "subprocess.Popen[str]", text: str) -> str:
    """The line that holds the text; fails the test where the output ends before it."""
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return line
    raise AssertionError(f"{text!r} was not printed")


def test_a_pipe_gets_a_line_for_each_event_and_the_run_at_a_glance_at_its_end(
    tmp_path: Path,
) -> None:
    run = write_run(tmp_path / "a-run", *beginning())
    record = Recorder(run.events)
    with followed(run.path) as process:
        assert "1.25x over all sizes, 33.2 us at the largest" in read_until(process, "r1-c1 ")
        for event in ending():
            record(kept(run, event))
        assert "3.50x" in read_until(process, "r2-c1 ")
        read_until(process, "finished: its rounds were done")
        assert process.poll() is None
        record.close()
        read_until(process, "run a-run · finished")
        read_until(process, "winner")
        assert process.wait(120) == 0


def test_every_event_is_a_line_of_json(command: Command, tmp_path: Path) -> None:
    run = write_run(tmp_path / "a-run", *beginning(), *ending())
    ran = command("trace", "show", run.path, "--follow", "--json")
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [one["kind"] for one in found] == [one.kind for one in (*beginning(), *ending())]
    assert found[-1]["best"] == "r2-c1"
    assert ran.stderr == ""


def test_a_terminal_gets_a_board_that_ctrl_c_ends_without_an_error(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a-run", *beginning())
    record = Recorder(run.events)
    mine, its = pty.openpty()
    text = b""
    with followed(run.path, out=its) as process:
        os.close(its)
        while b"best 1.25x over all sizes, 33.2 us at the largest (r1-c1)" not in text:
            text += os.read(mine, 65536)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
        assert (process.returncode, errors) == (0, "")
    record.close()
    os.close(mine)


def test_a_run_that_nobody_works_on_is_shown_at_once(command: Command, tmp_path: Path) -> None:
    run = write_run(tmp_path / "a-run")
    run.events.unlink()
    ran = command("trace", "show", run.path, "--follow")
    assert ran.stdout.startswith("run a-run · empty")
    assert ran.stderr == ""
