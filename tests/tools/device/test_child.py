"""A process ends with everything that it has started."""

import signal
import subprocess
import sys

import psutil
from ended import has_ended

from cuda_llm.tools.device.child import end_tree

PARENT = """
import subprocess, sys
detached = [sys.executable, "-c", "import time; time.sleep(600)"]
middle = "import subprocess, sys, time\\n"
middle += "subprocess.Popen(sys.argv[1:], start_new_session=True)\\n"
middle += "time.sleep(600)"
subprocess.Popen([sys.executable, "-c", middle, *detached], start_new_session=True)
print("started", flush=True)
sys.stdin.read()
"""


def started() -> "tuple[subprocess.Popen[bytes], list[psutil.Process]]":
    """A child of ours, and its descendants, in sessions of their own."""
    command = [sys.executable, "-c", PARENT]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"started\n"
    below: list[psutil.Process] = []
    while len(below) < 2:
        below = psutil.Process(child.pid).children(recursive=True)
    return child, below


def test_descendants_in_sessions_of_their_own_end_too_and_the_child_stays_to_be_reaped() -> None:
    child, below = started()
    assert end_tree(child.pid, 10) == ()
    assert child.wait(0) == -signal.SIGKILL
    assert all(map(has_ended, below))
    child.communicate()


def test_a_child_that_has_ended_is_left_as_it_is() -> None:
    child = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    psutil.Process(child.pid)
    while psutil.Process(child.pid).status() != psutil.STATUS_ZOMBIE:
        pass
    assert end_tree(child.pid, 10) == ()
    assert child.wait(0) == 3


def test_a_process_that_is_no_more_is_no_error() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert end_tree(child.pid, 1) == ()
