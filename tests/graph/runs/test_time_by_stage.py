"""Where the time of a run went."""

from cuda_llm.graph.runs.result import time_by_stage
from cuda_llm.traces.event_log import Recorded
from cuda_llm.traces.events import (
    BaselineJudged,
    Event,
    ModelCalled,
    RunResumed,
    RunStarted,
    StageEntered,
    StageLeft,
)

STARTED = RunStarted(
    run_id="r",
    task="vector_add",
    device="emulated",
    hardware="x",
    time_source="modelled",
    generator="llm",
    strategy="fsr",
    candidates=1,
    rounds=1,
    seed=0,
)


def at(second: float, event: Event) -> Recorded:
    whole = int(second)
    stamp = f"2026-01-31T10:{whole // 60:02}:{whole % 60:02}.{round(second % 1 * 1000):03}Z"
    return Recorded(seq=0, at=stamp, event=event)


def left(stage: str, seconds: float) -> StageLeft:
    return StageLeft(candidate="r1-c1", stage=stage, outcome="ok", seconds=seconds)


def called(seconds: float) -> ModelCalled:
    return ModelCalled(call="c", agent="generator", model="m", outcome="ok", seconds=seconds)


def test_overlapping_work_is_summed_but_subtracted_once_from_our_own_time() -> None:
    seconds = time_by_stage(
        [
            at(0, STARTED),
            at(4, called(3)),
            at(5, left("compile", 2)),
            at(6, left("compile", 2)),
            at(10, StageEntered(candidate="x", stage="compile")),
        ]
    )
    assert seconds["total"] == 10
    assert seconds["model"] == 3
    assert seconds["compile"] == 4
    # At work from 1 to 6.
    assert seconds["own"] == 5


def test_the_stage_that_waits_for_the_model_is_not_counted_beside_the_model() -> None:
    seconds = time_by_stage([at(0, STARTED), at(3, called(3)), at(5, left("generate", 5))])
    assert seconds["own"] == 2


def test_the_time_between_two_processes_of_a_run_counts_nowhere() -> None:
    resumed = RunResumed(round=1)
    seconds = time_by_stage(
        [
            at(0, STARTED),
            at(2, BaselineJudged(sizes=(), times_us=(), seconds=1)),
            at(60, resumed),
            at(63, left("profile", 1)),
        ]
    )
    assert seconds["total"] == 5
    assert seconds["baseline"] == 1
    assert seconds["own"] == 3


def test_a_trace_without_events_took_no_time() -> None:
    assert set(time_by_stage([]).values()) == {0}
