"""A run in a few figures: what `trace list` shows of each."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from cuda_llm.traces.chapters import Story, gather
from cuda_llm.traces.events import ModelCalled
from cuda_llm.traces.read import Trace, read_trace
from cuda_llm.traces.recorder import is_being_written
from cuda_llm.traces.run_folder import RunFolder

RunState = Literal["running", "finished", "interrupted", "killed", "empty"]
"""`interrupted` stopped by itself, `killed` did not get to; both can be resumed."""


@dataclass(frozen=True, kw_only=True)
class Spend:
    """What calls to models cost."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
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
    written_by: str
    spend: Spend


def read_story(run: RunFolder) -> tuple[Story, Trace]:
    """The story of a run; an empty one where nothing has happened yet."""
    trace = read_trace(run.events) if run.events.exists() else Trace()
    return gather((one.at, one.event) for one in trace.events), trace


def summarise(run: RunFolder) -> Summary:
    """A run in a few figures. Raises UsageError where it cannot be read."""
    story, _ = read_story(run)
    started, attempts = story.started, story.attempts
    best = attempts.get(story.incumbent or "")
    return Summary(
        run_id=run.name,
        state=state_of(run, story),
        began_at=story.began_at,
        task=started.task if started else "",
        device=started.device if started else "",
        time_source=started.time_source if started else "",
        generator=started.generator if started else "",
        strategy=started.strategy if started else "",
        rounds=max(story.chapters, default=0),
        planned_rounds=started.rounds if started else 0,
        candidates=len(attempts),
        best=story.incumbent,
        speedup=final_speedup(story),
        written_by=best.written_by if best else "",
        spend=spend_of(story.calls),
    )


def final_speedup(story: Story) -> float | None:
    """Of the best kernel: as measured once more at the end, where that was done."""
    if story.finished is not None:
        return story.finished.speedup
    best = story.attempts.get(story.incumbent or "")
    return best.speedup if best else None


def state_of(run: RunFolder, story: Story) -> RunState:
    """How a run stands."""
    if story.finished is not None:
        return "finished"
    if is_being_written(run.events):
        return "running"
    if story.interrupted is not None:
        return "interrupted"
    return "killed" if story.began_at else "empty"


def spend_of(calls: Iterable[ModelCalled]) -> Spend:
    """What these calls cost together."""
    made = tuple(calls)
    prices = [call.usd for call in made if call.usd is not None]
    return Spend(
        calls=len(made),
        input_tokens=sum(call.input_tokens for call in made),
        output_tokens=sum(call.output_tokens for call in made),
        usd=sum(prices) if made and len(prices) == len(made) else None,
    )
