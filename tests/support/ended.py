"""Whether a process has ended, asked without a race against its parent that reaps it."""

import time

import psutil


def has_ended(process: psutil.Process) -> bool:
    """Return whether a process runs no more, be it reaped already or still to be reaped."""
    try:
        return not process.is_running() or bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def ends_within(process: psutil.Process, limit_s: float) -> bool:
    """Return whether a process has ended at most `limit_s` seconds from now."""
    deadline = time.monotonic() + limit_s
    while not (ended := has_ended(process)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return ended
