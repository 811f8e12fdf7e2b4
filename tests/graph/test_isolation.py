"""What one candidate does is nothing to its siblings."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from graph_runs import TableBench, Writer, context_in, numbered, run_graph

from cuda_llm.agents.situation import Situation
from cuda_llm.errors import MissingError, TaskError
from cuda_llm.graph.view import attempts_of
from cuda_llm.outcomes import InfraFailed, NoCode, Verdict
from cuda_llm.search import Brief, Draft
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.events import AttemptJudged, StageEntered, StageLeft


def good(brief: Brief, _: Situation) -> Draft | NoCode:
    return Draft(source=f"// {brief.id}\nint ok_50_{brief.index};\n")


@pytest.mark.parametrize("error", [RuntimeError("lost"), MissingError("no key", "set it")])
def test_a_generator_that_raises_costs_its_own_candidate_alone(
    tmp_path: Path, error: Exception
) -> None:
    def write(brief: Brief, situation: Situation) -> Draft | NoCode:
        if brief.index == 2:
            raise error
        return good(brief, situation)

    delay = lambda name: 0.0 if name == "generate r1-c2" else 0.02  # noqa: E731
    context = context_in(tmp_path, generator=Writer(write, delay=delay), candidates=4, rounds=1)
    state = asyncio.run(run_graph(context))

    codes = [one.code for one in attempts_of(state, context)]
    assert codes == ["PASSED", "INFRA_GENERATOR", "PASSED", "PASSED"]
    assert str(error) in attempts_of(state, context)[1].summary


NO_ROOM = InfraFailed(component="compiler", detail="no room")


@dataclass(frozen=True)
class Broken(TableBench):
    """Its compiler never works, and says so or raises `how`."""

    how: InfraFailed | Exception = NO_ROOM

    async def compile(self, source: str, name: str) -> Compiled | Verdict:
        await self.take("compile", source)
        if isinstance(self.how, Exception):
            raise self.how
        return self.how


def test_machinery_that_stays_broken_is_a_verdict_and_ends_the_search(tmp_path: Path) -> None:
    bench = Broken()
    context = context_in(tmp_path, generator=Writer(good), bench=bench, candidates=2, rounds=3)
    state = asyncio.run(run_graph(context))

    assert [one.code for one in attempts_of(state, context)] == ["INFRA_COMPILER"] * 2
    assert state["stop"].startswith("nothing works: INFRA_COMPILER")
    assert state["best"] is None
    assert len(bench.log) == 2, "to try again is the bench's own business"


def test_a_bad_kernel_is_never_tried_again(tmp_path: Path) -> None:
    bench = TableBench()
    context = context_in(
        tmp_path,
        generator=Writer(lambda _, __: Draft(source="int broken;\n")),
        bench=bench,
        candidates=1,
        rounds=1,
    )
    asyncio.run(run_graph(context))

    assert bench.log == ["compile int broken;"]


@pytest.mark.parametrize(
    "error",
    [TaskError("bad task"), MissingError("no nvcc", "install it"), ZeroDivisionError("a bug")],
)
def test_a_fault_of_every_candidate_ends_the_run_with_its_reason(
    tmp_path: Path, error: Exception
) -> None:
    context = context_in(tmp_path, generator=Writer(good), bench=Broken(how=error))

    with pytest.raises(type(error), match=str(error)):
        asyncio.run(run_graph(context))


@dataclass(frozen=True, kw_only=True)
class WritesLast(Writer):
    """Writes the first candidate when the two others have been judged, or after a minute."""

    root: Path

    async def generate(self, brief: Brief, situation: Situation) -> Draft | NoCode:
        until_s = time.monotonic() + 60
        while brief.id == "r1-c1" and time.monotonic() < until_s:
            events = next(self.root.rglob("events.jsonl"))
            judged = [one for one in read_events(events) if isinstance(one.event, AttemptJudged)]
            if len(judged) == 2:
                break
            await asyncio.sleep(0.01)
        return self.write(brief, situation)


def test_one_candidate_compiles_while_another_still_generates(tmp_path: Path) -> None:
    writer = WritesLast(good, root=tmp_path)
    context = context_in(tmp_path, generator=writer, candidates=3, rounds=1)
    asyncio.run(run_graph(context))

    events = [one.event for one in read_events(context.folder.events)]
    steps = [
        (type(one).__name__, one.candidate, one.stage)
        for one in events
        if isinstance(one, (StageEntered, StageLeft))
    ]
    slow_is_written = steps.index(("StageLeft", "r1-c1", "generate"))
    assert steps.index(("StageLeft", "r1-c2", "profile")) < slow_is_written
    assert steps.index(("StageLeft", "r1-c3", "profile")) < slow_is_written


def test_an_attempt_holds_the_seconds_of_every_stage(tmp_path: Path) -> None:
    delay = lambda name: 0.03 if name.startswith("validate") else 0.0  # noqa: E731
    bench = TableBench(delay=delay)
    context = context_in(tmp_path, generator=Writer(good), bench=bench, candidates=1, rounds=1)
    (attempt,) = attempts_of(asyncio.run(run_graph(context)), context)

    assert list(attempt.seconds) == ["generate", "compile", "validate", "profile"]
    assert attempt.seconds["validate"] >= 0.03


def test_every_outcome_of_a_candidate_is_recorded(tmp_path: Path) -> None:
    context = context_in(tmp_path, generator=Writer(numbered), candidates=8, rounds=1)
    state = asyncio.run(run_graph(context))

    codes = {one.code for one in attempts_of(state, context)}
    assert codes == {"PASSED", "WRONG_RESULT", "COMPILE_FAILED", "NO_CODE", "DUPLICATE"}
    events = [one.event for one in read_events(context.folder.events)]
    left = {(one.candidate, one.outcome) for one in events if isinstance(one, StageLeft)}
    for attempt in attempts_of(state, context):
        ended = "ok" if attempt.code in {"PASSED", "DUPLICATE"} else attempt.code
        assert (attempt.id, ended) in left
