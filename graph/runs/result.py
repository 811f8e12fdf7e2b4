"""What became of a run, read from its folder: finished, interrupted or under way."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cuda_llm.agents.llm.budget import Budget, Spent
from cuda_llm.graph.runs.time_by_stage import time_by_stage
from cuda_llm.search import Attempt
from cuda_llm.traces.events import (
    AttemptJudged,
    Event,
    IncumbentChosen,
    RoundBegan,
    RunFinished,
    RunInterrupted,
    RunStarted,
    WinnerRemeasured,
)
from cuda_llm.traces.read import Recorded, read_events
from cuda_llm.traces.run_folder import RunFolder
from cuda_llm.traces.verify import SOLUTION


@dataclass(frozen=True, kw_only=True)
class Result:
    """One run. `source` is the fastest kernel that passed every check."""

    run_id: str
    run_dir: Path
    task: str
    device: str
    """What ran the kernels, as a person reads it."""
    hardware: str
    time_source: str
    """`modelled` or `measured`."""
    l2: str = ""
    """`cold` or `warm`: what L2 held when a measured call began; empty for modelled times."""
    generator: str
    model: str
    strategy: str
    seed: int
    note: str
    """What the user should know of how the run was set up."""
    finished: bool
    """False: it was interrupted, or is at work; `cuda-llm resume` goes on."""
    reason: str
    """Why it ended."""
    rounds: int
    """Rounds that began."""
    attempts: tuple[Attempt, ...]
    """All that were judged, by round and index."""
    best: Attempt | None
    """None while no candidate has passed: then the task's baseline is the answer."""
    source: str
    """Of `best`; empty without one."""
    remeasured: WinnerRemeasured | None
    usage: Spent
    seconds: Mapping[str, float]
    """`total`, `model`, `compile`, `validate`, `profile`, `baseline`, `own` (see `time_by_stage`).
    """

    @property
    def speedup(self) -> float | None:
        """Of `best` over the baseline: weighted geometric mean over the timed sizes."""
        return None if self.best is None else self.best.speedup

    @property
    def written_by(self) -> str:
        """`model`, `playbook` or `human`; empty without a kernel."""
        return "" if self.best is None else self.best.written_by

    @property
    def file(self) -> Path | None:
        """Where `source` lies, beside its report."""
        return None if self.best is None else self.run_dir / "best" / SOLUTION


def read_result(folder: RunFolder) -> Result:
    """The result as the run's folder has it. Raises UsageError where that is no run."""
    run, recorded = folder.read_run(), read_events(folder.events)
    events = [one.event for one in recorded]
    attempts = judged(recorded)
    finished = [one for one in events if isinstance(one, RunFinished)]
    chosen = [one.incumbent for one in events if isinstance(one, IncumbentChosen)]
    name = finished[-1].best if finished else next(reversed(chosen), None)
    ends = [one.reason for one in events if isinstance(one, (RunFinished, RunInterrupted))]
    again = [one for one in events if isinstance(one, WinnerRemeasured)]
    return Result(
        run_id=folder.name,
        run_dir=folder.path,
        task=run["task"],
        device=run["device"],
        hardware=run["hardware"],
        time_source=run["time_source"],
        l2=next((one.l2 for one in events if isinstance(one, RunStarted)), ""),
        generator=run["generator"],
        model=run["model"],
        strategy=run["strategy"],
        seed=run["request"]["seed"],
        note=run["note"],
        finished=bool(finished),
        reason=next(reversed(ends), ""),
        rounds=max((one.round for one in events if isinstance(one, RoundBegan)), default=0),
        attempts=attempts,
        best=find_best(folder, attempts, name),
        source=folder.source(name) if name else "",
        remeasured=next(reversed(again), None),
        usage=spent(events),
        seconds=time_by_stage(recorded),
    )


def find_best(folder: RunFolder, attempts: Sequence[Attempt], name: str | None) -> Attempt | None:
    """The attempt of that id; from its own file where the trace has lost it."""
    if name is None:
        return None
    return next((one for one in attempts if one.id == name), None) or folder.attempt(name)


def judged(recorded: Sequence[Recorded]) -> tuple[Attempt, ...]:
    """Every attempt once, in order; what a resumed run told again counts once."""
    found = {
        one.event.attempt.id: one.event.attempt
        for one in recorded
        if isinstance(one.event, AttemptJudged)
    }
    return tuple(found.values())


def spent(events: Iterable[Event]) -> Spent:
    """All model calls together."""
    budget = Budget()
    budget.restore(events)
    return budget.spent
