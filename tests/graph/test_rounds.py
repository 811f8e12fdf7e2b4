"""What happens around the candidates of a round."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from graph_runs import TableBench, Writer, context_in, in_times, run_graph

from cuda_llm.agents.composition import CompositionRefused
from cuda_llm.agents.protocols import Trial
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.builtin import Fsr
from cuda_llm.errors import UsageError
from cuda_llm.graph.parts import GeneratorChoice
from cuda_llm.graph.view import attempts_of
from cuda_llm.outcomes import Verdict
from cuda_llm.search import Attempt, Author, Brief, Draft, Hint, Kind
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.bench import Bench
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.tools.validator.validate import Validated
from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.events import (
    AgentDecided,
    HintGiven,
    IncumbentChosen,
    RunFinished,
    RunStarted,
    TunerSearched,
    WinnerRemeasured,
)


def write(brief: Brief, _: Situation) -> Draft:
    return Draft(source=f"int ok_{90 - brief.index - 10 * brief.round}_{brief.round};\n")


def events_of(context: Any, *kinds: type) -> list[Any]:
    return [one.event for one in read_events(context.folder.events) if isinstance(one.event, kinds)]


class Halves:
    """A tuner that makes two trials of the fastest: twice as slow, twice as fast."""

    def propose(
        self, situation: Situation, judged: Sequence[Attempt], count: int
    ) -> tuple[Trial, ...]:
        passed = [one for one in judged if one.passed]
        if not passed:
            return ()
        best = max(passed, key=lambda one: one.speedup or 0)
        us = best.times_us[0]
        return tuple(
            Trial(
                parent=best.id,
                draft=Draft(
                    source=f"int ok_{us * factor:g}_t{situation.round};\n",
                    tunables={"FACTOR": round(factor * 2)},
                ),
            )
            for factor in (2.0, 0.5)
        )[:count]


def test_trials_of_the_tuner_are_judged_like_candidates_and_may_win(tmp_path: Path) -> None:
    asked: list[str] = []

    def noted(brief: Brief, situation: Situation) -> Draft:
        asked.append(brief.id)
        return write(brief, situation)

    context = context_in(tmp_path, generator=Writer(noted), tuner=Halves(), candidates=2, rounds=1)
    state = asyncio.run(run_graph(context))

    ids = ["r1-c1", "r1-c2", "r1-t1", "r1-t2"]
    assert state["attempts"] == ids
    assert [one.index for one in attempts_of(state, context)] == [1, 2, 3, 4]
    assert state["best"]["id"] == "r1-t2"
    trial = attempts_of(state, context)[3]
    assert (trial.kind, trial.parent, trial.tunables) == ("tune", "r1-c2", {"FACTOR": 1})
    assert trial.written_by == "model"
    assert "generate" not in trial.seconds
    assert asked == ["r1-c1", "r1-c2"]
    (searched,) = events_of(context, TunerSearched)
    assert (searched.parent, searched.tried, searched.best) == ("r1-c2", tuple(ids[2:]), "r1-t2")


@pytest.mark.parametrize(("author", "has_direction"), [("playbook", False), ("model", True)])
def test_only_a_generator_that_follows_directions_gets_one(
    tmp_path: Path, author: Author, has_direction: bool
) -> None:
    """Kernels of a playbook prove nothing about a direction that it does not follow."""
    context = context_in(
        tmp_path, generator=Writer(write, written_by=author), candidates=2, rounds=1
    )
    state = asyncio.run(run_graph(context))

    assert [bool(one.direction) for one in attempts_of(state, context)] == [
        has_direction,
        has_direction,
    ]


def test_a_tuner_that_is_switched_off_is_not_asked(tmp_path: Path) -> None:
    context = context_in(
        tmp_path,
        generator=Writer(write),
        tuner=Halves(),
        candidates=1,
        rounds=1,
        options={"tune": 0},
    )
    state = asyncio.run(run_graph(context))

    assert state["attempts"] == ["r1-c1"]


def test_the_users_own_kernel_is_judged_first_and_is_the_one_to_beat(tmp_path: Path) -> None:
    own = tmp_path / "mine.cu"
    own.write_text("int ok_75_0;\n")
    seen: list[str | None] = []

    def noted(brief: Brief, situation: Situation) -> Draft:
        seen.append(situation.incumbent.id if situation.incumbent else None)
        return write(brief, situation)

    context = context_in(
        tmp_path,
        generator=Writer(noted),
        candidates=2,
        rounds=1,
        options={"start": str(own)},
    )
    state = asyncio.run(run_graph(context))

    first = attempts_of(state, context)[0]
    assert (first.id, first.kind, first.written_by) == ("r0-c1", "start", "human")
    assert seen == ["r0-c1", "r0-c1"]
    assert state["attempts"][1:] == ["r1-c1", "r1-c2"]
    assert state["round"] == 1


def test_a_start_kernel_that_cannot_be_read_ends_the_run_with_its_name(tmp_path: Path) -> None:
    context = context_in(tmp_path, options={"start": str(tmp_path / "none.cu")})

    with pytest.raises(UsageError, match=r"none\.cu: cannot be read"):
        asyncio.run(run_graph(context))


def test_hints_of_the_user_are_there_from_the_start(tmp_path: Path) -> None:
    context = context_in(tmp_path, candidates=1, rounds=1, options={"hints": ("use float4",)})
    state = asyncio.run(run_graph(context))

    hint = context.folder.hint(state["performance_hints"][0])
    assert hint == Hint(round=0, about="", code="USER", text="use float4", by="user")
    (given, *_) = events_of(context, HintGiven)
    assert given.hint.text == "use float4"


class Suspicious(TableBench):
    """Judged afresh, what claims less than 75 us is found to be wrong."""

    def with_fresh_inputs(self) -> Bench:
        return Strict()


class Strict(TableBench):
    async def profile(
        self, compiled: Compiled, validated: Validated, baseline: KernelTimes
    ) -> Verdict:
        from graph_runs import WRONG

        verdict = await super().profile(compiled, validated, baseline)
        fast = float(compiled.source.split("ok_")[1].split("_")[0]) < 75
        return WRONG if fast else verdict


def test_a_winner_that_fails_when_judged_again_gives_way_to_the_next_best(tmp_path: Path) -> None:
    context = context_in(
        tmp_path, generator=Writer(write), bench=Suspicious(), candidates=3, rounds=2
    )
    state = asyncio.run(run_graph(context))

    again = events_of(context, WinnerRemeasured)
    assert [(one.attempt, one.code) for one in again] == [
        ("r2-c3", "WRONG_RESULT"),
        ("r2-c2", "WRONG_RESULT"),
        ("r2-c1", "WRONG_RESULT"),
        ("r1-c3", "PASSED"),
    ]
    assert state["best"]["id"] == state["incumbent"] == "r1-c3"
    (finished,) = events_of(context, RunFinished)
    assert (finished.best, finished.written_by) == ("r1-c3", "model")


def test_without_a_kernel_that_passed_there_is_no_result(tmp_path: Path) -> None:
    context = context_in(
        tmp_path, generator=Writer(lambda b, _: Draft(source=f"int wrong_{b.id[-1]};")), rounds=1
    )
    state = asyncio.run(run_graph(context))

    assert (state["best"], state["incumbent"], state["stop"]) == (None, None, "rounds")
    assert events_of(context, RunFinished)[0].best is None


def test_a_run_records_how_it_began_and_who_won(tmp_path: Path) -> None:
    chosen_by_hand = GeneratorChoice("writer", "by hand")
    context = context_in(
        tmp_path,
        generator=Writer(write),
        candidates=2,
        rounds=2,
        generator_choice=chosen_by_hand,
    )
    asyncio.run(run_graph(context))

    first = read_events(context.folder.events)[0].event
    assert isinstance(first, RunStarted)
    assert (first.task, first.generator, first.note) == ("vector_add", "writer", "by hand")
    chosen = events_of(context, IncumbentChosen)
    assert [(one.before, one.incumbent) for one in chosen] == [(None, "r1-c2"), ("r1-c2", "r2-c2")]


@pytest.mark.parametrize(
    ("parts", "reason"),
    [({}, "rounds"), ({"stop_reason": lambda: "2.00 USD are spent"}, "2.00 USD are spent")],
)
def test_a_run_records_why_it_ended(tmp_path: Path, parts: dict[str, Any], reason: str) -> None:
    context = context_in(tmp_path, generator=Writer(write), candidates=1, rounds=2, **parts)
    state = asyncio.run(run_graph(context))

    assert state["stop"] == reason
    assert events_of(context, RunFinished)[0].reason == reason


def test_a_person_may_review_each_round_and_add_hints(tmp_path: Path) -> None:
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.types import Command

    context = context_in(
        tmp_path, generator=Writer(write), candidates=1, rounds=2, options={"review": True}
    )

    async def run() -> tuple[list[Any], dict[str, Any]]:
        graph = build_reviewed(context)
        config: Any = {"configurable": {"thread_id": "run"}}
        given: Any = {"task": "vector_add"}
        shown = []
        for answer in (["use float4"], [], None):
            state = await graph.ainvoke(given, config, context=context)
            shown.append([one.value for one in state.get("__interrupt__", ())])
            given = Command(resume=answer)
        return shown, dict((await graph.aget_state(config)).values)

    def build_reviewed(context: Any) -> Any:
        from cuda_llm.graph.runs.build_graph import build_graph

        return build_graph().compile(checkpointer=InMemorySaver())

    shown, state = asyncio.run(run())
    assert [[(one["round"], one["incumbent"]) for one in some] for some in shown] == [
        [(1, None)],
        [(2, "r1-c1")],
        [],
    ]
    hint = context.folder.hint(state["performance_hints"][0])
    assert hint is not None
    assert hint.text == "use float4"
    assert len(state["attempts"]) == 2


def test_two_kernels_are_put_together_and_judged_like_any_other(tmp_path: Path) -> None:
    text = """__global__ void one() {}
extern "C" void solve(const float* A, const float* B, float* C, int n) { one<<<1, 1>>>(); }
"""

    @dataclass(frozen=True)
    class TwoSizes(TableBench):
        """Of two sizes, each kernel but a composition is fast at one."""

        async def time_baseline(self) -> KernelTimes:
            sizes = (({"n": 1024}, 100.0), ({"n": 4096}, 100.0))
            return KernelTimes(times=sizes, launches=(), bottlenecks=())

        async def profile(
            self, compiled: Compiled, validated: Validated, baseline: KernelTimes
        ) -> Verdict:
            first_us = 10.0 if "one" in compiled.source else 80.0
            last_us = 20.0 if "two" in compiled.source else 90.0
            return in_times((first_us, last_us), baseline)

    def by_turns(brief: Brief, _: Situation) -> Draft:
        return Draft(source=text if brief.index == 1 else text.replace("one", "two"))

    context = context_in(
        tmp_path,
        generator=Writer(by_turns),
        bench=TwoSizes(),
        candidates=2,
        rounds=1,
        strategy="fsr+composition",
    )
    state = asyncio.run(run_graph(context))
    assert state["incumbent"] == "r1-t1"
    found = context.folder.attempt("r1-t1")
    assert found is not None
    assert (found.kind, found.parent, found.second) == (Kind.COMPOSE, "r1-c1", "r1-c2")
    assert found.idea == "r1-c1 up to n = 1,024, r1-c2 beyond"
    assert found.written_by == "model"
    assert not events_of(context, TunerSearched)


def test_why_two_kernels_are_not_put_together_stands_in_the_trace(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Refusing(Fsr):
        def compose(self, situation: Situation) -> CompositionRefused:
            return CompositionRefused("macro_clash", "TILE", attempts=("r1-c1", "r1-c2"))

    context = replace(context_in(tmp_path, rounds=1), strategy=Refusing())
    asyncio.run(run_graph(context))
    decided = events_of(context, AgentDecided)
    why = "r1-c1 and r1-c2 are not put together: the macro TILE of one means something else"
    assert any(why in one.decisions[0] for one in decided)
