"""A person reviews each round through the graph's interrupt."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from graph_runs import Learner, NoTuner, Writer, context_in
from run_starts import asked, parts, the_run
from tiny_tasks import tiny_task

from cuda_llm.agents.situation import Situation
from cuda_llm.errors import UsageError
from cuda_llm.graph.context import RunContext
from cuda_llm.graph.runs.fork import fork, hints_at
from cuda_llm.graph.runs.start import aoptimize, optimize, resume, start
from cuda_llm.search import Brief, Draft, Kind
from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.events import HintGiven, ReviewChange, RoundReviewed, StopCause
from cuda_llm.traces.run_folder import RunFolder


def passing_and_wrong(brief: Brief, _: Situation) -> Draft:
    """The first of a round passes, the others are wrong, and say so in the same words."""
    kind = f"ok_{90 - brief.round}" if brief.index == 1 else "wrong"
    return Draft(source=f"// {brief.id}\nint {kind}_{brief.round};\n")


class Reviewed:
    """A compiled graph with its checkpoints, and what it asked."""

    def __init__(self, context: RunContext) -> None:
        from langgraph.checkpoint.memory import InMemorySaver

        from cuda_llm.graph.runs.build_graph import build_graph

        self.context = context
        self.graph = build_graph().compile(checkpointer=InMemorySaver())
        self.config: Any = {"configurable": {"thread_id": "run"}, "recursion_limit": 200}

    async def go(self, given: Any) -> Any:
        """What it asks next; None at its end."""
        state = await self.graph.ainvoke(given, self.config, context=self.context)
        asks = state.get("__interrupt__", ())
        return asks[0].value if asks else None

    async def answer(self, decided: Any) -> Any:
        from langgraph.types import Command

        return await self.go(Command(resume=decided))


def context_of(tmp_path: Path, rounds: int = 3) -> RunContext:
    return context_in(
        tmp_path,
        generator=Writer(passing_and_wrong),
        candidates=3,
        rounds=rounds,
        options={"review": True},
    )


def reviews(run: RunFolder) -> list[RoundReviewed]:
    recorded = (one.event for one in read_events(run.events))
    return [one for one in recorded if isinstance(one, RoundReviewed)]


def test_decisions_by_id_change_hints_and_orders(tmp_path: Path) -> None:
    context = context_of(tmp_path, rounds=2)

    async def run() -> Any:
        reviewed = Reviewed(context)
        first = await reviewed.go({"task": "vector_add"})
        assert (first["hints"], first["verdicts"]) == ([], [])
        assert [one["id"] for one in first["orders"]] == ["r1-c1", "r1-c2", "r1-c3"]
        second = await reviewed.answer({"add_hints": ["Read the task twice."]})
        codes = {one["id"]: one["code"] for one in second["verdicts"]}
        assert codes == {"r1-c1": "PASSED", "r1-c2": "WRONG_RESULT", "r1-c3": "DUPLICATE"}
        assert second["parents"] == ["r1-c1", "r1-c2"]
        about = {one["about"]: one["id"] for one in second["hints"]}
        decided = {
            "hints": {about["r1-c1"]: {"text": "Wider loads."}, about["r1-c2"]: "reject"},
            "orders": {
                "r2-c1": {"parent": "r1-c2", "direction": "remedy the bound"},
                "r2-c2": "reject",
                "r2-c3": "accept",
            },
            "by": "ada",
        }
        assert await reviewed.answer(decided) is None
        return second, about

    second, about = asyncio.run(run())
    told = context.folder.brief("r2-c1")
    assert told is not None
    assert (told.kind, told.parent, told.direction) == (Kind.FIX, "r1-c2", "remedy the bound")
    third = context.folder.brief("r2-c3")
    assert third is not None
    shown = {one["id"]: one for one in second["orders"]}["r2-c3"]
    assert (third.parent, third.direction) == (shown["parent"], shown["direction"])
    for brief in (told, third):
        names = {hint.id for hint in (*brief.error_hints, *brief.performance_hints)}
        assert not names & {about["r1-c1"], about["r1-c2"]}
        assert "Read the task twice." in [one.text for one in brief.performance_hints]
    assert "r2-c2" not in context.folder.candidates()
    _, event = reviews(context.folder)
    assert (event.round, event.by, event.accepted) == (2, "ada", (about["r1-c3"], "r2-c3"))
    assert ReviewChange(id="r2-c1", part="parent", before="r1-c1", after="r1-c2") in event.changes


def test_a_rejected_hint_does_not_come_back_in_the_same_words(tmp_path: Path) -> None:
    context = context_of(tmp_path)

    async def run() -> list[list[str]]:
        reviewed, texts = Reviewed(context), []
        shown = await reviewed.go({"task": "vector_add"})
        while shown is not None:
            texts.append([one["text"] for one in shown["hints"]])
            wrong = {one["id"]: "reject" for one in shown["hints"] if one["code"] != "PASSED"}
            shown = await reviewed.answer({"hints": wrong, "by": "ada"})
        return texts

    _, after_one, after_two = asyncio.run(run())
    attempt = context.folder.attempt("r2-c2")
    assert attempt is not None
    assert attempt.code == "WRONG_RESULT"
    again = f"of {attempt.summary}"
    assert again in after_one
    assert again not in after_two
    given = [one.event for one in read_events(context.folder.events)]
    told = [one.hint.text for one in given if isinstance(one, HintGiven)]
    assert told.count(again) == 1


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (3, "the answer is 3; expected an object with hints, orders, add_hints, by"),
        ({"order": {}}, "the answer has an unknown key 'order'"),
        ({"hints": {"r9-h9": "reject"}}, "no hint 'r9-h9' is to be reviewed; there is none"),
        ({"orders": {"r1-c9": "reject"}}, "no order 'r1-c9' is to be reviewed; there is r1-c1"),
        ({"orders": ["r1-c1"]}, "orders is ['r1-c1']; expected an object with decisions by id"),
        ({"orders": {"r1-c1": 5}}, 'order r1-c1: 5; expected "accept", "reject" or an object'),
        ({"orders": {"r1-c1": {"parent": "r7-c1"}}}, "order r1-c1: parent is 'r7-c1'; expected"),
        ({"orders": {"r1-c1": {"direction": 1}}}, "order r1-c1: direction is 1; expected text"),
        ({"add_hints": "x"}, "add_hints is 'x'; expected a list of texts"),
        (["", "x"], "the list, entry 1 is ''; expected some text"),
        ({"by": 4}, "by is 4; expected some text"),
    ],
)
def test_a_wrong_answer_is_named_in_one_line_and_asked_for_again(
    answer: Any, problem: str, tmp_path: Path
) -> None:
    context = context_of(tmp_path, rounds=1)

    async def run() -> None:
        reviewed = Reviewed(context)
        shown = await reviewed.go({"task": "vector_add"})
        again = await reviewed.answer(answer)
        assert again["problem"].startswith(problem)
        assert "\n" not in again["problem"]
        assert {**again, "problem": ""} == shown
        assert await reviewed.answer("accept") is None

    asyncio.run(run())
    assert [one.changes for one in reviews(context.folder)] == [()]


def test_the_served_graph_asks_with_the_playbook_too(tmp_path: Path) -> None:
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.types import Command

    from cuda_llm.graph.runs.build_graph import build_graph

    given: Any = {
        **{"task": str(tiny_task(tmp_path, "tiny")), "device": "emulated"},
        **{"generator": "playbook", "review": True},
        **{"candidates": 2, "rounds": 1, "tune": 0, "out": str(tmp_path / "runs")},
    }

    async def run() -> tuple[Any, Any]:
        graph = build_graph().compile(checkpointer=InMemorySaver())
        config: Any = {"configurable": {"thread_id": "run"}, "recursion_limit": 200}
        asked = await graph.ainvoke(given, config)
        done = await graph.ainvoke(Command(resume={"orders": {"r1-c1": "reject"}}), config)
        return asked["__interrupt__"][0].value, done

    shown, done = asyncio.run(run())
    assert [one["id"] for one in shown["orders"]] == ["r1-c1", "r1-c2"]
    assert done["attempts"] == ["r1-c2"]


def test_a_reviewer_from_python_answers_or_stops_and_nothing_is_asked_twice(
    tmp_path: Path,
) -> None:
    asked_for: list[int] = []

    async def reviewer(shown: Any) -> Any:
        asked_for.append(shown["round"])
        return None if asked_for.count(2) == 1 and shown["round"] == 2 else {}

    request = asked(tmp_path, review=True)
    first = asyncio.run(start(request, brought=parts(), reviewer=reviewer))
    assert (first.rounds, first.finished, first.stopped) == (1, False, StopCause.REVIEW)
    assert first.reason == "stopped for review"
    last = asyncio.run(resume(the_run(tmp_path), brought=parts(), reviewer=reviewer))
    assert last.finished
    assert asked_for == [1, 2, 2]
    assert [one.round for one in reviews(the_run(tmp_path))] == [1, 2]


def test_what_was_decided_is_decided_again_in_a_replay(tmp_path: Path) -> None:
    def reviewer(shown: Any) -> Any:
        order = shown["orders"][-1]["id"]
        hints = {one["id"]: "reject" for one in shown["hints"][:1]}
        return {"hints": hints, "orders": {order: "reject"}, "add_hints": ["Once."], "by": "ada"}

    asyncio.run(start(asked(tmp_path, review=True), brought=parts(), reviewer=reviewer))
    run = the_run(tmp_path)
    own: dict[str, Any] = {"tuner": NoTuner(), "reflector": Learner()}
    out = str(tmp_path / "again")
    again = optimize(replay=str(run.path), out=out, **own)
    assert again.finished
    assert reviews(RunFolder(again.run_dir)) == reviews(run)
    assert len(reviews(run)) == 2


def test_a_reviewer_that_is_none_is_refused_before_any_work(tmp_path: Path) -> None:
    nobody: Any = "me"
    with pytest.raises(UsageError, match=r"reviewer='me': expected a function of a review"):
        asyncio.run(aoptimize("vector_add", out=str(tmp_path), reviewer=nobody))


def test_a_fork_leaves_out_what_was_rejected_before_it(tmp_path: Path) -> None:
    rejected: list[str] = []

    def reviewer(shown: Any) -> Any:
        rejected.extend(one["id"] for one in shown["hints"][:1])
        return {"hints": dict.fromkeys([one["id"] for one in shown["hints"][:1]], "reject")}

    request = asked(tmp_path, review=True, rounds=3)
    asyncio.run(start(request, brought=parts(), reviewer=reviewer))
    run = the_run(tmp_path)
    hints = asyncio.run(hints_at(run, 2))
    known = {one.id for one in (*hints.error_hints, *hints.performance_hints)}
    assert rejected[0] not in known
    assert known
    new = asyncio.run(fork(run, 2, hints))
    assert asyncio.run(hints_at(new, 2)) == hints
