"""A tool runs with a deadline, inherits nothing, and leaves nothing behind."""

import asyncio
import os
from pathlib import Path

import psutil
import pytest

from cuda_llm.errors import InfrastructureError
from cuda_llm.tools.cuda.vendor_tools import ToolRun, run_untrusted


def run(script: str, folder: Path, wall_s: float = 20.0, **environment: str) -> ToolRun:
    command = ["/bin/sh", "-c", script]
    return asyncio.run(run_untrusted(command, folder, wall_s=wall_s, environment=environment))


def test_output_and_exit_code_are_kept(tmp_path: Path) -> None:
    done = run("echo out; echo err >&2; exit 5", tmp_path)
    assert (done.exit_code, done.output, done.timed_out) == (5, "out\nerr\n", False)


def test_nothing_is_inherited_but_where_the_driver_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "x")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere")
    names = run("env | cut -d= -f1; pwd", tmp_path, MORE="1").output.split()
    assert "SECRET" not in names
    assert {"LD_LIBRARY_PATH", "MORE", "HOME", "TMPDIR"} <= set(names)
    assert names[-1] == str(tmp_path)


def test_a_process_that_does_not_end_is_ended_with_all_it_started(tmp_path: Path) -> None:
    done = run("trap '' TERM; setsid sleep 61.5 & echo up; sleep 61.5", tmp_path, wall_s=1.0)
    assert done.timed_out
    assert "up" in done.output
    if not done.missing:
        assert not [one for one in psutil.process_iter(["cmdline"]) if is_left(one)]


def is_left(process: psutil.Process) -> bool:
    return bool(process.info["cmdline"] == ["sleep", "61.5"])


def test_it_says_what_it_was_not_granted(tmp_path: Path) -> None:
    done = run("readlink /proc/self/ns/net", tmp_path)
    shared = done.output.strip() == str(Path("/proc/self/ns/net").readlink())
    assert shared == any("namespaces" in lack for lack in done.missing)


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    run("true", tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    run("true", tmp_path)
    with pytest.raises(InfrastructureError):
        run("true", tmp_path / "missing")
    assert len(os.listdir("/proc/self/fd")) == before
