"""Code of a user's ends in time, whatever it does meanwhile."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cuda_llm.errors import TaskError
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.new_task import skeleton, write_task
from cuda_llm.tasks.reference import load_reference
from cuda_llm.tasks.time_limit import Overdue, call_within

LIMIT_S = 0.1


def spin() -> None:
    while True:
        pass


def catch_all() -> None:
    """What it is told first it takes for an error of its own."""
    seen = False
    while True:
        try:
            spin()
        except BaseException:
            if seen:
                raise
            seen = True


def wait() -> None:
    time.sleep(3600)


@pytest.mark.parametrize("work", [spin, catch_all, wait])
def test_what_never_returns_is_ended(work: Callable[[], None]) -> None:
    with pytest.raises(Overdue):
        call_within(LIMIT_S, work)


def test_a_timer_of_the_callers_own_goes_on() -> None:
    rung: list[float] = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(time.monotonic()))
    begun_s = time.monotonic()
    own = signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(Overdue):
            call_within(LIMIT_S, wait)
        assert not rung
        while not rung and time.monotonic() < begun_s + 20:
            time.sleep(0.01)
        assert rung
        assert rung[0] - begun_s >= 0.3
    finally:
        signal.setitimer(signal.ITIMER_REAL, *own)
        signal.signal(signal.SIGALRM, before)


PROFILED = """
import cProfile, threading
from cuda_llm.tasks.time_limit import Overdue, call_within

def spin():
    while True:
        pass

def run():
    for work, limit_s in ((spin, 0.05), (int, 60.0)):
        try:
            call_within(limit_s, work)
        except Overdue:
            pass

thread = threading.Thread(target=run)
thread.start()
thread.join()
profile = cProfile.Profile()
profile.runcall(sum, [1, 2])
profile.runcall(run.__class__, run.__code__, {})
profile.runcall(lambda: sum(map(abs, range(3))))
print("done")
"""


def test_a_profiler_that_is_enabled_later_goes_on() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROFILED], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "done\n"


def test_in_another_thread_too_and_nobody_watches_on() -> None:
    """As in a run that a notebook starts."""
    ended: list[bool] = []

    def run() -> None:
        for work in (spin, catch_all):
            with pytest.raises(Overdue):
                call_within(LIMIT_S, work)
            ended.append(call_within(60.0, lambda: True))

    before = threading.active_count()
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert ended == [True, True]
    assert threading.active_count() == before


def test_what_waits_for_a_processor_has_longer_by_the_clock() -> None:
    """A sleep stands for other work that has the cores."""
    begun_s = time.monotonic()
    call_within(LIMIT_S, lambda: time.sleep(4 * LIMIT_S))
    assert time.monotonic() - begun_s >= 4 * LIMIT_S


def test_what_returns_in_time_returns_as_it_would() -> None:
    assert call_within(60.0, lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        call_within(60.0, lambda: 1 // 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "def reference(xp, *, x):\n    while True: pass\n",
            "reference: did not return within 0.3 s of processor time at {'n': 4}; make it end, "
            "or allow more by the setting reference_limit_s",
        ),
        ("while True: pass\n", "importing it takes longer than 0.3 s; make it end"),
    ],
)
def test_a_reference_that_never_returns_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    import numpy as np

    monkeypatch.setenv("CUDA_LLM_REFERENCE_LIMIT_S", "0.3")
    folder = write_task("mine", tmp_path, {**skeleton("mine"), "reference.py": text})
    with pytest.raises(TaskError) as caught:
        load_reference(load_task(folder)).compute(np, {"x": np.ones(4, np.float32)}, {"n": 4})
    assert f"reference.py: {message}" in str(caught.value)
