"""A run is killed at any moment and resumed: nothing is lost, nothing is paid for twice."""

import hashlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from model_server import Answer, ModelServer, Request, Say
from run_processes import RunProcesses
from run_starts import events, the_run

from cuda_llm.agents.llm.preflight import PROBE
from cuda_llm.graph.runs.result import read_result
from cuda_llm.traces.event_line import identity_of
from cuda_llm.traces.events import ModelRetried
from cuda_llm.traces.run_folder import RunFolder

STAGE_S = 0.02
ANSWER_S = 0.04
GAP_S = 0.02
"""Events are rarely farther apart."""
KERNEL = """```cuda
// {number}
int {what}_{number};
extern "C" void solve(const float* A, const float* B, float* C, int n) {{}}
```"""


def answer(request: Request) -> Answer:
    """What depends on the prompt alone, whenever and however often it is asked."""
    if PROBE in request.prompt:
        return Say("ready")
    number = int(hashlib.sha256(request.prompt.encode()).hexdigest()[:6], 16)
    what = ("wrong", "broken", *(f"ok_{50 + number % 49}",) * 4)[number % 6]
    return Say(KERNEL.format(what=what, number=number), wait_s=ANSWER_S)


def asked(server: ModelServer) -> Counter[str]:
    """How often each prompt came, probes aside."""
    return Counter(one.prompt for one in server.requests if PROBE not in one.prompt)


def calls(run: RunFolder) -> dict[str, bool]:
    """Every call that was begun, and whether its reply had reached the disk."""
    prompts = run.path.rglob("prompt.md")
    return {str(one): (one.parent / "reply.json").exists() for one in prompts}


def outcome_of(run: RunFolder) -> tuple[str, list[tuple[str, str, float | None]]]:
    """The winner's source, and every candidate with its verdict."""
    result = read_result(run)
    return result.source, [(one.id, one.code, one.speedup) for one in result.attempts]


def count_lines(file: Path) -> int:
    return file.read_bytes().count(b"\n") if file.exists() else 0


def is_finished(run: RunFolder) -> bool:
    return run.events.exists() and read_result(run).finished


@pytest.fixture(scope="module")
def processes() -> Iterator[RunProcesses]:
    with RunProcesses() as opened:
        yield opened


@pytest.fixture(scope="module")
def whole(processes: RunProcesses, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """The run as it is without a kill."""
    out = tmp_path_factory.mktemp("whole")
    with ModelServer(answer) as server:
        order = {"stage_s": STAGE_S, "base_url": server.base_url, "out": str(out)}
        processes.warm({"do": "start", **order})
    run = the_run(out)
    assert outcome_of(run)[0], "a run without a winner proves nothing"
    assert list(run.path.glob("rounds/*/second_opinion/ask-*")), "its agent has asked nothing"
    return run


@pytest.mark.parametrize("kills", [4, pytest.param(30, marks=pytest.mark.evidence)])
def test_a_killed_run_ends_with_the_same_result_and_asks_nothing_twice(
    kills: int, processes: RunProcesses, whole: RunFolder, tmp_path: Path
) -> None:
    """One kill in each of as many parts of the run, counted in events: a busy machine stretches
    seconds.
    """
    chance = random.Random(20260131)
    last = len(events(whole)) - 1
    begins = [1 + part * (last - 1) // kills for part in range(kills + 1)]
    moments = [
        (chance.randrange(begin, end), chance.uniform(0.0, GAP_S))
        for begin, end in pairwise(begins)
    ]
    reached = [
        kill_and_resume(
            processes, tmp_path / str(number), whole, after_events=after_events, then_s=then_s
        )
        for number, (after_events, then_s) in enumerate(moments)
    ]
    assert any(reached), "no kill came while the run was at work"


@pytest.mark.parametrize("then_s", [0.0, 0.2])
def test_a_run_killed_while_it_is_being_set_up_can_be_resumed_or_never_was(
    then_s: float, processes: RunProcesses, whole: RunFolder, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    kill_and_resume(processes, out, whole, after_events=0, then_s=then_s)
    assert not (out / "r/run.json").exists() or is_finished(the_run(out))


def kill_and_resume(
    processes: RunProcesses, out: Path, whole: RunFolder, *, after_events: int, then_s: float
) -> bool:
    """Kill a run `then_s` after so many events, resume and check it; True if it was at work."""
    moment = f"killed {then_s:.3f} s after event {after_events}"
    with ModelServer(answer) as server:
        order = {"stage_s": STAGE_S, "base_url": server.base_url, "out": str(out)}
        child = processes.begin({"do": "start", **order})
        while count_lines(out / "r/events.jsonl") < after_events:
            time.sleep(0.002)
        time.sleep(then_s)
        os.kill(child, signal.SIGKILL)
        processes.ended()
        if not (out / "r/run.json").exists():
            return False
        run = the_run(out)
        was_finished = is_finished(run)
        trace_before = run.events.read_bytes() if run.events.exists() else b""
        in_flight = [call for call, replied in calls(run).items() if not replied]
        if not was_finished:
            processes.begin({"do": "resume", **order})
            assert processes.ended() == 0, moment
        repeated = [times - 1 for times in asked(server).values() if times > 1]
    whole_lines = trace_before[: trace_before.rfind(b"\n") + 1]
    assert run.events.read_bytes().startswith(whole_lines), f"an event was lost, {moment}"
    retried = events(run, ModelRetried)
    allowed = len(in_flight) + len(retried)
    assert sum(repeated) <= allowed, f"{moment}: {in_flight}, {retried}"
    assert outcome_of(run) == outcome_of(whole), moment
    known = Counter(filter(None, map(identity_of, events(run))))
    assert set(known.values()) == {1}, f"an event is recorded twice, {moment}"
    return bool(trace_before) and not was_finished
