"""A command on a terminal of its own."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
LIMIT_S = 600.0
CTRL_C = b"\x03"


@dataclass
class Terminal:
    """A command on a terminal of its own."""

    process: int
    file: int
    written: str = ""
    code: int | None = None
    until_s: float = field(default_factory=lambda: time.monotonic() + LIMIT_S)

    @property
    def text(self) -> str:
        """All that was written, without what moves the cursor and colours it."""
        return CONTROL.sub("", self.written).replace("\r", "\n")

    def read_until(self, seen: Callable[[str], bool]) -> None:
        """Read on until the text holds that; fails the test where it ends before."""
        while not seen(self.text):
            assert self.read(), f"not seen: {self.text[-2000:]}"

    def read_to_end(self) -> None:
        while self.read():
            pass
        _, status = os.waitpid(self.process, 0)
        self.code = os.waitstatus_to_exitcode(status)

    def read(self) -> bool:
        """Read some; False at the end."""
        assert time.monotonic() < self.until_s, self.text[-2000:]
        if not select.select([self.file], [], [], 1.0)[0]:
            return True
        try:
            more = os.read(self.file, 65536)
        except OSError:
            return False
        self.written += more.decode(errors="replace")
        return bool(more)


@contextmanager
def on_terminal(cwd: Path, *arguments: object, **env: str) -> Iterator[Terminal]:
    """Run `cuda-llm` on a terminal of 100 columns."""
    process, file = pty.fork()
    if process == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.chdir(cwd)
        command = [sys.executable, "-P", "-m", "cuda_llm", *map(str, arguments)]
        os.execve(sys.executable, command, {**os.environ, "TERM": "xterm", **env})
    fcntl.ioctl(file, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    shown = Terminal(process, file)
    try:
        yield shown
    finally:
        if shown.code is None:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        os.close(file)
