"""Events that were lost with a damaged trace, recorded again before a run goes on."""

from collections.abc import Iterator

from cuda_llm.graph.finish import ended
from cuda_llm.graph.opening import started
from cuda_llm.graph.state import SearchState
from cuda_llm.graph.view import situation_of
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

AGAIN = "recorded again: the trace had lost it"


def lost_events(state: SearchState, wiring: Wiring, *, over: bool) -> Iterator[Event]:
    """The events without which a run's result cannot be read; `over` says that it has ended.

    All they tell lies in the folder under the ids of `state`: none is made up.
    """
    recorded = [one.event for one in read_events(wiring.folder.events)]
    kinds = {type(one) for one in recorded}
    now = situation_of(state, wiring)
    if RunStarted not in kinds:
        yield started(wiring)
    if BaselineJudged not in kinds and now.sizes:
        yield BaselineJudged(sizes=now.sizes, times_us=now.baseline_us)
    judged = {one.attempt.id for one in recorded if isinstance(one, AttemptJudged)}
    yield from (AttemptJudged(attempt=one) for one in now.attempts if one.id not in judged)
    chosen = {one.incumbent for one in recorded if isinstance(one, IncumbentChosen)}
    if now.incumbent is not None and now.incumbent.id not in chosen:
        name = now.incumbent.id
        yield IncumbentChosen(round=now.round, before=None, incumbent=name, reason=AGAIN)
    if over and RunFinished not in kinds:
        yield ended(wiring, state["stop"], state["best"])
