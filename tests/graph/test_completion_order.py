"""The same seed gives the same run, whatever order candidates finish in."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from graph_runs import TableBench, Writer, context_in, numbered, run_graph

from cuda_llm.graph.context import RunContext
from cuda_llm.graph.runs.result import judged_attempts
from cuda_llm.graph.view import attempts_of
from cuda_llm.search import Attempt
from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.events import AttemptJudged, AttemptRepeated, Event, StageLeft
from cuda_llm.traces.history import read_history
from cuda_llm.traces.run_folder import RunFolder


def shuffled(seed: int) -> Callable[[str], float]:
    """A delay of its own for everything, always the same for the same name."""
    return lambda name: random.Random(f"{seed} {name}").uniform(0, 0.02)


def without_seconds(state: dict[str, Any], context: RunContext) -> dict[str, Any]:
    """The state, with its attempts and hints themselves."""
    channels = ("error_hints", "performance_hints")
    hints = {name: [context.folder.hint(one) for one in state[name]] for name in channels}
    attempts = [replace(one, seconds={}) for one in attempts_of(state, context)]
    return {**state, **hints, "attempts": attempts}


def run(folder: Path, seed: int | None) -> tuple[dict[str, Any], list[str]]:
    """The last state, and the order in which work was done."""
    delay = (lambda _: 0.0) if seed is None else shuffled(seed)
    bench = TableBench(delay=delay)
    context = context_in(
        folder, generator=Writer(numbered, delay=delay), bench=bench, candidates=8, rounds=3
    )
    return without_seconds(asyncio.run(run_graph(context)), context), bench.log


def test_a_run_is_the_same_in_whatever_order_candidates_finish(tmp_path: Path) -> None:
    still, _ = run(tmp_path / "still", None)
    runs = [run(tmp_path / str(seed), seed) for seed in range(4)]

    assert len({tuple(log) for _, log in runs}) == 4
    assert [state for state, _ in runs] == [still] * 4
    assert still["incumbent"] is not None
    assert len(still["attempts"]) == 24


def test_attempts_are_told_as_they_land_and_stand_in_the_state_by_index(tmp_path: Path) -> None:
    state, _ = run(tmp_path, 7)
    folder = RunFolder(tmp_path / "run")
    recorded = read_events(folder.events)
    landed = [one.event.attempt.id for one in recorded if isinstance(one.event, AttemptJudged)]
    by_index = [f"r{round_}-c{index}" for round_ in (1, 2, 3) for index in range(1, 9)]

    assert [one.id for one in state["attempts"]] == by_index
    assert [one.id for one in judged_attempts(recorded)] == by_index
    assert [*read_history(folder)[0].attempts] == by_index
    assert sorted(landed) == by_index
    assert landed != by_index, "no candidate overtook another: that proves nothing"
    for before, one in pairwise(recorded):
        if isinstance(one.event, AttemptJudged):
            assert isinstance(before.event, StageLeft)
            assert before.event.candidate == one.event.attempt.id


@pytest.mark.parametrize("slow", [1, 2])
def test_of_two_equal_kernels_of_a_round_the_first_keeps_its_verdict(
    tmp_path: Path, slow: int
) -> None:
    from cuda_llm.agents.situation import Situation
    from cuda_llm.search import Brief, Draft

    def write(brief: Brief, _: Situation) -> Draft:
        return Draft(source=f"// {brief.index}\nint ok_50_1;\n")

    delay: Callable[[str], float] = lambda name: 0.05 if name.endswith(f"c{slow}") else 0.0  # noqa: E731
    seen: list[Attempt] = []

    def watch(event: Event) -> None:
        if isinstance(event, (AttemptJudged, AttemptRepeated)) and event.attempt.id == "r1-c2":
            seen.append(event.attempt)

    context = context_in(
        tmp_path,
        generator=Writer(write, delay=delay),
        candidates=2,
        rounds=1,
        observers=[watch],
    )
    state = asyncio.run(run_graph(context))

    assert [(one.id, one.code) for one in attempts_of(state, context)] == [
        ("r1-c1", "PASSED"),
        ("r1-c2", "DUPLICATE"),
    ]
    assert context.folder.verdict("r1-c2").code == "DUPLICATE"
    told = [one.event for one in read_events(context.folder.events)]
    judged = [one.attempt.id for one in told if isinstance(one, AttemptJudged)]
    repeated = [one.attempt.id for one in told if isinstance(one, AttemptRepeated)]
    assert (sorted(judged), repeated) == (["r1-c1", "r1-c2"], ["r1-c2"])
    assert [one.code for one in seen] == ["PASSED", "DUPLICATE"], "as it landed, and what it is"
