"""Lessons of a run: read once, kept in its folder, added at its end; nothing where switched off."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from graph_runs import NoTuner, TableBench
from model_server import Answer, ModelServer, Request, Say
from run_starts import asked, events, parts, the_run
from tried_orders import order

from cuda_llm.agents.llm.preflight import PROBE
from cuda_llm.agents.techniques.catalogue import CATALOGUE
from cuda_llm.agents.techniques.task_kind import TaskKind
from cuda_llm.graph.runs.fork import fork, hints_at
from cuda_llm.graph.runs.replay import replay_account
from cuda_llm.graph.runs.start import optimize, resume, start
from cuda_llm.search import Kind
from cuda_llm.traces.decisions import AgentDecided
from cuda_llm.traces.lesson_store import add_orders, read_orders
from cuda_llm.traces.run_folder import RunFolder

LEAD = "In other tasks on this GPU"
STRUCTURE = next(
    one.text for one in CATALOGUE if Kind.FIRST in one.kinds and TaskKind.ELEMENTWISE in one.tasks
)
EARLIER = tuple(
    order(task, kind=Kind.FIRST, technique=STRUCTURE, against="") for task in ("relu", "sigmoid")
)
ON = {"strategy": "fsr+lessons"}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of two orders of other tasks."""
    path = tmp_path / "store" / "lessons.jsonl"
    monkeypatch.setenv("CUDA_LLM_LESSONS", str(path))
    monkeypatch.setenv("CUDA_LLM_MODEL_TRIES", "2")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    add_orders(path, EARLIER)
    return path


def write_kernel(request: Request) -> Answer:
    """A kernel that the table bench passes or fails, by the length of the question."""
    if request.prompt == PROBE:
        return Say("ready")
    if "response_format" in request.body:
        return Say('{"bottleneck": "memory", "change": "wider loads", "reason": "bytes"}')
    time_us = 50 + len(request.prompt) % 40
    solve = 'extern "C" void solve(const float* A, const float* B, float* C, int N) {}'
    return Say(f"```cuda\n// a kernel\nint ok_{time_us}_1;\n{solve}\n```")


def run_with_model(out: Path, **config: Any) -> RunFolder:
    own = replace(parts(), generator=None, reflector=None)
    with ModelServer(write_kernel) as server:
        request = {"model": "scripted", "base_url": server.base_url, **config}
        return RunFolder(asyncio.run(start(asked(out, **request), brought=own)).run_dir)


def prompts(run: RunFolder) -> dict[str, str]:
    found = {one: run.candidate(one) / "prompt.md" for one in run.candidates()}
    return {name: path.read_text() for name, path in found.items() if path.exists()}


def test_with_the_switch_off_nothing_is_read_and_nothing_is_written(
    store: Path, tmp_path: Path
) -> None:
    before = store.read_bytes()
    run = run_with_model(tmp_path / "off")
    assert store.read_bytes() == before
    assert run.lessons() is None
    assert not any(LEAD in text for text in prompts(run).values())
    store.unlink()
    run_with_model(tmp_path / "still-off")
    assert not store.exists()


def test_with_the_switch_on_prompts_tell_of_others_and_the_run_adds_its_own(
    store: Path, tmp_path: Path
) -> None:
    run = run_with_model(tmp_path / "on", **ON)
    told = prompts(run)
    assert all(LEAD in told[f"r1-c{index}"] for index in range(1, 5))
    assert "2 of 2 faster, 12% of 20% promised" in told["r1-c1"]
    added = read_orders(store)[len(EARLIER) :]
    assert {(one.run, one.task, one.kind) for one in added} >= {
        (run.name, "vector_add", Kind.FIRST)
    }
    assert {one.candidate for one in added} <= set(run.candidates())
    assert all(str(tmp_path) not in line for line in store.read_text().splitlines())
    (decided,) = (
        one for one in events(run, AgentDecided) if getattr(one, "agent", "") == "lessons"
    )
    assert isinstance(decided, AgentDecided)
    assert decided.decisions == ("1 lesson of other tasks on this GPU: relu, sigmoid",)


def test_a_replay_gives_the_recorded_lessons_and_adds_nothing(store: Path, tmp_path: Path) -> None:
    run = run_with_model(tmp_path / "recorded", **ON)
    add_orders(store, [replace(one, run="later", had=0.9) for one in EARLIER])
    before = store.read_bytes()
    again = RunFolder(
        optimize(replay=str(run.path), out=str(tmp_path / "again"), tuner=NoTuner()).run_dir
    )
    assert prompts(again) == prompts(run)
    account = replay_account(again)
    assert account is not None
    assert (account.prompts_differ, account.unanswered) == ((), ())
    assert store.read_bytes() == before


def test_a_run_that_is_resumed_or_forked_keeps_the_lessons_it_began_with(
    store: Path, tmp_path: Path
) -> None:
    async def stop_in_round_two() -> None:
        reached = asyncio.Event()

        def stuck(name: str) -> float:
            if not re.search(r"compile // r2", name):
                return 0.0
            reached.set()
            return 60.0

        own = parts(bench=TableBench(delay=stuck))
        work = asyncio.create_task(start(asked(tmp_path / "cut", **ON), brought=own))
        await reached.wait()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    asyncio.run(stop_in_round_two())
    run = the_run(tmp_path / "cut")
    began_with = run.lessons()
    assert began_with
    add_orders(store, [replace(one, run="later", had=0.9) for one in EARLIER])
    assert len(read_orders(store)) == 4, "a run that has not ended adds nothing"
    asyncio.run(resume(run, brought=parts()))
    assert RunFolder(run.path).lessons() == began_with
    new = asyncio.run(fork(run, 1, asyncio.run(hints_at(run, 1))))
    asyncio.run(resume(new, brought=parts()))
    assert RunFolder(new.path).lessons() == began_with


def test_a_store_that_cannot_be_used_costs_the_run_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("CUDA_LLM_LESSONS", str(tmp_path / "file/lessons.jsonl"))
    result = asyncio.run(start(asked(tmp_path / "out", **ON), brought=parts()))
    assert result.best is not None
