"""Where the time of a piece of work goes inside the process that holds the GPU."""

import cProfile
import pstats
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

Key: TypeAlias = tuple[str, int, str]
"""Of a profile: file, line, function."""
REST = "the rest of the referee"
ROOMS = ("cuda_llm", "tools", "tasks")
"""Folders whose code is ours; they are links to one another."""

WAITING = {"order": "runner", "receive_spinning": "kernels of timed batches"}
OPENING = (
    *("spares.py", "lodging.py", "sessions.py", "kept.py", "leaving.py", "process.py"),
    "arenas.py",
)
STAGING = ("stage.py", "contents.py", "distributions.py", "random_on_gpu.py", "sealing.py")
COMPARING = (
    *("verify.py", "columns.py", "compare.py", "buffers.py", "launch_on_gpu.py"),
    *("results.py", "oracle.py", "reference.py", "check_outputs.py"),
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
    """Own time of every function, added up by what it is there for.

    A library's function is there for those of ours that call it, through other libraries or not,
    in the shares in which they do.
    """
    entries: dict[Key, Any] = stats.stats  # type: ignore[attr-defined]
    known: dict[Key, Mapping[str, float]] = {}
    spent: dict[str, float] = {}
    for key, (_calls, _primitive, own_s, _whole_s, _callers) in entries.items():
        for kind, share in kinds_of(key, entries, known).items():
            spent[kind] = spent.get(kind, 0.0) + share * own_s
    return {kind: round(seconds, 4) for kind, seconds in spent.items() if seconds >= 5e-5}


def kinds_of(
    key: Key, entries: Mapping[Key, Any], known: dict[Key, Mapping[str, float]]
) -> Mapping[str, float]:
    """What a function is there for, in shares that add up to one."""
    if key in known:
        return known[key]
    known[key] = {REST: 1.0}  # for those that call each other in turns
    own = own_kind(key)
    known[key] = {own: 1.0} if own else shared_kinds(entries[key][4], entries, known)
    return known[key]


def shared_kinds(
    callers: Mapping[Key, Any], entries: Mapping[Key, Any], known: dict[Key, Mapping[str, float]]
) -> Mapping[str, float]:
    """By how long each caller has it work."""
    whole_s = sum(there_s for *_, there_s in callers.values())
    if not whole_s:
        return {REST: 1.0}
    shares: dict[str, float] = {}
    for caller, (*_, there_s) in callers.items():
        for kind, share in kinds_of(caller, entries, known).items():
            shares[kind] = shares.get(kind, 0.0) + share * there_s / whole_s
    return shares


def own_kind(key: Key) -> str:
    """A word or two for what a function of ours does; empty for one of a library."""
    file, _line, function = key
    base = file.rsplit("/", 1)[-1]
    if function in WAITING:
        return WAITING[function]
    if "select.epoll" in function or function == "select":
        return "waiting for runners"
    if not any(f"/{room}/" in file for room in ROOMS):
        return ""
    for files, kind in (
        (OPENING, "opening runners"),
        (STAGING, "drawing and sealing inputs"),
        (COMPARING, "expected values and comparison"),
    ):
        if base in files:
            return kind
    return REST
