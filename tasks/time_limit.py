"""Code of a user's that is called in this process, and ended when it takes too long."""

import ctypes
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

REPEAT_S = 0.2
"""Seconds between two exceptions: code that catches the first exception gets another."""
MOST_WAIT = 8.0
"""Times the limit by the clock after which code ends that uses little processor time: the code
waits, or other work has the cores."""


SOON_S = 1e-3
STEPS = 1000
"""Python steps within which a pending exception is raised."""


class Overdue(BaseException):
    """Raised inside the code; no `Exception`, which the code may catch."""


def call_within(limit_s: float, work: Callable[[], T]) -> T:
    """Return the result of `work`. Raises Overdue where `work` takes more than `limit_s` seconds of
    processor time of its thread, or `MOST_WAIT` times as long by the clock.

    Python code is interrupted between two of its steps. In the main thread, waiting system calls
    are interrupted as well; in another thread, a waiting system call has to return first.
    """
    is_main = threading.current_thread() is threading.main_thread()
    with _by_signal(limit_s) if is_main else _by_thread(limit_s):
        return work()


def _deadline(limit_s: float) -> Callable[[], bool]:
    """Return a function, for any thread to call, that says whether the limit of the calling thread
    is reached from now on."""
    clock = time.pthread_getcpuclockid(threading.get_ident())
    ends_cpu_s = time.clock_gettime(clock) + limit_s
    ends_s = time.monotonic() + MOST_WAIT * limit_s
    return lambda: time.clock_gettime(clock) >= ends_cpu_s or time.monotonic() >= ends_s


@contextmanager
def _by_signal(limit_s: float) -> Iterator[None]:
    armed, is_overdue = True, _deadline(limit_s)

    def end(_number: int, _frame: FrameType | None) -> None:
        if armed and is_overdue():
            raise Overdue

    before, begun_s = signal.signal(signal.SIGALRM, end), time.monotonic()
    left_s, every_s = signal.setitimer(signal.ITIMER_REAL, limit_s, REPEAT_S)
    try:
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left_s:
            # The caller's own timer goes on.
            left_s = max(left_s - (time.monotonic() - begun_s), SOON_S)
            signal.setitimer(signal.ITIMER_REAL, left_s, every_s)


@contextmanager
def _by_thread(limit_s: float) -> Iterator[None]:
    worker, done, raised = ctypes.c_ulong(threading.get_ident()), threading.Event(), False
    is_overdue = _deadline(limit_s)

    def watch() -> None:
        nonlocal raised
        wait_s = limit_s
        while not done.wait(wait_s):
            if is_overdue():
                raised = True
                ctypes.pythonapi.PyThreadState_SetAsyncExc(worker, ctypes.py_object(Overdue))
            wait_s = REPEAT_S

    watcher = threading.Thread(target=watch, name="time limit", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        while not done.is_set():
            with suppress(Overdue):
                done.set()
        watcher.join()
        if raised:
            _take_pending()


def _take_pending() -> None:
    """Let a pending exception be raised here.

    Cancelling it by PyThreadState_SetAsyncExc(thread, NULL) leaves CPython 3.11 looking for an
    exception at each step, and a profiler that is enabled later never continues.
    """
    with suppress(Overdue):
        for _ in range(STEPS):
            pass
