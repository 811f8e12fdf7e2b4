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

from recorded_run import beginning, ending, kept, write_run

from cuda_llm.traces.event_log import Recorder

CLI = [sys.executable, "-m", "cuda_llm", "trace", "show"]


@contextmanager
def followed(
    run: Path, *options: str, out: int = subprocess.PIPE
) -> Iterator["subprocess.Popen[str]"]:
    """A process that follows the run."""
    process = subprocess.Popen(
        [*CLI, str(run), "--follow", *options], stdout=out, stderr=subprocess.PIPE, text=True
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
        assert process.wait(20) == 0


def test_every_event_is_a_line_of_json(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a-run", *beginning(), *ending())
    with followed(run.path, "--json") as process:
        out, err = process.communicate(timeout=30)
    found = [json.loads(line) for line in out.splitlines()]
    assert [one["kind"] for one in found] == [one.kind for one in (*beginning(), *ending())]
    assert found[-1]["best"] == "r2-c1"
    assert err == ""


def test_ctrl_c_ends_it_without_an_error(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a-run", *beginning())
    record = Recorder(run.events)
    with followed(run.path) as process:
        read_until(process, "r1-c1 ")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert (process.returncode, err) == (0, "")
    record.close()


def test_a_terminal_gets_a_board(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a-run", *beginning())
    record = Recorder(run.events)
    mine, its = pty.openpty()
    text = b""
    with followed(run.path, out=its) as process:
        os.close(its)
        while b"best 1.25x over all sizes, 33.2 us at the largest (r1-c1)" not in text:
            text += os.read(mine, 65536)
        record.close()
        while b"the run was killed after" not in text:
            text += os.read(mine, 65536)
        assert process.wait(20) == 0
    os.close(mine)


def test_a_run_that_nobody_works_on_is_shown_at_once(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a-run")
    run.events.unlink()
    with followed(run.path) as process:
        out, err = process.communicate(timeout=30)
    assert out.startswith("run a-run · empty")
    assert err == ""
