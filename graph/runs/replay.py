"""A run whose answers are those recorded in another: what it is asked for, what has to be there,
and what came of it.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cuda_llm.agents.llm.budget import Budget
from cuda_llm.agents.protocols import Generator
from cuda_llm.codec import decode
from cuda_llm.errors import UnusableFile, UsageError
from cuda_llm.graph.request import Overrides, RunRequest
from cuda_llm.graph.review_decisions import Decisions, Review, as_answer
from cuda_llm.graph.runs.record import changed_files, recorded_request
from cuda_llm.graph.runs.recorded_bench import RecordedBench, recorded_bench
from cuda_llm.graph.runs.recorded_course import RecordedCourse, recorded_reviews
from cuda_llm.graph.runs.recorded_device import RecordedDevice, recorded_device
from cuda_llm.graph.runs.recorded_replies import (
    RecordedClients,
    RecordedGenerator,
    RecordedReplies,
)
from cuda_llm.search import Author, Kind
from cuda_llm.tasks.task import Task
from cuda_llm.traces.event_log import Recorded, is_being_written, read_trace
from cuda_llm.traces.events import (
    AttemptJudged,
    ModelCalled,
    Record,
    RunFinished,
    RunStarted,
)
from cuda_llm.traces.find import find_run
from cuda_llm.traces.run_folder import RunFolder

OURS = ("llm", "playbook")
"""Generators of which today's code is run; of others the drafts are recorded."""
OF_MODELS = ("model", "reflection_model", "base_url", "agent_models")
"""Options of what a replay never asks."""
OF_DEVICES = ("device", "l2")
"""Options of what recorded measurements were made on."""
LATENESS = ("candidates", "rounds", "round_quorum", "max_minutes")
"""Options that decide for whom a round does not wait."""
PREFLIGHT = "preflight"
R0 = "r0-c1"
"""The kernel that the user brought."""
ASKED = frozenset({Kind.FIRST, Kind.FIX, Kind.IMPROVE, Kind.DEPART})
"""Kinds of briefs that a generator is asked."""


def as_asked(request: RunRequest, said: Collection[str]) -> RunRequest:
    """Return the request; of a replay, the recorded one with what is `said` in place of it.

    `said` names the fields of `request` that somebody gave. Raises UsageError where there is no
    such run, or where it cannot be replayed so.
    """
    if not request.replay:
        if request.replay_measurements:
            raise UsageError("--replay-measurements: of which run? name it with --replay RUN")
        if not request.task:
            raise UsageError("no task is named; see what there is: cuda-llm tasks list")
        return request
    if unused := [name for name in OF_MODELS if name in said]:
        flag = f"--{unused[0].replace('_', '-')}"
        raise UsageError(f"{flag}: a replay asks no model; leave it out")
    folder = _find(request)
    run = folder.read_run()
    before = recorded_request(folder, run)
    device = run.get("device_spec", before.device) if before.device == "auto" else before.device
    known = replace(
        before,
        device="auto" if "cluster" in said else device,
        model=before.model or run["model"],
        start=_start(folder, before.start),
        replay_measurements=False,
        out="",
        run_id="",
    )
    own = {name: getattr(request, name) for name in said if name != "task" or request.task}
    return replace(known, **{**own, "replay": str(folder.path)})


def _find(request: RunRequest) -> RunFolder:
    """Return the recorded run; beside where the new one shall lie, too."""
    try:
        return find_run(request.replay)
    except UsageError:
        if not request.out:
            raise
        return find_run(request.replay, Path(request.out).expanduser())


def _start(folder: RunFolder, path: str) -> str:
    """Return the user's own kernel where it lies unchanged, else the recorded copy."""
    if not path:
        return ""
    try:
        unchanged = Path(path).read_text(encoding="utf-8") == folder.source(R0)
    except (OSError, UnicodeDecodeError):
        unchanged = False
    return path if unchanged else str(folder.candidate(R0) / "source.cu")


@dataclass(frozen=True, kw_only=True)
class ReplayedRun:
    """What of a record answers in a run."""

    run: Mapping[str, Any]
    """Its run.json."""
    replies: RecordedReplies
    course: RecordedCourse
    """An observer of the replay."""
    ended: str
    """Why the recorded run ended; empty where it did not."""
    reviews: Mapping[int, Decisions]
    """What a person decided when the run stopped for review, by the round that followed."""
    generator: Generator | None
    """The user's own, by its drafts; None where ours is run, or where it was brought again."""
    device: RecordedDevice | None
    """None where today's device measures, as is `bench`."""
    bench: RecordedBench | None

    @property
    def clock(self) -> Callable[[], float]:
        """Return the clock of the run's minutes: where nothing is executed, that of the record."""
        return time.monotonic if self.bench is None else self.course.clock

    def seconds_left(self, budget: Budget) -> Callable[[], float]:
        """Return what says how long a round waits: by the record where nothing is executed."""
        return budget.seconds_left if self.bench is None else self.course.seconds_left

    def review(self, shown: Mapping[str, Any]) -> object:
        """Return the recorded answer to a review; None where there is none that can be given."""
        review = decode(Review, shown)
        decided = self.reviews.get(review.round)
        return None if decided is None or review.problem else as_answer(decided, review)

    def trials(self, budget: Budget) -> tuple[ModelCalled, ...]:
        """Return the recorded trial calls of the models, and count what they cost, once."""
        told = self.replies.calls.get(PREFLIGHT)
        if told is None or budget.counts(PREFLIGHT):
            return ()
        budget.restore([told])
        return (told,)

    def clients(
        self,
        folder: RunFolder,
        record: Record,
        budget: Budget,
        models: tuple[str, str],
        named: str,
    ) -> RecordedClients:
        """Return the clients of `models`, the generator's and reflection's; an empty one is none.

        `named` is the model that agents of the user's ask where they have none of their own.
        """
        asked = {one.agent for one in self.replies.calls.values()}
        own = {*self.run["request"].get("agent_models", {}), *asked}
        return RecordedClients(
            replies=self.replies,
            course=self.course,
            store=folder,
            record=record,
            budget=budget,
            model=models[0],
            critic_model=models[1],
            named=None if named else own,
            ended=self.ended,
        )


def open_replay(request: RunRequest, overrides: Overrides, task: Task) -> ReplayedRun:
    """Open the record that a request names, and read all of it that will answer.

    Raises UsageError: it is at work or damaged, of another task or another version of it, lacks
    something, or is to be measured by its record on another device.
    """
    folder = RunFolder(Path(request.replay))
    run = folder.read_run()
    before = recorded_request(folder, run)
    if is_being_written(folder.events):
        raise UsageError(f"{folder.path}: at work in another process; replay it when it has ended")
    _check_task(folder, run, task)
    _check_brought(folder, run, request, overrides)
    recorded = read_whole(folder)
    _check_replies(folder, recorded)
    events = [one.event for one in recorded]
    course = RecordedCourse(
        recorded,
        waits=request.replay_measurements
        and all(getattr(request, name) == getattr(before, name) for name in LATENESS),
        late_by_clock=not request.round_quorum,
    )
    device = None
    if request.replay_measurements:
        _check_device(run, before, request, overrides)
        device = recorded_device(folder, run)
    return ReplayedRun(
        run=run,
        replies=RecordedReplies(folder, recorded),
        course=course,
        ended=next((one.reason for one in reversed(events) if isinstance(one, RunFinished)), ""),
        reviews=recorded_reviews(folder, events) if before.review else {},
        generator=_own_generator(folder, run, request, recorded, course),
        device=device,
        bench=None if device is None else recorded_bench(folder, recorded, device.target, course),
    )


def read_whole(folder: RunFolder) -> tuple[Recorded, ...]:
    """Return the events of a run. Raises UsageError where some are lost.

    A kill may have torn the last line: nobody has seen that event.
    """
    trace = read_trace(folder.events)
    torn = trace.torn - (not folder.events.read_bytes().endswith(b"\n"))
    if torn > 0 or not any(isinstance(one.event, RunStarted) for one in trace.events):
        lost = f"{torn} of its lines cannot be read" if torn > 0 else "its first line is gone"
        raise UsageError(f"{folder.events}: damaged, {lost}; a replay needs them all: restore it")
    return trace.events


def _check_task(folder: RunFolder, run: Mapping[str, Any], task: Task) -> None:
    if task.name != run["task"]:
        raise UsageError(f"{folder.path}: a run of {run['task']}, not of {task.name}")
    if changed := changed_files(task, run["task_files"]):
        differ = f"of another version of task {task.name}: {', '.join(changed)} changed since"
        raise UsageError(f"{folder.path}: {differ}; a replay needs the task as it was")


def _check_brought(
    folder: RunFolder, run: Mapping[str, Any], request: RunRequest, overrides: Overrides
) -> None:
    answered = {"generator", *OF_MODELS}
    if request.replay_measurements:
        answered |= {"device", "bench"}
    missing = [one for one in run["brought"] if one not in answered | set(overrides.given)]
    if missing:
        own = ", ".join(missing)
        mend = f"bring it again: optimize(replay=..., {missing[0]}=...)"
        if {*missing} <= {"device", "bench"}:
            mend = "bring it again, or replay its answers too, with --replay-measurements"
        msg = f"run {folder.name} was started from Python with its own {own}; {mend}"
        raise UsageError(msg)
    if brought := [name for name in OF_MODELS if name in overrides.given]:
        raise UsageError(f"{brought[0]}: a replay asks no model; leave it out")


def _check_device(
    run: Mapping[str, Any], before: RunRequest, request: RunRequest, overrides: Overrides
) -> None:
    known = {before.device, run.get("device_spec", before.device)}
    is_other = request.device not in known or request.l2 != before.l2
    if is_other or {"device", "bench"} & set(overrides.given):
        mend = "leave --replay-measurements out to measure anew"
        raise UsageError(f"--device, --l2: what was recorded is of {run['device']}; {mend}")


def _check_replies(folder: RunFolder, recorded: Sequence[Recorded]) -> None:
    """Check that replies and drafts can be read. Raises UsageError naming the first that cannot."""
    answered = [one.event for one in recorded if isinstance(one.event, ModelCalled)]
    for call in dict.fromkeys(one.call for one in answered if one.outcome == "ok"):
        if call != PREFLIGHT and folder.load_reply(call) is None:
            path = folder.path / call / "reply.json"
            raise UnusableFile(path, "gone or damaged", "a replay needs it: restore it")
    for name in folder.candidates():
        folder.draft(name)


def _own_generator(
    folder: RunFolder,
    run: Mapping[str, Any],
    request: RunRequest,
    recorded: Sequence[Recorded],
    course: RecordedCourse,
) -> Generator | None:
    """Return the recorded drafts of a generator of the user's own, unless it is named anew."""
    before = run["request"]["generator"]
    if run["generator"] in OURS or request.generator != before:
        return None
    events = [one.event for one in recorded]
    authors: list[Author] = [
        one.attempt.written_by
        for one in events
        if isinstance(one, AttemptJudged) and one.attempt.kind in ASKED
    ]
    started = next(one for one in events if isinstance(one, RunStarted))
    return RecordedGenerator(
        folder=folder,
        course=course,
        name=started.generator,
        written_by=authors[0] if authors else "model",
    )
