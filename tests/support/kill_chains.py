"""Chains of runs that are killed at random instants, and what became of their calls and events.

    PYTHONPATH=tests/support python tests/support/kill_chains.py KILLS RESULT.json [AIMED]

A model on loopback answers, plain or streamed; a table judges. Kills come a random time after the
process began, but for the share AIMED (0.5): those within milliseconds of an answer's last byte.
"""

import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil
from model_server import Answer, ModelServer, Request, Say
from run_processes import RunProcesses

from cuda_llm.agents.llm.preflight import PROBE
from cuda_llm.graph.runs.result import read_result
from cuda_llm.traces.event_line import content_of, identity_of
from cuda_llm.traces.run_folder import BODY, RunFolder

KILLS_A_CHAIN = 6
LONGEST_S = 0.9
WINDOW_S = 0.005
KERNEL = '```cuda\n// {0}\nint ok_{1}_{0};\nextern "C" void solve(float* A, int n) {{}}\n```'


@dataclass
class Tally:
    """What all chains came to."""

    chains: int = 0
    kills: int = 0
    kills_just_after_an_answer: int = 0
    unfinished: int = 0
    calls: int = 0
    asked_again: int = 0
    asked_again_though_on_disk: int = 0
    """The reply, or the body it is read from, was in the folder when the process was killed."""
    asked_again_though_sent: int = 0
    """The server had sent the last byte before the kill."""
    asked_again_though_read: int = 0
    """And the killed process had taken it from its connection."""
    sent_to_kill_ms: list[float] = field(default_factory=list)
    """From that byte to the kill, for each of those that were not read."""
    read_to_kill_ms: list[float] = field(default_factory=list)
    """And for each that was: what the time to read it and to write it down is part of."""
    found_as_body: int = 0
    """Kills that left an answer as it came, whose reply was still to be read."""
    events: int = 0
    events_lost: int = 0
    events_out_of_order: int = 0
    events_told_twice: int = 0
    events_replaced: int = 0
    """Told again in other words, and marked so."""
    left_running: int = 0


def answer(request: Request) -> Answer:
    """What depends on the prompt alone."""
    if PROBE in request.prompt:
        return Say("ready")
    number = sum(request.prompt.encode()) % 100_000
    return Say(KERNEL.format(number, 50 + number % 49), wait_s=0.03)


def run_chain(
    processes: RunProcesses, out: Path, chance: random.Random, aimed: float, tally: Tally
) -> None:
    """One run, killed so often and resumed, then left to end."""
    folder = RunFolder(out / "r")
    answered: dict[str, Answered] = {}
    trace = b""
    with ModelServer(answer) as server:
        order = {"stage_s": 0.01, "base_url": server.base_url, "out": str(out)}
        for number in range(KILLS_A_CHAIN + 1):
            do = "resume" if (folder.path / "run.json").exists() else "start"
            before = len(server.requests)
            child = processes.begin({"do": do, **order})
            left: list[psutil.Process] = []
            unread: set[int] = set()
            killed_s = time.monotonic()
            if number < KILLS_A_CHAIN:
                tally.kills_just_after_an_answer += wait_for_instant(server, chance, aimed)
                with suppress(psutil.NoSuchProcess, ProcessLookupError):
                    left = psutil.Process(child).children(recursive=True)
                    # A process that stands still reads no more: what it leaves unread can be seen.
                    os.kill(child, signal.SIGSTOP)
                    wait_until_stopped(child)
                    killed_s, unread = time.monotonic(), unread_ports()
                    os.kill(child, signal.SIGKILL)
            code = processes.ended()
            tally.left_running += sum(one.is_running() for one in left)
            tally.kills += code == -signal.SIGKILL
            count_repeats(server, before, answered, tally)
            if folder.path.exists():
                answered = at_kill(server, folder, before, killed_s, unread, tally)
            now = folder.events.read_bytes() if folder.events.exists() else b""
            tally.events_lost += not now.startswith(trace[: trace.rfind(b"\n") + 1])
            trace = now
            if code == 0 or (folder.events.exists() and read_result(folder).finished):
                break
    tally.chains += 1
    tally.calls += len({one.prompt for one in server.requests if PROBE not in one.prompt})
    tally.unfinished += not read_result(folder).finished
    count_events(trace, tally)


def wait_for_instant(server: ModelServer, chance: random.Random, aimed: float) -> bool:
    """Wait until the kill is due; True where that is just after an answer."""
    if chance.random() >= aimed:
        time.sleep(chance.uniform(0.0, LONGEST_S))
        return False
    probes, wanted = len(server.done_s), chance.randrange(2, 8)
    until_s = time.monotonic() + LONGEST_S
    while len(server.done_s) < probes + wanted and time.monotonic() < until_s:
        time.sleep(0.0002)
    time.sleep(chance.uniform(0.0, WINDOW_S))
    return True


def wait_until_stopped(process: int) -> None:
    """Wait until all threads of a process stand still, or it has ended."""
    stopped = {psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE}
    with suppress(FileNotFoundError):
        while {thread_state(one) for one in Path(f"/proc/{process}/task").iterdir()} - stopped:
            time.sleep(0.0001)


def thread_state(task: Path) -> str:
    """The state of a thread, as psutil names it; one that has gone is a zombie."""
    try:
        return psutil.Process(int(task.name)).status()
    except psutil.NoSuchProcess:
        return psutil.STATUS_ZOMBIE


def unread_ports() -> set[int]:
    """Ports of connections whose end here holds bytes that no process has read."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {int(row[1].partition(":")[2], 16) for row in rows if int(row[4].partition(":")[2], 16)}


@dataclass(frozen=True)
class Answered:
    """A request whose answer had been sent whole when the process was killed."""

    to_kill_ms: float
    is_read: bool
    is_on_disk: bool


def at_kill(
    server: ModelServer,
    folder: RunFolder,
    before: int,
    killed_s: float,
    unread: Container[int],
    tally: Tally,
) -> dict[str, Answered]:
    """What was answered whole, by prompt.

    What was answered to a process killed earlier, with a number up to `before`, came too late.
    """
    kept = [one for name in ("reply.json", BODY) for one in folder.path.rglob(name)]
    tally.found_as_body += any(
        one.name == BODY and not (one.parent / "reply.json").exists() for one in kept
    )
    prompts = [(one.parent / "prompt.md").read_text() for one in kept]
    found: dict[str, Answered] = {}
    for request in server.requests:
        text = str(request.body["messages"][-1]["content"]).rstrip()
        done_s = server.done_s.get(request.number, killed_s)
        if any(text in prompt for prompt in prompts):
            found[request.prompt] = Answered(0.0, is_read=True, is_on_disk=True)
        elif request.number > before and done_s < killed_s:
            is_read = request.port not in unread
            to_kill_ms = (killed_s - done_s) * 1e3
            found[request.prompt] = Answered(to_kill_ms, is_read=is_read, is_on_disk=False)
    return found


def count_repeats(
    server: ModelServer, before: int, answered: Mapping[str, Answered], tally: Tally
) -> None:
    """Count the requests since `before` whose prompt had come earlier."""
    earlier = {one.prompt for one in server.requests[:before]}
    for one in server.requests[before:]:
        if PROBE in one.prompt or one.prompt not in earlier:
            continue
        tally.asked_again += 1
        match answered.get(one.prompt):
            case Answered(is_on_disk=True):
                tally.asked_again_though_on_disk += 1
            case Answered(to_kill_ms=to_kill_ms, is_read=is_read):
                tally.asked_again_though_sent += 1
                tally.asked_again_though_read += is_read
                times_ms = tally.read_to_kill_ms if is_read else tally.sent_to_kill_ms
                times_ms.append(round(to_kill_ms, 2))


def count_events(trace: bytes, tally: Tally) -> None:
    """Check order and repetition of all lines."""
    lines: list[dict[str, Any]] = [json.loads(line) for line in trace.splitlines()]
    tally.events += len(lines)
    tally.events_out_of_order += sum(
        one["seq"] != number for number, one in enumerate(lines, start=1)
    )
    said: Counter[tuple[str, str]] = Counter()
    round_ = 0
    for one in lines:
        round_ = one["round"] if one["kind"] == "round_began" else round_
        key = identity_of(one, round_)
        tally.events_replaced += "again" in one
        if key is not None and "again" not in one:
            said[key, content_of(one)] += 1
    tally.events_told_twice += sum(times - 1 for times in said.values())


def main(kills: int, result: Path, aimed: float = 0.5) -> None:
    """Run chains until so many kills have come, half of the answers streamed."""
    chance, tally = random.Random(20261123), Tally()
    with tempfile.TemporaryDirectory() as place:
        for stream in ("0", "1"):
            os.environ["CUDA_LLM_MODEL_STREAM"] = stream
            with RunProcesses() as processes:
                with ModelServer(answer) as server:
                    order = {"stage_s": 0.0, "base_url": server.base_url}
                    processes.warm({"do": "start", "out": f"{place}/warm{stream}", **order})
                enough = kills if stream == "1" else kills // 2
                while tally.kills < enough:
                    out = Path(place) / str(tally.chains)
                    run_chain(processes, out, chance, aimed, tally)
                    result.write_text(json.dumps(asdict(tally), indent=1) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), *map(float, sys.argv[3:]))
