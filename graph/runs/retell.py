"""What a trace has lost and the checkpoint still knows, told again before a run goes on."""

from collections.abc import Iterator
from typing import Any

from cuda_llm.graph.finish import ended
from cuda_llm.graph.opening import started
from cuda_llm.graph.view import attempts_of
from cuda_llm.graph.wiring import Wiring
from cuda_llm.traces.events import (
    AttemptJudged,
    BaselineJudged,
    Event,
    IncumbentChosen,
    RunFinished,
    RunStarted,
)
from cuda_llm.traces.read import read_events

AGAIN = "told again: the trace had lost it"


def lost_events(wiring: Wiring, values: Any, *, over: bool) -> Iterator[Event]:
    """The events without which a run's result cannot be read; `over` says that it has ended."""
    told = [one.event for one in read_events(wiring.folder.events)]
    if not any(isinstance(one, RunStarted) for one in told):
        yield started(wiring)
    baseline = values.get("baseline")
    if baseline and not any(isinstance(one, BaselineJudged) for one in told):
        sizes, times_us = tuple(baseline["sizes"]), tuple(baseline["times_us"])
        yield BaselineJudged(sizes=sizes, times_us=times_us)
    known = {one.attempt.id for one in told if isinstance(one, AttemptJudged)}
    for attempt in attempts_of(values):
        if attempt.id not in known:
            yield AttemptJudged(attempt=attempt)
    chosen = [one.incumbent for one in told if isinstance(one, IncumbentChosen)]
    incumbent, round_ = values.get("incumbent"), values.get("round", 0)
    if incumbent and incumbent not in chosen:
        yield IncumbentChosen(round=round_, before=None, incumbent=incumbent, reason=AGAIN)
    if over and not any(isinstance(one, RunFinished) for one in told):
        yield ended(wiring, values["stop"], values["best"])
