"""The last node: measure the winner again, record the result."""

from collections.abc import Collection

from cuda_llm.agents.situation import Situation
from cuda_llm.graph.remeasure import confirm
from cuda_llm.graph.state import Json, SearchState, SearchUpdate
from cuda_llm.graph.view import baseline_of, situation_of
from cuda_llm.graph.wiring import Wiring
from cuda_llm.search import Attempt
from cuda_llm.traces.events import RunFinished, WinnerRemeasured


async def finish(state: SearchState, wiring: Wiring) -> SearchUpdate:
    """End what is late, and judge the winner again; one that fails gives way to the next best."""
    await wiring.workbench.close()
    situation = situation_of(state, wiring)
    winner = await confirm(
        wiring, ranked(situation, state.get("unfit", {})), baseline_of(situation)
    )
    best = None if winner is None else result(situation, winner)
    wiring.record(ended(wiring, state["stop"], best))
    wiring.release()
    return {"best": best, "incumbent": best["id"] if best else None}


def ranked(situation: Situation, unfit: Collection[str]) -> list[Attempt]:
    """The incumbent, then whoever else passed and nothing was found in, fastest first."""
    passed = [
        one
        for one in situation.attempts
        if one.passed and one != situation.incumbent and one.id not in unfit
    ]
    passed.sort(key=lambda one: -(one.speedup or 0.0))
    return passed if situation.incumbent is None else [situation.incumbent, *passed]


def result(situation: Situation, winner: WinnerRemeasured) -> Json:
    """The result as the state holds it."""
    attempt = situation.attempt(winner.attempt)
    return {
        "id": attempt.id,
        "speedup": winner.speedup,
        "times_us": list(winner.times_us),
        "written_by": attempt.written_by,
    }


def ended(wiring: Wiring, reason: str, best: Json | None) -> RunFinished:
    """The last line of the trace."""
    seconds = wiring.workbench.age_s
    if best is None:
        return RunFinished(reason=reason, best=None, seconds=seconds)
    return RunFinished(
        reason=reason,
        best=best["id"],
        speedup=best["speedup"],
        written_by=best["written_by"],
        seconds=seconds,
    )
