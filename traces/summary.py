"""The few figures that distinguish a run: what `trace list` shows of it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from cuda_llm.profile import Objective
from cuda_llm.traces.event_log import is_being_written
from cuda_llm.traces.events import ModelCalled
from cuda_llm.traces.history import RunHistory, read_history
from cuda_llm.traces.run_folder import RunFolder

RunState = Literal["running", "finished", "interrupted", "killed", "empty"]
"""`interrupted` stopped by itself, `killed` did not get to; both can be resumed."""


@dataclass(frozen=True, kw_only=True)
class CallTotals:
    """What calls to models cost."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Part of `input_tokens`: what the servers had in their caches of prompts."""
    usd: float | None = None
    """None where the price of any call is unknown, or where there was none."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """One run."""

    run_id: str
    state: RunState
    began_at: str
    """UTC; empty where nothing happened yet."""
    task: str
    device: str
    time_source: str
    generator: str
    strategy: str
    rounds: int
    """That have begun."""
    planned_rounds: int
    candidates: int
    """That were judged."""
    best: str | None
    speedup: float | None
    objective: Objective
    """How its sizes make `speedup`."""
    written_by: str
    spend: CallTotals


def summarise(run: RunFolder) -> Summary:
    """Return a run in a few figures. Raises UsageError where it cannot be read."""
    history, _ = read_history(run)
    started, attempts = history.started, history.attempts
    best = attempts.get(history.incumbent or "")
    return Summary(
        run_id=run.name,
        state=state_of(run, history),
        began_at=history.began_at,
        task=started.task if started else "",
        device=started.device if started else "",
        time_source=started.time_source if started else "",
        generator=started.generator if started else "",
        strategy=started.strategy if started else "",
        rounds=max(history.rounds, default=0),
        planned_rounds=started.rounds if started else 0,
        candidates=len(attempts),
        best=history.incumbent,
        speedup=final_speedup(history),
        objective=best.objective if best else "geomean",
        written_by=best.written_by if best else "",
        spend=total_calls(history.calls),
    )


def final_speedup(history: RunHistory) -> float | None:
    """Return the speed-up of the best kernel, as remeasured at the end where that was done."""
    if history.finished is not None:
        return history.finished.speedup
    best = history.attempts.get(history.incumbent or "")
    return best.speedup if best else None


def state_of(run: RunFolder, history: RunHistory) -> RunState:
    """Return the state of a run."""
    if history.finished is not None:
        return "finished"
    if is_being_written(run.events):
        return "running"
    if history.interrupted is not None:
        return "interrupted"
    return "killed" if history.began_at else "empty"


def total_calls(calls: Iterable[ModelCalled]) -> CallTotals:
    """Return what these calls cost together."""
    made = tuple(calls)
    prices = [call.usd for call in made if call.usd is not None]
    return CallTotals(
        calls=len(made),
        input_tokens=sum(call.input_tokens for call in made),
        output_tokens=sum(call.output_tokens for call in made),
        cached_tokens=sum(call.cached_tokens for call in made),
        usd=sum(prices) if made and len(prices) == len(made) else None,
    )
