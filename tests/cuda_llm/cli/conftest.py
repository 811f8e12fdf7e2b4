"""The real command, in a process that is watched for what it leaves behind, or in this one."""

import ctypes
import os
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
        deadline = time.monotonic() + 60
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


@pytest.fixture
def scratch(
    tmp_path_factory: pytest.TempPathFactory, orphans: Callable[[], list[psutil.Process]]
) -> Iterator[Path]:
    """The folder for temporary files of a command; the test fails where a file or a process is
    left in the end."""
    folder = tmp_path_factory.mktemp("scratch")
    yield folder
    assert orphans() == []
    assert list(folder.iterdir()) == []


@pytest.fixture
def command(
    scratch: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    """Run a command in this process, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))

    def answer(*arguments: object, **env: str) -> Ran:
        with pytest.MonkeyPatch.context() as during:
            for name, value in env.items():
                during.setenv(name, value)
            code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return answer


@pytest.fixture
def process(scratch: Path, tmp_path: Path) -> Command:
    """Run `cuda-llm` in a process of its own: for what only a process shows, such as its end by a
    signal, which it is sent as soon as `until` is true. Starting it takes a second of a core."""

    def answer(
        *arguments: object,
        until: Callable[[], bool] | None = None,
        send: signal.Signals = signal.SIGINT,
        **env: str,
    ) -> Ran:
        started = subprocess.Popen(
            [sys.executable, "-P", "-m", "cuda_llm", *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, "TMPDIR": str(scratch), **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Whoever runs the tests in the background passes an ignored SIGINT on.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        if until is not None:
            while started.poll() is None and not until():
                time.sleep(0.02)
            started.send_signal(send)
        # Some commands compile for seconds; a busy machine stretches them tenfold.
        stdout, stderr = started.communicate(timeout=240)
        if send == signal.SIGKILL:
            # Who is killed cannot tidy up; what may be left is empty.
            for left in scratch.iterdir():
                left.rmdir()
        return Ran(started.returncode, stdout, stderr)

    return answer
