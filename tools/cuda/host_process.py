"""The host process of a GPU as its orchestrator holds it: started, and ended with all it
started.
"""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cuda_llm.errors import InfrastructureError
from cuda_llm.log import Log, level_for_children
from cuda_llm.log_setup import RecordPipe
from cuda_llm.redaction import names_a_secret
from cuda_llm.tools.cuda.messages import OpenSite, encode


def end_tree(pid: int, limit_s: float) -> tuple[int, ...]:
    """Kill a child of ours and all its descendants; those that are not gone after `limit_s`.

    The child is stopped first, so that it starts nothing more while its descendants are looked up.
    It stays to be reaped.
    """
    import psutil

    with contextlib.ExitStack() as stack:
        ending: dict[int, int] = {}
        with contextlib.suppress(psutil.NoSuchProcess):
            top = psutil.Process(pid)
            top.suspend()
            for one in (*top.children(recursive=True), top):
                with contextlib.suppress(ProcessLookupError):
                    # Not psutil's own wait: a zombie that nobody reaps counts as gone here, and
                    # our child's status is left to who started it.
                    descriptor = os.pidfd_open(one.pid)
                    stack.callback(os.close, descriptor)
                    if one.is_running():
                        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                        ending[descriptor] = one.pid
        return tuple(_outlast(ending, limit_s))


def _outlast(ending: dict[int, int], limit_s: float) -> Iterator[int]:
    """Wait until the processes are gone: a descriptor of one that has ended can be read."""
    deadline = time.monotonic() + limit_s
    waiting = select.poll()
    for descriptor in ending:
        waiting.register(descriptor, select.POLLIN)
    remaining = set(ending)
    while remaining and (left_s := deadline - time.monotonic()) > 0:
        for descriptor, _ in waiting.poll(left_s * 1e3):
            waiting.unregister(descriptor)
            remaining.discard(descriptor)
    return (ending[descriptor] for descriptor in remaining)


REAP_S = 10.0
"""What is killed and not gone by then does not go: the driver holds on to it."""
CLOSE_S = 2.0
"""How long a referee may take to close its site when it is no longer needed."""
_LAST_WORDS_BYTES = 4096
_DYING_S = 0.5
_log = Log(__name__)


@dataclass(frozen=True)
class HostProcess:
    """What we hold of a referee that runs."""

    process: "subprocess.Popen[bytes]"
    connection: socket.socket
    lifeline: int
    """The referee dies when this is closed."""
    stderr: int
    records: RecordPipe

    def describe_end(self) -> str:
        """The last line the process wrote, or how it ended."""
        size = os.fstat(self.stderr).st_size
        tail = os.pread(self.stderr, _LAST_WORDS_BYTES, max(0, size - _LAST_WORDS_BYTES))
        lines = tail.decode(errors="replace").strip().splitlines()
        try:
            # A dying process lets go of its socket a moment before it is gone.
            ended = f"it ended with status {self.process.wait(_DYING_S)}"
        except subprocess.TimeoutExpired:
            ended = "it hung up"
        return f"{ended}: {lines[-1]}" if lines else ended

    def kill(self) -> tuple[int, ...]:
        """End it and everything below it; the processes that do not go within ten seconds."""
        left = end_tree(self.process.pid, REAP_S)
        _log.info("referee is killed", pid=self.process.pid, left=list(left))
        self._release_all()
        return left

    def close(self) -> None:
        """Let it close its site and go; kill it where it does not, or is in the middle of work."""
        self.connection.close()
        try:
            self.process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            end_tree(self.process.pid, REAP_S)
        _log.info("referee has ended", pid=self.process.pid, status=self.process.poll())
        self._release_all()

    def _release_all(self) -> None:
        self.connection.close()
        for descriptor in (self.lifeline, self.stderr):
            os.close(descriptor)
        try:
            self.process.wait(0.1)
        except subprocess.TimeoutExpired:
            # Popen would complain of a process that nobody has waited for; init will.
            self.process.returncode = -9
        self.records.join()


def start_host(opening: OpenSite) -> HostProcess:
    """Start a referee that opens a site; it says when it has.

    Its own session keeps a Ctrl-C at the terminal from it: we decide when it ends. Raises
    InfrastructureError where it cannot be started.
    """
    ours, theirs = socket.socketpair()
    near, far = os.pipe()
    stderr = os.memfd_create("cuda-llm-referee", os.MFD_CLOEXEC)
    records = RecordPipe()
    program = [sys.executable, "-P", "-m", "cuda_llm.tools.cuda.host"]
    try:
        process = subprocess.Popen(
            [*program, *map(str, (theirs.fileno(), near, records.sink, level_for_children()))],
            env={**without_secrets(os.environ), **opening.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            pass_fds=(theirs.fileno(), near, records.sink),
            start_new_session=True,
        )
    except OSError as error:
        ours.close()
        os.close(far)
        os.close(stderr)
        raise InfrastructureError("referee", f"cannot be started: {error}") from error
    finally:
        theirs.close()
        os.close(near)
        records.begin()
    _log.info("referee is started", pid=process.pid)
    ours.sendall(encode(opening))
    ours.setblocking(False)
    return HostProcess(process, ours, far, stderr, records)


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """All but what looks like a secret: a referee needs none, and runners live beside it."""
    return {name: value for name, value in environment.items() if not names_a_secret(name)}


def close_at_exit(owner: object, held: HostProcess) -> "weakref.finalize[[], object]":
    """Have the referee closed when `owner` is gone or Python ends, unless detached before."""
    return weakref.finalize(owner, held.close)
