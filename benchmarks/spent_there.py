"""Where the time of a piece of work goes inside the process that holds the GPU."""

import cProfile
import pstats
from collections.abc import Awaitable, Callable
from typing import Any

WAITING = {"order": "runner", "receive_spinning": "kernels of timed batches"}
OPENING = (
    *("spares.py", "lodging.py", "sessions.py", "kept.py", "leaving.py", "process.py"),
    "arenas.py",
)
STAGING = ("stage.py", "contents.py", "distributions.py", "random_on_gpu.py", "sealing.py")
COMPARING = (
    *("verify.py", "columns.py", "compare.py", "buffers.py", "launch_on_gpu.py"),
    *("results.py", "oracle.py"),
)


async def profiled_there(
    site: Any, work: Callable[..., Awaitable[Any]], *arguments: Any
) -> tuple[Any, dict[str, float]]:
    """What `work` returns, and seconds by kind of work, each second counted once.

    Profiled work takes longer than it would: the shares are what counts.
    """
    profile = cProfile.Profile()
    profile.enable()
    try:
        result = await work(site, *arguments)
    finally:
        profile.disable()
    return result, by_kind(pstats.Stats(profile))


def by_kind(stats: pstats.Stats) -> dict[str, float]:
    """Own time of every function, added up by what its file, or its caller's, is there for."""
    spent: dict[str, float] = {}
    entries: dict[Any, Any] = stats.stats  # type: ignore[attr-defined]
    for (file, _line, name), (_calls, _primitive, own_s, _whole_s, callers) in entries.items():
        if file.startswith("~") or "/cuda_llm/" not in file:
            for (by_file, _by_line, by_name), (_c, _p, share_s, _w) in callers.items():
                kind = kind_of(by_file, by_name, name)
                spent[kind] = spent.get(kind, 0.0) + share_s
        else:
            kind = kind_of(file, name, name)
            spent[kind] = spent.get(kind, 0.0) + own_s
    return {kind: round(seconds, 4) for kind, seconds in spent.items() if seconds >= 5e-5}


def kind_of(file: str, function: str, called: str) -> str:
    """A word or two for what a function does."""
    base = file.rsplit("/", 1)[-1]
    if function in WAITING:
        return WAITING[function]
    if called in {"<method 'poll' of 'select.epoll' objects>", "select"}:
        return "waiting for runners"
    for files, kind in (
        (OPENING, "opening runners"),
        (STAGING, "drawing and sealing inputs"),
        (COMPARING, "expected values and comparison"),
    ):
        if base in files:
            return kind
    return "the rest of the referee"
