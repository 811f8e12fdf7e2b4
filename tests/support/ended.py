"""Whether a process has ended and what one is called, asked without a race against its end."""

import asyncio
import time

import psutil


def has_ended(process: psutil.Process) -> bool:
    """Return whether a process runs no more, be it reaped already or still to be reaped."""
    try:
        return not process.is_running() or bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


async def kill(pid: int) -> None:
    """Kill a process, and return once the process has ended, however busy the machine is."""
    process = psutil.Process(pid)
    process.kill()
    while not has_ended(process):
        await asyncio.sleep(0.01)


def names_of_children() -> list[str]:
    """Return the names of all processes below this one that have not ended meanwhile."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            found.append(process.name())
        except psutil.NoSuchProcess:
            continue
    return found


def ends_within(process: psutil.Process, limit_s: float) -> bool:
    """Return whether a process has ended at most `limit_s` seconds from now."""
    deadline = time.monotonic() + limit_s
    while not (ended := has_ended(process)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return ended
