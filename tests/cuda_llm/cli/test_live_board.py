"""A run on a terminal: the board says what is true while it is, and Ctrl-C there ends the run."""

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

import psutil

from cuda_llm.tools.open_device import FIRST_USE

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


def test_each_verdict_and_the_best_so_far_are_shown_as_they_land(
    tmp_path: Path, orphans: Callable[[], list[psutil.Process]]
) -> None:
    order = ("run", "vector_add", "--device", "emulated", "--generator", "playbook")
    with on_terminal(
        tmp_path, *order, "--candidates", "2", "--rounds", "1", "--tune", "0"
    ) as shown:
        shown.read_to_end()
    assert shown.code == 0
    verdict = re.compile(r"^(r1-c\d)  ([\d.]+ m?us), ([\d.]+x)  \(", re.M)
    first = verdict.search(shown.text)
    assert first is not None
    best = f"round 1/1  best {first[2]} = {first[3]} baseline ({first[1]})  spent "
    places = [
        shown.text.find("round 1/1  no kernel has passed yet  spent "),
        first.start(),
        # The board is drawn again below the line of each verdict.
        shown.text.find(best, first.start()),
        shown.text.find("\nround 1/1: best "),
        shown.text.find("round 1/1, judging the winner once more  best "),
    ]
    assert -1 not in places
    assert places == sorted(places), "what stands there is true while it does"
    assert {found[1] for found in verdict.finditer(shown.text)} == {"r1-c1", "r1-c2"}
    assert orphans() == []


def test_the_first_build_is_on_the_board_while_it_goes_on_and_ctrl_c_ends_it(
    tmp_path: Path, orphans: Callable[[], list[psutil.Process]]
) -> None:
    cache = str(tmp_path / "cache")
    order = ("run", "vector_add", "--device", "emulated", "--generator", "playbook")
    with on_terminal(tmp_path, *order, CUDA_LLM_CACHE=cache) as shown:
        shown.read_until(lambda text: f"{FIRST_USE}  no kernel has passed yet" in text)
        os.write(shown.file, CTRL_C)
        shown.read_to_end()
    assert shown.code == 130
    assert "error: interrupted" in shown.text
    assert shown.text.count("Traceback") == 0
    assert orphans() == []
