"""Nodes before the first round: start and baseline."""

import time
from collections.abc import Sequence
from typing import Any

from cuda_llm.graph.state import SearchState, SearchUpdate
from cuda_llm.graph.wiring import Wiring
from cuda_llm.search import Hint
from cuda_llm.traces.events import BaselineJudged, HintGiven, RunStarted


async def start(state: SearchState, wiring: Wiring) -> SearchUpdate:
    """Open the run: its channels, and what the user said."""
    hints = wiring.folder.keep_hints(said(wiring))
    open_trace(wiring, hints)
    update = empty(state)
    update["run_id"] = wiring.run_id
    update["round"] = -1 if wiring.request.start else 0
    update["performance_hints"] = anew(state, [one.id for one in hints])
    return update


async def baseline(state: SearchState, wiring: Wiring) -> SearchUpdate:
    """Time the task's own kernel: the denominator of every speed-up. Raises TaskError."""
    began = time.monotonic()
    timing = await wiring.bench.time_baseline()
    sizes = tuple(dict(dims) for dims, _ in timing.times)
    times_us = tuple(time_us for _, time_us in timing.times)
    seconds = time.monotonic() - began
    wiring.record(
        BaselineJudged(sizes=sizes, times_us=times_us, seconds=seconds, isolation=timing.isolation)
    )
    return {"baseline": {"sizes": list(sizes), "times_us": list(times_us)}}


def said(wiring: Wiring) -> list[Hint]:
    """What the user said before the run began."""
    texts = wiring.plan.user_hints
    return [Hint(round=0, about="", code="USER", text=text, by="user") for text in texts]


def empty(state: SearchState) -> SearchUpdate:
    """The channels of a run in which nothing has happened."""
    return {
        "incumbent": None,
        "late": [],
        "stop": "",
        "best": None,
        "attempts": anew(state, []),
        "error_hints": anew(state, []),
        "notes": anew(state, {}),
        "unfit": anew(state, {}),
    }


def anew(state: SearchState, value: Any) -> Any:
    """The first value of a channel that grows; an earlier run of the same thread is forgotten."""
    from langgraph.types import Overwrite

    return Overwrite(value) if "run_id" in state else value


def open_trace(wiring: Wiring, hints: Sequence[Hint]) -> None:
    """Record the start, once: `RunStarted` is the first line of every run."""
    if wiring.folder.events.exists() and wiring.folder.events.stat().st_size > 0:
        return
    wiring.record(started(wiring))
    for hint in hints:
        wiring.record(HintGiven(channel="performance_hints", hint=hint))


def started(wiring: Wiring) -> RunStarted:
    """Who searches what, where, and how."""
    return RunStarted(
        run_id=wiring.run_id,
        task=wiring.task.name,
        device=wiring.device.name,
        hardware=wiring.device.hardware.name,
        time_source=wiring.device.capabilities.time_source,
        generator=wiring.generator.name,
        model=wiring.request.model,
        strategy=wiring.strategy.name,
        candidates=wiring.plan.candidates,
        rounds=wiring.plan.rounds,
        seed=wiring.plan.seed,
        versions=wiring.versions,
        note=wiring.note,
        l2=wiring.request.l2 if wiring.device.capabilities.sets_l2 else "",
    )
