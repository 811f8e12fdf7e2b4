"""Whatever an agent or a generator does, the run goes on and the trace says why."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from graph_runs import context_in, run_graph

from cuda_llm.agents.protocols import Contribution, PlacedAgent, Stage
from cuda_llm.agents.situation import Note, Situation
from cuda_llm.graph.guards import checked_answer, run_untrusted
from cuda_llm.graph.view import attempts_of
from cuda_llm.log_setup import command_line_logging
from cuda_llm.outcomes import InfraFailed, NoCode
from cuda_llm.search import Author, Brief, Draft
from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.events import AgentFailed

Act = Callable[[Situation], Any]


async def boom(_: Situation) -> Contribution:
    raise ValueError("two\nlines")


async def leave(_: Situation) -> Contribution:
    sys.exit(7)


async def give_up(_: Situation) -> Contribution:
    raise asyncio.CancelledError


async def answer_nothing(_: Situation) -> Any:
    return None


async def hint_in_words(_: Situation) -> Contribution:
    return Contribution(error_hints=("use shared memory",))  # type: ignore[arg-type]


async def note_an_object(_: Situation) -> Contribution:
    return Contribution(note=Note(data={"it": object()}))


async def talk(_: Situation) -> Contribution:
    return Contribution(note=Note(text="x" * 300_000))


async def change_the_sizes(situation: Situation) -> Contribution:
    for dims in situation.sizes:
        dims.clear()  # type: ignore[attr-defined]
    return Contribution()


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        (boom, "ValueError: two lines"),
        (leave, "SystemExit: 7"),
        (give_up, "CancelledError:"),
        (answer_nothing, "TypeError: answered with NoneType; expected Contribution"),
        (hint_in_words, "ValueError: Contribution.error_hints.0: "),
        (note_an_object, "TypeError: Object of type object is not JSON serializable"),
        (talk, "at most 262,144 are taken"),
        (change_the_sizes, "AttributeError: "),
    ],
)
def test_an_agent_that_misbehaves_ends_its_part_alone(
    agent: Act, message: str, tmp_path: Path
) -> None:
    placed = PlacedAgent(name="mine", after=Stage.BASELINE, agent=agent)
    context = context_in(tmp_path, agents=(placed,), candidates=2, rounds=1)
    state = asyncio.run(run_graph(context))
    assert state["best"] is not None
    recorded = [one.event for one in read_events(context.folder.events)]
    (failed,) = [one for one in recorded if isinstance(one, AgentFailed)]
    assert message in failed.error
    assert "\n" not in failed.error


def test_an_agent_that_hangs_is_cancelled(tmp_path: Path) -> None:
    async def hang(_: Situation) -> Contribution:
        await asyncio.sleep(60)
        raise AssertionError

    placed = PlacedAgent(name="mine", after=Stage.BASELINE, agent=hang)
    context = context_in(tmp_path, agents=(placed,), rounds=1, seconds_left=lambda: 1.2)
    asyncio.run(run_graph(context))
    recorded = [one.event for one in read_events(context.folder.events)]
    (failed,) = [one for one in recorded if isinstance(one, AgentFailed)]
    assert failed.error == "not done within 1.2 s"


class Answers:
    """A generator that answers what it is made with."""

    name = "mine"
    written_by: Author = "model"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def generate(self, brief: Brief, situation: Situation) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "answered with NoneType; expected Draft or NoCode"),
        ("int ok_80_1;", "answered with str; expected Draft or NoCode"),
        (Draft(source=None), "Draft.source: Input should be a valid string"),  # type: ignore[arg-type]
        (Draft(source="x" * 3_000_000), "at most 2,097,152 are taken"),
        (NoCode(message=None), "NoCode.message: "),  # type: ignore[arg-type]
        (SystemExit(5), "SystemExit: 5"),
    ],
)
def test_a_generator_that_answers_junk_fails_its_candidates_alone(
    answer: Any, message: str, tmp_path: Path
) -> None:
    context = context_in(tmp_path, generator=Answers(answer), candidates=2)
    state = asyncio.run(run_graph(context))
    assert [one.code for one in attempts_of(state, context)] == ["INFRA_GENERATOR"] * 2
    assert message in attempts_of(state, context)[0].summary


def test_an_answer_shares_nothing_with_its_maker() -> None:
    data = {"seen": [1]}
    made = Contribution(note=Note(data=data))
    kept = checked_answer(made, (Contribution,), 1000)
    data["seen"].append(2)
    assert kept.note.data == {"seen": [1]}


def test_being_cancelled_is_passed_on() -> None:
    async def main() -> bool:
        work = asyncio.create_task(outer())
        await asyncio.sleep(0)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        return work.cancelled()

    async def outer() -> object:
        wait: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(60)  # noqa: E731
        return await run_untrusted("mine", wait, Contribution)

    assert asyncio.run(main())


def test_a_timeout_inside_an_agent_is_reported_as_such() -> None:
    async def impatient() -> Contribution:
        raise TimeoutError("the server sleeps")

    answer = asyncio.run(run_untrusted("mine", impatient, Contribution, limit_s=60))
    assert isinstance(answer, InfraFailed)
    assert (answer.component, answer.detail) == ("mine", "TimeoutError: the server sleeps")


def test_the_traceback_of_what_raises_is_kept_whole_and_without_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_API_KEY", "xyz-123456789")

    def deeper() -> Contribution:
        raise RuntimeError("refused: xyz-123456789")

    async def broken() -> Contribution:
        return deeper()

    answer = asyncio.run(run_untrusted("mine", broken, Contribution))
    assert isinstance(answer, InfraFailed)
    lines = answer.traceback.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "    return deeper()" in lines
    assert lines[-1] == "RuntimeError: refused: (key)"
    late = asyncio.run(run_untrusted("mine", lambda: asyncio.sleep(9), Contribution, limit_s=0.01))
    assert isinstance(late, InfraFailed)
    assert late.traceback == "", "nothing was raised"


@pytest.mark.parametrize(("format", "logged"), [("console", 0), ("json", 1)])
def test_an_error_that_progress_shows_is_not_logged_beside_it(
    format: Literal["console", "json"], logged: int, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fail() -> Draft:
        raise ValueError("no kernels today")

    with command_line_logging(format, "warning", None):
        asyncio.run(run_untrusted("generator", fail, Draft))
    assert capsys.readouterr().err.count("a part of the run failed") == logged
