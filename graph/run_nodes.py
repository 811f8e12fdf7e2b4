"""Nodes outside the rounds: start and baseline before the rounds, finish with a last measurement
after the rounds."""

import time
from collections.abc import Sequence
from typing import Any

from cuda_llm.agents.situation import Situation
from cuda_llm.graph.context import RunContext
from cuda_llm.graph.incumbent import confirm_winner, rank_attempts
from cuda_llm.graph.lessons import add_lessons, keep_lessons
from cuda_llm.graph.measurements import read_baseline, write_baseline
from cuda_llm.graph.state import Json, SearchState, SearchUpdate
from cuda_llm.graph.view import baseline_of, situation_of
from cuda_llm.search import Hint
from cuda_llm.traces.events import (
    BaselineJudged,
    HintGiven,
    RunFinished,
    RunStarted,
    WinnerRemeasured,
)


async def start(state: SearchState, context: RunContext) -> SearchUpdate:
    """Open the run: its channels, and the hints of the user."""
    hints = context.folder.keep_hints(user_hints(context))
    record_start(context, hints)
    keep_lessons(context, situation_of({}, context))
    update = empty_channels(state)
    update["run_id"] = context.run_id
    update["round"] = -1 if context.config.start else 0
    update["performance_hints"] = first_value(state, [one.id for one in hints])
    return update


async def baseline(state: SearchState, context: RunContext) -> SearchUpdate:
    """Time the task's own kernel: the denominator of every speed-up. Raises TaskError."""
    judged = read_baseline(context.folder)
    if judged is None:
        began = time.monotonic()
        timing = await context.bench.time_baseline()
        judged = BaselineJudged(
            sizes=tuple(dict(dims) for dims, _ in timing.times),
            times_us=tuple(time_us for _, time_us in timing.times),
            seconds=time.monotonic() - began,
            isolation=timing.isolation,
        )
        write_baseline(context.folder, judged)
    context.record(judged)
    return {"baseline": {"sizes": list(judged.sizes), "times_us": list(judged.times_us)}}


def user_hints(context: RunContext) -> list[Hint]:
    """Return the hints that the user gave before the run began."""
    texts = context.config.hints
    return [Hint(round=0, about="", code="USER", text=text, by="user") for text in texts]


def empty_channels(state: SearchState) -> SearchUpdate:
    """Return the channels of a run in which nothing has happened."""
    return {
        "incumbent": None,
        "stop": "",
        "best": None,
        "attempts": first_value(state, []),
        "error_hints": first_value(state, []),
        "notes": first_value(state, {}),
        "unfit": first_value(state, {}),
        "withdrawn": first_value(state, {}),
    }


def first_value(state: SearchState, value: Any) -> Any:
    """Return the first value of a channel that grows; an earlier run of the thread is dropped."""
    if "run_id" not in state:
        return value
    from langgraph.types import Overwrite

    return Overwrite(value)


def record_start(context: RunContext, hints: Sequence[Hint]) -> None:
    """Record the start, once: `RunStarted` is the first line of every run."""
    if context.folder.events.exists() and context.folder.events.stat().st_size > 0:
        return
    context.record(run_started(context))
    for hint in hints:
        context.record(HintGiven(channel="performance_hints", hint=hint))


def run_started(context: RunContext) -> RunStarted:
    """Return the event that opens the trace."""
    return RunStarted(
        run_id=context.run_id,
        task=context.task.name,
        device=context.device.name,
        hardware=context.device.hardware.name,
        time_source=context.device.capabilities.time_source,
        generator=context.generator.name,
        model=context.model,
        strategy=context.strategy.name,
        candidates=context.config.candidates,
        rounds=context.config.rounds,
        seed=context.config.seed,
        versions=context.versions,
        note=context.note,
        l2=context.config.l2 if context.device.capabilities.sets_l2 else "",
    )


async def finish(state: SearchState, context: RunContext) -> SearchUpdate:
    """Judge the winner again; where the winner fails, judge the next best attempt."""
    situation = situation_of(state, context)
    winner = await confirm_winner(
        context, rank_attempts(situation, state.get("unfit", {})), baseline_of(state)
    )
    best = None if winner is None else result_of(situation, winner)
    update: SearchUpdate = {"best": best, "incumbent": best["id"] if best else None}
    add_lessons(context, situation)
    context.record(run_finished(context, state["stop"], best))
    context.release()
    return update


def result_of(situation: Situation, winner: WinnerRemeasured) -> Json:
    """Return the result as the state holds it."""
    attempt = situation.attempt(winner.attempt)
    return {
        "id": attempt.id,
        "speedup": winner.speedup,
        "times_us": list(winner.times_us),
        "written_by": attempt.written_by,
    }


def run_finished(context: RunContext, reason: str, best: Json | None) -> RunFinished:
    """Return the event that ends the trace."""
    seconds = time.monotonic() - context.began_s
    if best is None:
        return RunFinished(reason=reason, best=None, seconds=seconds)
    return RunFinished(
        reason=reason,
        best=best["id"],
        speedup=best["speedup"],
        written_by=best["written_by"],
        seconds=seconds,
    )
