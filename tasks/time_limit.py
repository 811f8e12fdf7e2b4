"""Code of a user's that is called in this process, and ended when it takes too long."""

import ctypes
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

REPEAT_S = 0.2
"""Between two exceptions: code that catches the first gets another one."""


class Overdue(BaseException):
    """Raised inside the code; no `Exception`, which the code may catch."""


def call_within(limit_s: float, work: Callable[[], T]) -> T:
    """Return what `work` returns. Raises Overdue where it takes longer.

    Python code is ended between two of its steps. In the main thread that holds for whatever waits
    as well; in another thread what waits in the system is ended when it comes back.
    """
    is_main = threading.current_thread() is threading.main_thread()
    with _by_signal(limit_s) if is_main else _by_thread(limit_s):
        return work()


@contextmanager
def _by_signal(limit_s: float) -> Iterator[None]:
    armed = True

    def end(_number: int, _frame: FrameType | None) -> None:
        if armed:
            raise Overdue

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, limit_s, REPEAT_S)
    try:
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _by_thread(limit_s: float) -> Iterator[None]:
    worker, done, lock = ctypes.c_ulong(threading.get_ident()), threading.Event(), threading.Lock()
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc

    def watch() -> None:
        wait_s = limit_s
        while not done.wait(wait_s):
            with lock:
                if not done.is_set():
                    raise_in(worker, ctypes.py_object(Overdue))
            wait_s = REPEAT_S

    watcher = threading.Thread(target=watch, name="time limit", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        with lock:
            # One that has not been raised yet is taken back.
            raise_in(worker, None)
        watcher.join()
