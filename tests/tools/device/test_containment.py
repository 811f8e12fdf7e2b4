"""Whatever the host part of a candidate does, it ends in a value and leaves nothing behind."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypeVar

import psutil
import pytest
from ended import ends_within

from cuda_llm.tools.device import Scalar
from cuda_llm.tools.device.arguments import put_arguments
from cuda_llm.tools.device.protocol import FAULT_STATUS, CallFrame, ReplyFrame, RunnerReply
from cuda_llm.tools.device.runner import Runner, RunnerEnded, UnexpectedReply

SOURCE = Path(__file__).parents[2] / "fixtures" / "runner" / "hostile.cpp"
MODES = re.findall(r'"([^"]+)"', SOURCE.read_text().partition("kModes")[2].partition("}")[0])
LIMIT_S = 20.0

T = TypeVar("T")
Outcome = ReplyFrame | RunnerEnded | UnexpectedReply
Start = Callable[[Path], AbstractAsyncContextManager[Runner]]


def call_frame(mode: str, sequence: int = 7) -> CallFrame:
    frame = CallFrame(sequence=sequence, level=0, fuel=1 << 40, buffer_count=1)
    put_arguments(frame, ["x", Scalar(value=MODES.index(mode), ctype="int")], {"x": 4096})
    frame.buffers[0].offset = 4096
    frame.buffers[0].bytes = 4096
    return frame


def behave(start: Start, hostile: Path, mode: str, limit_s: float = LIMIT_S) -> Outcome:
    """Call the candidate once in its mode; check that its process is gone afterwards."""

    async def run() -> tuple[tuple[int, ...], Outcome]:
        async with start(hostile) as runner:
            return runner.pids, await runner.exchange(call_frame(mode), limit_s)

    pids, outcome = asyncio.run(run())
    assert not any(map(psutil.pid_exists, pids))
    return outcome


@pytest.mark.parametrize("mode", ["nothing", "flood"])
def test_a_call_that_returns_is_done(start_runner: Start, hostile: Path, mode: str) -> None:
    outcome = behave(start_runner, hostile, mode)
    assert isinstance(outcome, ReplyFrame)
    assert (outcome.reply, outcome.sequence) == (RunnerReply.DONE, 7)


@pytest.mark.parametrize(
    ("mode", "number"),
    [
        ("null", signal.SIGSEGV),
        ("stack", signal.SIGSEGV),
        ("abort", signal.SIGABRT),
        ("throw", signal.SIGABRT),
        ("hog", signal.SIGABRT),
        ("divide", signal.SIGFPE),
        ("illegal", signal.SIGILL),
    ],
)
def test_a_crash_names_its_signal(
    start_runner: Start, hostile: Path, mode: str, number: signal.Signals
) -> None:
    outcome = behave(start_runner, hostile, mode)
    assert isinstance(outcome, RunnerEnded)
    assert outcome.final_reply is not None
    assert (outcome.final_reply.reply, outcome.final_reply.number) == (RunnerReply.DIED, number)


@pytest.mark.parametrize(
    ("mode", "call"),
    [
        ("open", "openat"),
        ("write-file", "openat"),
        ("unlink", "unlinkat"),
        ("socket", "socket"),
        ("fork", "clone"),
        ("thread", "clone"),
        ("exec", "execve"),
        ("kill-other", "kill"),
        ("ptrace", "ptrace"),
        ("prctl", "prctl"),
        ("memfd", "memfd_create"),
        ("executable", "mmap"),
    ],
)
def test_a_forbidden_system_call_is_named(
    start_runner: Start, hostile: Path, mode: str, call: str
) -> None:
    outcome = behave(start_runner, hostile, mode)
    assert isinstance(outcome, RunnerEnded)
    assert outcome.final_reply is not None
    assert (outcome.final_reply.reply, outcome.final_reply.text) == (RunnerReply.DENIED, call)


@pytest.mark.parametrize("mode", ["loop", "sleep"])
def test_a_call_out_of_time_is_ended(start_runner: Start, hostile: Path, mode: str) -> None:
    outcome = behave(start_runner, hostile, mode, limit_s=0.3)
    assert isinstance(outcome, RunnerEnded)
    assert outcome.expired


def test_touching_device_memory_is_a_fault(start_runner: Start, hostile: Path) -> None:
    outcome = behave(start_runner, hostile, "device")
    assert isinstance(outcome, RunnerEnded)
    assert outcome.status == FAULT_STATUS


def test_exiting_tells_its_status(start_runner: Start, hostile: Path) -> None:
    outcome = behave(start_runner, hostile, "exit")
    assert isinstance(outcome, RunnerEnded)
    assert (outcome.status, outcome.final_reply) == (3, None)


def test_hanging_up_ends_the_runner(start_runner: Start, hostile: Path) -> None:
    outcome = behave(start_runner, hostile, "close-all")
    assert isinstance(outcome, RunnerEnded)
    assert (outcome.final_reply, outcome.expired) == (None, False)


def test_a_forged_reply_is_no_reply(start_runner: Start, hostile: Path) -> None:
    assert isinstance(behave(start_runner, hostile, "forge"), UnexpectedReply)


@pytest.mark.parametrize("mode", ["forge-broken", "forge-refused", "forge-request"])
def test_words_that_only_our_code_may_send_are_no_reply_from_a_candidate(
    start_runner: Start, hostile: Path, mode: str
) -> None:
    assert isinstance(behave(start_runner, hostile, mode), UnexpectedReply)


@pytest.mark.parametrize(
    ("mode", "reply", "text"),
    [("forge-denied", RunnerReply.DENIED, "socket"), ("forge-crash", RunnerReply.DIED, "")],
)
def test_the_text_of_a_forged_end_is_dropped(
    start_runner: Start, hostile: Path, mode: str, reply: RunnerReply, text: str
) -> None:
    outcome = behave(start_runner, hostile, mode)
    assert isinstance(outcome, RunnerEnded)
    assert outcome.final_reply is not None
    assert (outcome.final_reply.reply, outcome.final_reply.text) == (reply, text)


def test_a_forged_reply_of_the_right_number_is_seen_at_the_next_call(
    start_runner: Start, hostile: Path
) -> None:
    async def run() -> tuple[Outcome, Outcome]:
        async with start_runner(hostile) as runner:
            first = await runner.exchange(call_frame("forge", sequence=0), LIMIT_S)
            await asyncio.sleep(0.2)
            return first, await runner.exchange(call_frame("nothing"), LIMIT_S)

    first, second = asyncio.run(run())
    assert isinstance(first, ReplyFrame)
    assert isinstance(second, UnexpectedReply)


def closed_to_us(entry: Path) -> bool:
    """Whether we are an ordinary user, who may not look into a runner any more than others may."""
    if os.geteuid() == 0:
        return False
    with pytest.raises(PermissionError):
        list(entry.iterdir()) if entry.is_dir() else entry.read_text()
    return True


@pytest.mark.parametrize(("part", "sockets"), [(0, 2), (1, 1)], ids=["device", "host"])
def test_a_part_has_no_environment_no_folder_and_no_descriptor_of_ours(
    start_runner: Start, hostile: Path, tmp_path: Path, part: int, sockets: int
) -> None:
    async def run() -> tuple[bytes, str, list[str]] | None:
        async with start_runner(hostile) as runner:
            process = Path(f"/proc/{runner.pids[part]}")
            if closed_to_us(process / "fd"):
                return None
            links = [str(link.readlink()) for link in (process / "fd").iterdir()]
            folder = str((process / "cwd").readlink())
            return (process / "environ").read_bytes(), folder, links

    with (tmp_path / "secret").open("w"):
        seen = asyncio.run(run())
    if seen is None:
        return
    environment, folder, links = seen
    assert environment == b""
    assert folder.endswith(" (deleted)")
    assert sorted(links)[:3] == ["/dev/null"] * 3
    assert [link.partition(":")[0] for link in sorted(links)[3:]] == ["socket"] * sockets


def test_the_host_part_maps_neither_arena_nor_report_nor_kernels(
    start_runner: Start, hostile: Path
) -> None:
    async def run() -> tuple[str, str] | None:
        async with start_runner(hostile) as runner:
            if closed_to_us(Path(f"/proc/{runner.pids[0]}/maps")):
                return None
            device, host = (Path(f"/proc/{pid}/maps").read_text() for pid in runner.pids)
            return device, host

    seen = asyncio.run(run())
    if seen is None:
        return
    device, host = seen
    for name in ("test-arena", "test-report", "libemulator.so", "kernels.so"):
        assert name in device
        assert name not in host
    assert "hostile.so" in host
    assert "hostile.so" not in device


@pytest.mark.parametrize("part", [0, 1], ids=["device", "host"])
def test_a_part_is_confined_before_anything_is_called(
    start_runner: Start, hostile: Path, part: int
) -> None:
    async def run() -> str:
        async with start_runner(hostile) as runner:
            return Path(f"/proc/{runner.pids[part]}/status").read_text()

    status = asyncio.run(run())
    assert "NoNewPrivs:\t1" in status
    assert "Seccomp:\t2" in status
    assert "CapEff:\t0000000000000000" in status


ORCHESTRATOR = """
import os, time
from pathlib import Path
from cuda_llm.tools.emulator.device import Libraries, runner_program, start_emulated_runner
arena, report = os.memfd_create("a"), os.memfd_create("r")
x = Path("x")
libraries = Libraries(emulator=x, kernels=x, cudart=x, candidate=x)
print(*start_emulated_runner(runner_program(), libraries, arena, report).pids, flush=True)
time.sleep(60)
"""


def test_a_runner_dies_with_its_orchestrator() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ORCHESTRATOR], stdout=subprocess.PIPE, text=True
    ) as orchestrator:
        assert orchestrator.stdout is not None
        device, host = map(int, orchestrator.stdout.readline().split())
        parts = [psutil.Process(device)]
        with contextlib.suppress(psutil.NoSuchProcess):
            # Without its library the host part may have ended already.
            parts.append(psutil.Process(host))
        orchestrator.kill()
    assert all(ends_within(one, limit_s=30) for one in parts)
