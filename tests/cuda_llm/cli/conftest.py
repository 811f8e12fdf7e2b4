"""The real command, in a process that is watched for what it leaves behind, or in this one."""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from commands import Command, Ran

from cuda_llm.cli.app import run as main

PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture
def orphans() -> Iterator[Callable[[], list[psutil.Process]]]:
    """Make this process inherit orphans, so that nothing can hide by daemonising."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    before = set(psutil.Process().children(recursive=True))

    def left() -> list[psutil.Process]:
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            new = [p for p in psutil.Process().children(recursive=True) if p not in before]
            alive = [p for p in new if not reap(p)]
            if not alive:
                return []
            time.sleep(0.05)
        return alive

    yield left
    libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def reap(process: psutil.Process) -> bool:
    """Whether an orphan has ended; this process is its parent now and must bury it."""
    try:
        if process.status() != psutil.STATUS_ZOMBIE:
            return False
        os.waitpid(process.pid, os.WNOHANG)
    except (psutil.NoSuchProcess, ChildProcessError):
        pass
    return True


def children_cpu_s() -> float:
    """Processor time of all children that have been waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@pytest.fixture
def cuda_llm(tmp_path: Path, orphans: Callable[[], list[psutil.Process]]) -> Command:
    """Run `cuda-llm` with its own temporary folder; nothing may be left in it or running."""

    def run(
        *arguments: object,
        interrupt_after_s: float | None = None,
        interrupt_when: Callable[[], bool] | None = None,
        send: signal.Signals = signal.SIGINT,
        cwd: Path | None = None,
        **env: str,
    ) -> Ran:
        scratch = tmp_path / "tmp"
        scratch.mkdir(exist_ok=True)
        started, cpu_before_s = time.monotonic(), children_cpu_s()
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "cuda_llm", *map(str, arguments)],
            cwd=cwd or tmp_path,
            env={**os.environ, "TMPDIR": str(scratch), **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Whoever runs the tests in the background passes an ignored SIGINT on.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        if interrupt_after_s is not None:
            time.sleep(interrupt_after_s)
            process.send_signal(send)
        if interrupt_when is not None:
            while process.poll() is None and not interrupt_when():
                time.sleep(0.02)
            process.send_signal(send)
        stdout, stderr = process.communicate(timeout=120)
        wall_s = time.monotonic() - started
        assert orphans() == []
        if send == signal.SIGKILL:
            # Who is killed cannot tidy up; what may be left is empty.
            for left in scratch.iterdir():
                left.rmdir()
        assert list(scratch.iterdir()) == []
        cpu_s = children_cpu_s() - cpu_before_s
        return Ran(process.returncode, stdout, stderr, wall_s, cpu_s)

    return run


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Run a command in this process, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def answer(*arguments: object) -> Ran:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err, 0.0, 0.0)

    return answer


@pytest.fixture
def tidy_command(
    tmp_path: Path,
    command: Command,
    orphans: Callable[[], list[psutil.Process]],
    monkeypatch: pytest.MonkeyPatch,
) -> Command:
    """The same with its own temporary folder; nothing may be left in it or running."""
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))

    def answer(*arguments: object) -> Ran:
        ran = command(*arguments)
        assert orphans() == []
        assert list(scratch.iterdir()) == []
        return ran

    return answer
