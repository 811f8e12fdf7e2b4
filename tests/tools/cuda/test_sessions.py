"""Sessions with a runner that has no GPU: what is placed arrives, what comes back is judged."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import psutil
import pytest
from ended import has_ended

from cuda_llm.errors import InfrastructureError
from cuda_llm.outcomes import (
    ExceededLimit,
    HostCrashed,
    IllegalAccess,
    LaunchFailed,
    LaunchShape,
    LoadFailed,
    OutOfMemory,
    PolicyViolation,
    TimedOut,
    Verdict,
)
from cuda_llm.tools.cuda.sessions import Sessions
from cuda_llm.tools.cuda.timed_session import GpuTimedSession
from cuda_llm.tools.device import Argument, CallOptions, CallReport, Level, Scalar, TimedSession
from cuda_llm.tools.device.buffers import BufferSpec, Role
from cuda_llm.tools.device.candidate import Compiled

SOURCE = Path(__file__).parents[2] / "fixtures" / "gpu_runner" / "obedient.cpp"
MODES = re.findall(r"\w+", SOURCE.read_text().partition("enum Mode {")[2].partition("}")[0])
COUNT = 1000
T = TypeVar("T")
Opened = Callable[..., AbstractAsyncContextManager[Sessions]]


def buffers(count: int = COUNT) -> list[BufferSpec]:
    return [
        BufferSpec(name="x", role=Role.IN, dtype="float32", shape=(count,)),
        BufferSpec(name="y", role=Role.OUT, dtype="float32", shape=(count,)),
    ]


def arguments(mode: str, count: int = COUNT) -> list[Argument]:
    scalars = (count, MODES.index(mode))
    return ["x", "y", *(Scalar(value=value, ctype="int") for value in scalars)]


def within(
    opened: Opened, candidate: Compiled, use: Callable[[GpuTimedSession], Awaitable[T]]
) -> T:
    """Use one session."""

    async def run() -> T:
        async with opened() as sessions, sessions.open(candidate) as session:
            assert isinstance(session, GpuTimedSession), session
            return await use(session)

    return asyncio.run(run())


def call(
    opened: Opened, candidate: Compiled, mode: str, limit_s: float = 10.0
) -> CallReport | Verdict:
    async def use(session: GpuTimedSession) -> CallReport | Verdict:
        session.place(buffers())
        outcome = await session.call(arguments(mode), CallOptions(limit_s=limit_s))
        if not isinstance(outcome, CallReport):
            assert await session.call(arguments("good"), CallOptions()) is outcome
        return outcome

    return within(opened, candidate, use)


def test_a_call_sees_what_was_placed_and_its_guards_stay(
    open_sessions: Opened, candidate: Compiled
) -> None:
    async def use(session: GpuTimedSession) -> CallReport | Verdict:
        assert isinstance(session, TimedSession)
        placed = session.place(buffers())
        placed["x"].data[...] = range(COUNT)
        for one in placed.values():
            one.guard_before[...] = one.guard_after[...] = 0xA5
        report = await session.call(arguments("good"), CallOptions(level=Level.FULL))
        assert list(placed["y"].data) == [i + 1 for i in range(COUNT)]
        for one in placed.values():
            assert (one.guard_before == 0xA5).all()
            assert (one.guard_after == 0xA5).all()
        return report

    report = within(open_sessions, candidate, use)
    assert isinstance(report, CallReport)
    assert [(one.kernel, one.grid[0], one.block[0]) for one in report.launches] == [
        ("adds", 8, 128)
    ]
    assert report.notes["launches"] == "1"


VIOLATIONS = {
    "deny": "syscall",
    "forbid": "host-copy",
    "touch_device": "host-touches-device-memory",
    "babble": "runner-protocol",
    "forge_denied": "syscall",
    "forge_forbidden": "runner-protocol",
    "forge_broken": "runner-protocol",
    "forge_part": "runner-protocol",
}
"""The rule that each mode of the candidate violates."""


@pytest.mark.parametrize("mode", VIOLATIONS)
def test_a_violation_names_its_rule_and_repeats_nothing_that_a_candidate_wrote(
    open_sessions: Opened, candidate: Compiled, mode: str
) -> None:
    verdict = call(open_sessions, candidate, mode)
    assert isinstance(verdict, PolicyViolation)
    assert verdict.rule == VIOLATIONS[mode]
    assert "ignore the above" not in repr(verdict)


@pytest.mark.parametrize(
    ("mode", "verdict"),
    [
        ("fault", IllegalAccess),
        ("crash", HostCrashed),
        ("leave", HostCrashed),
        ("segfault", HostCrashed),
        ("refuse", LaunchFailed),
        ("exhaust", OutOfMemory),
    ],
)
def test_an_ending_has_its_verdict_and_every_later_call_the_same(
    open_sessions: Opened, candidate: Compiled, mode: str, verdict: type[Verdict]
) -> None:
    assert isinstance(call(open_sessions, candidate, mode), verdict)


def test_a_host_part_that_does_not_return_is_timed_out(
    open_sessions: Opened, candidate: Compiled
) -> None:
    verdict = call(open_sessions, candidate, "hang", limit_s=0.2)
    assert isinstance(verdict, TimedOut)
    assert (verdict.stage, verdict.limit_s) == ("host", 0.2)


def test_a_kernel_that_does_not_end_is_named_with_what_may_hold_it_up(
    open_sessions: Opened, candidate: Compiled
) -> None:
    verdict = call(open_sessions, candidate, "crowd", limit_s=0.2)
    assert isinstance(verdict, TimedOut)
    assert verdict.stage == "kernel"
    assert (verdict.kernel, verdict.crowded) == ("adds", True)


def test_a_reply_that_nobody_asked_for_is_seen_at_the_next_call(
    open_sessions: Opened, candidate: Compiled
) -> None:
    async def use(session: GpuTimedSession) -> tuple[object, object]:
        session.place(buffers())
        first = await session.call(arguments("forge"), CallOptions())
        await asyncio.sleep(0.1)
        return first, await session.call(arguments("good"), CallOptions())

    first, second = within(open_sessions, candidate, use)
    assert isinstance(first, CallReport)
    assert isinstance(second, PolicyViolation)


def test_a_library_that_cannot_be_loaded_is_a_verdict(
    open_sessions: Opened, candidate: Compiled
) -> None:
    async def run() -> object:
        missing = replace(candidate, library=Path("/no/such.so"))
        async with open_sessions() as sessions, sessions.open(missing) as session:
            return session

    assert asyncio.run(run()) == LoadFailed(fault="linker", detail="cannot open shared object file")


def test_two_sessions_at_once_have_memory_of_their_own(
    open_sessions: Opened, candidate: Compiled
) -> None:
    async def run() -> tuple[float, float]:
        async with (
            open_sessions() as sessions,
            sessions.open(candidate) as one,
            sessions.open(candidate) as other,
        ):
            assert isinstance(one, GpuTimedSession)
            assert isinstance(other, GpuTimedSession)
            first, second = one.place(buffers()), other.place(buffers())
            first["x"].data[...], second["x"].data[...] = 1, 5
            await one.call(arguments("good"), CallOptions())
            await other.call(arguments("good"), CallOptions())
            return float(first["y"].data[0]), float(second["y"].data[0])

    assert asyncio.run(run()) == (2, 6)


def test_sessions_leave_no_process_behind(open_sessions: Opened, candidate: Compiled) -> None:
    before = set(psutil.Process().children(recursive=True))

    async def run() -> set[psutil.Process]:
        async with open_sessions() as sessions:
            async with sessions.open(candidate) as session:
                assert isinstance(session, GpuTimedSession)
                session.place(buffers())
                await session.call(arguments("hang"), CallOptions(limit_s=0.1))
            return set(psutil.Process().children(recursive=True)) - before

    seen = asyncio.run(run())
    assert seen, "there were spares"
    assert all(map(has_ended, seen))


@pytest.mark.parametrize("device", ["dead"])
def test_runners_that_never_come_up_are_our_failure(
    open_sessions: Opened, candidate: Compiled, device: str
) -> None:
    async def run() -> None:
        async with open_sessions(device=device) as sessions, sessions.open(candidate):
            pass

    with pytest.raises(InfrastructureError, match="no context"):
        asyncio.run(run())


def test_a_runner_that_dies_while_it_loads_is_told(
    open_sessions: Opened, candidate: Compiled
) -> None:
    async def run() -> object:
        async with (
            open_sessions(device="late") as sessions,
            sessions.open(candidate) as session,
        ):
            return session

    verdict = asyncio.run(run())
    assert isinstance(verdict, HostCrashed)
    assert verdict.status == 5


def test_a_refused_launch_names_its_kernel(open_sessions: Opened, candidate: Compiled) -> None:
    assert call(open_sessions, candidate, "refuse") == LaunchFailed(
        kernel="adds",
        error="cudaErrorLaunchOutOfResources",
        limit=ExceededLimit(name="registers", asked=131072, allowed=65536),
        launch=LaunchShape(grid=(8, 1, 1), block=(1024, 1, 1)),
    )
