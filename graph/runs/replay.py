"""A run answered by the record of another: its kernels, the replies of its models, and a device
that knows by the hash of a kernel's source how that was judged.

docs/traces.md says what a replay promises.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cuda_llm.agents.llm.budget import Budget
from cuda_llm.agents.protocols import Trial
from cuda_llm.agents.situation import Situation
from cuda_llm.capabilities import Capabilities
from cuda_llm.codec import decode
from cuda_llm.conversation import Ask, Call, CallFailed, Reply
from cuda_llm.errors import UnusableFile, UsageError
from cuda_llm.graph.candidate import read_validated
from cuda_llm.graph.context import no_client
from cuda_llm.graph.measurements import read_contests, read_inspection, read_last_check
from cuda_llm.graph.parts import Parts, Replay
from cuda_llm.graph.runs.record import changed_files, recorded_config
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import (
    Duplicate,
    InfraFailed,
    NoCode,
    Passed,
    PublishedCheck,
    Verdict,
    component_of,
)
from cuda_llm.profile import Profile
from cuda_llm.run_config import RunConfig, flag_of, option_of
from cuda_llm.search import Attempt, Author, Brief, Draft, Kind
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import DescribedDevice
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.bench import Inspected
from cuda_llm.tools.judge.duel import Contest
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.tools.validator.validate import Validated
from cuda_llm.traces.event_log import is_being_written, read_events, read_trace
from cuda_llm.traces.events import (
    BaselineJudged,
    Event,
    ModelCalled,
    Record,
    RoundBegan,
    RunFinished,
    RunStarted,
)
from cuda_llm.traces.files import read_text
from cuda_llm.traces.find import find_run
from cuda_llm.traces.run_folder import RunFolder

RECORDED = "recorded"
"""Device of a replay that executes nothing."""
NOT_RECORDED = "not_recorded"
"""Outcome of a call, and kind of a NoCode, for which the record holds no answer."""
COMPONENT = "record"
"""Component of the InfraFailed of a kernel that the record does not know."""
SAME, OTHER = "same", "other"
"""Values of `ModelCalled.replayed`: the recorded prompt was the same, or another."""
OF_MODELS = ("model", "reflection_model", "base_url", "agent_models")
"""Options of models, which a replay never asks."""
PREFLIGHT = "preflight"
R0 = "r0-c1"
"""Id of the candidate that is the user's own kernel."""
ASKED = frozenset({Kind.FIRST, Kind.FIX, Kind.IMPROVE, Kind.DEPART})
"""Kinds of briefs that go to a generator."""
NOWHERE = Path("/nowhere")


def as_asked(config: RunConfig) -> RunConfig:
    """Return the configuration; of a replay, the recorded one with what was given in its place.

    Raises UsageError where there is no such run, or where it cannot be replayed so.
    """
    given = config.model_fields_set
    if not config.replay:
        if not config.task:
            raise UsageError("no task is named; see what there is: cuda-llm tasks list")
        return config
    if unused := [name for name in OF_MODELS if name in given]:
        raise UsageError(f"{flag_of(unused[0])}: a replay asks no model; leave it out")
    if "l2" in given and "device" not in given:
        raise UsageError("--l2: nothing is timed in a replay without --device")
    folder = _find(config)
    run = folder.read_run()
    before = recorded_config(folder, run)
    # A replay ends with its record.
    without_limits = {name: None for name in RunConfig.model_fields if option_of(name).ends_run}
    known = before.changed(
        **without_limits,
        device=RECORDED,
        model=before.model or run["model"],
        start=_start(folder, before.start),
        out=RunConfig().out,
        run_id="",
    )
    own = {name: getattr(config, name) for name in given}
    return known.changed(**{**own, "replay": str(folder.path)})


def _find(config: RunConfig) -> RunFolder:
    """Return the folder of the recorded run, looked up also beside the new run's folder."""
    try:
        return find_run(config.replay)
    except UsageError:
        if "out" not in config.model_fields_set:
            raise
        return find_run(config.replay, Path(config.out).expanduser())


def _start(folder: RunFolder, path: str) -> str:
    """Return the user's own kernel where it lies unchanged, else the recorded copy."""
    if not path:
        return ""
    try:
        unchanged = Path(path).read_text(encoding="utf-8") == folder.source(R0)
    except (OSError, UnicodeDecodeError):
        unchanged = False
    return path if unchanged else str(folder.candidate(R0) / "source.cu")


def open_replay(config: RunConfig, brought: Parts, task: Task) -> Replay:
    """Open the record that a configuration names, and read all of it that will answer.

    Raises UsageError: it is at work or damaged, of another task, or was started with parts that are
    not brought again.
    """
    folder = RunFolder(Path(config.replay))
    run = folder.read_run()
    if is_being_written(folder.events):
        raise UsageError(f"{folder.path}: at work in another process; replay it when it has ended")
    if task.name != run["task"]:
        raise UsageError(f"{folder.path}: a run of {run['task']}, not of {task.name}")
    executes = config.device != RECORDED or {"device", "bench"} & set(brought.given)
    _check_brought(folder, run, brought, executes=bool(executes))
    events = read_whole(folder)
    calls = {one.call: one for one in events if isinstance(one, ModelCalled)}
    _check_replies(folder, calls)
    ended = next((one.reason for one in reversed(events) if isinstance(one, RunFinished)), "")
    rounds = (one.round for one in events if isinstance(one, RoundBegan))
    is_own = config.generator != run["request"]["generator"] or brought.generator is not None
    device = None if executes else recorded_device(folder, run, events, task)
    return Replay(
        folder=folder,
        calls=calls,
        generator=None if is_own else recorded_generator(folder, run["generator"]),
        tuner=None if is_own else RecordedTuner(folder),
        device=device,
        bench=device,
        last_round=max(rounds, default=0),
        reason="" if ended == "rounds" else ended,
    )


def read_whole(folder: RunFolder) -> tuple[Event, ...]:
    """Return the events of a run. Raises UsageError where some are lost.

    A kill may have torn the last line: nobody has seen that event.
    """
    trace = read_trace(folder.events)
    torn = trace.torn - (not folder.events.read_bytes().endswith(b"\n"))
    if torn > 0 or not any(isinstance(one.event, RunStarted) for one in trace.events):
        lost = f"{torn} of its lines cannot be read" if torn > 0 else "its first line is gone"
        raise UsageError(f"{folder.events}: damaged, {lost}; a replay needs them all: restore it")
    return tuple(one.event for one in trace.events)


def _check_brought(
    folder: RunFolder, run: Mapping[str, Any], brought: Parts, *, executes: bool
) -> None:
    answered = {"generator", "tuner", *OF_MODELS, *(() if executes else ("device", "bench"))}
    missing = [one for one in run["brought"] if one not in answered | set(brought.given)]
    if missing:
        own = ", ".join(missing)
        remedy = f"bring it again: optimize(replay=..., {missing[0]}=...)"
        raise UsageError(f"run {folder.name} was started from Python with its own {own}; {remedy}")
    if unused := [name for name in OF_MODELS if name in brought.given]:
        raise UsageError(f"{unused[0]}: a replay asks no model; leave it out")


def _check_replies(folder: RunFolder, calls: Mapping[str, ModelCalled]) -> None:
    """Check that replies and drafts can be read. Raises UsageError naming the first that cannot."""
    for call, recorded_call in calls.items():
        if recorded_call.outcome == "ok" and call != PREFLIGHT and folder.load_reply(call) is None:
            path = folder.path / call / "reply.json"
            raise UnusableFile(path, "gone or damaged", "a replay needs it: restore it")
    for name in folder.candidates():
        folder.draft(name)


# Replies


@dataclass(frozen=True, kw_only=True)
class RecordedClients:
    """Clients of the models of a run, none of which is opened."""

    replay: Replay
    store: RunFolder
    record: Record
    budget: Budget
    """Counts what the recorded calls cost."""
    asks_critic: bool

    def writer(self) -> Ask:
        """Return what answers the generator."""
        return self.answer

    def critic(self) -> Ask | None:
        """Return the client of reflection; None where reflection asks no model."""
        return self.answer if self.asks_critic else None

    def of_agent(self, agent: str) -> Ask:
        """Return what answers an agent, generator or reflector of the user's."""
        asked = {one.agent for one in self.replay.calls.values()}
        return self.answer if agent in asked else no_client(agent)

    async def answer(self, call: Call) -> Reply | CallFailed:
        """Return the recorded answer; a CallFailed of kind `not_recorded` without a recorded
        answer."""
        record = self.replay.folder
        self.store.write_prompt(call)
        place = self.replay.find_place(call.id)
        recorded_call = None if place is None else self.replay.calls.get(place)
        reply = None if place is None else record.load_reply(place)
        if place is None or (
            reply is None and (recorded_call is None or recorded_call.outcome == "cancelled")
        ):
            detail = f"the record of {record.name} holds no answer to {call.id}"
            self._tell(call, {"outcome": NOT_RECORDED, "detail": detail, "tries": 0})
            return CallFailed(kind=NOT_RECORDED, detail=detail, tries=0)
        asked = [read_text(one / "prompt.md") for one in (record.path / place, self._path(call))]
        told_now = {"replayed": SAME if asked[0] == asked[1] else OTHER}
        if reply is None:
            assert recorded_call is not None, "the call failed, as its event says"
            self._tell(call, {**vars(recorded_call), **told_now})
            return CallFailed(
                kind=recorded_call.outcome,
                detail=recorded_call.detail,
                tries=recorded_call.tries,
                seconds=recorded_call.seconds,
            )
        if not self.budget.counts(call.id):
            # Where a kill prevented the event of a reply, the reply says what it cost.
            cost = {"tries": reply.tries, "seconds": reply.seconds, **vars(reply.usage)}
            known = (
                vars(recorded_call)
                if recorded_call is not None and recorded_call.outcome == "ok"
                else cost
            )
            self._tell(call, {"model": reply.model, **known, **told_now, "outcome": "ok"})
        self.store.write_reply(call.id, reply)
        return reply

    def _path(self, call: Call) -> Path:
        return self.store.path / call.id

    def _tell(self, call: Call, about: Mapping[str, Any]) -> None:
        event = ModelCalled(**{"model": "", **about, "call": call.id, "agent": call.agent})
        self.budget.restore([event])
        self.record(event)


# Kernels


@dataclass(frozen=True)
class RecordedGenerator:
    """Answers each brief with the kernel that was written for the candidate of that name."""

    folder: RunFolder
    name: str
    written_by: Author

    async def generate(self, brief: Brief, situation: Situation) -> Draft | NoCode:
        """Return the recorded draft; a NoCode of kind `not_recorded` without a recorded draft."""
        draft = self.folder.draft(brief.id)
        if draft is None:
            message = f"the record of {self.folder.name} holds no draft of {brief.id}"
            return NoCode(kind=NOT_RECORDED, message=message)
        return draft


def recorded_generator(folder: RunFolder, name: str) -> RecordedGenerator | None:
    """Return the generator; None where today's code writes from replies, or the tuner alone."""
    if name in ("llm", "tuner"):
        return None
    attempts = filter(None, map(folder.attempt, folder.candidates()))
    authors = (one.written_by for one in attempts if one.kind in ASKED)
    unknown: Author = "playbook" if name == "playbook" else "model"
    return RecordedGenerator(folder, name, next(authors, unknown))


@dataclass(frozen=True)
class RecordedTuner:
    """Tries the points that were tried in the same round."""

    folder: RunFolder

    def propose(
        self, situation: Situation, judged: Sequence[Attempt], count: int
    ) -> tuple[Trial, ...]:
        """Return at most `count` trials of kernels that were judged here, too."""
        known = {one.id for one in situation.attempts}
        found = []
        for name in self.folder.candidates():
            brief = self.folder.brief(name)
            draft = self.folder.draft(name)
            if brief is None or (brief.kind, brief.round) != (Kind.TUNE, situation.round):
                continue
            if brief.parent in known and isinstance(draft, Draft):
                found.append(Trial(parent=brief.parent or "", draft=draft))
        return tuple(found[:count])


# Device


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The outcome of the first recorded candidate with one source."""

    name: str
    stage: str
    """Stage that ended the candidate."""
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class RecordedDevice(DescribedDevice):
    """The device of a recorded run, and its bench: each step is answered as it was answered for the
    same source, and nothing is executed. Is a `Device` and a `DuelBench`.
    """

    folder: RunFolder
    spec: str
    baseline: KernelTimes
    ended: Mapping[str, Ended]
    """Outcomes by `sha_of` the source."""
    contests_held: Counter[tuple[str, ...]] = field(default_factory=Counter)
    """Number of contests held so far, by the sources of the contest: equal kernels may meet again
    in a later round."""
    is_last_check: bool = False

    async def time_baseline(self) -> KernelTimes:
        """Return the recorded times."""
        return self.baseline

    async def compile(self, source: str, name: str) -> Compiled | Verdict:
        """Return the verdict that ended the kernel at this stage; else the value that stands for
        the kernel's files."""
        found = self.ended.get(sha_of(source))
        if found is None:
            return self._unknown("verdict on this kernel")
        if found.stage == "compile" and not self.is_last_check:
            return found.verdict
        profile = found.verdict.profile if isinstance(found.verdict, Passed) else None
        return Compiled(
            key=sha_of(source),
            name=name,
            source=source,
            target=self.hardware.target,
            library=NOWHERE,
            ptx=NOWHERE,
            kernels=() if profile is None else profile.resources,
        )

    async def validate(self, compiled: Compiled) -> Validated | Verdict:
        """Return the verdict that ended the kernel at this stage; else the recorded validation."""
        found = self.ended[compiled.key]
        if self.is_last_check:
            return Validated()
        if found.stage == "validate":
            return found.verdict
        return read_validated(self.folder.candidate(found.name) / "validated.json") or Validated()

    async def profile(
        self, compiled: Compiled, validated: Validated, baseline: KernelTimes
    ) -> Verdict:
        """Return the verdict that was recorded last."""
        if self.is_last_check:
            kept = read_last_check(self.folder, compiled.source)
            return kept or self._unknown("last check of this kernel")
        return self.ended[compiled.key].verdict

    async def check_as_published(
        self, compiled: Compiled, verdict: Verdict
    ) -> PublishedCheck | None:
        """Return what was recorded of the kernel."""
        attempt = self.folder.attempt(self.ended[compiled.key].name)
        return None if attempt is None else attempt.published_check

    def with_fresh_inputs(self) -> "RecordedDevice":
        """Return the bench that answers with the last check of winners."""
        return replace(self, is_last_check=True)

    async def contest(
        self, contenders: Sequence[Compiled], incumbent: Compiled
    ) -> Contest | InfraFailed:
        """Return the contest that these kernels held."""
        sources = tuple(one.source for one in (*contenders, incumbent))
        held = read_contests(self.folder, sources)
        if not held:
            return self._unknown("contest of these kernels")
        place = min(self.contests_held[sources], len(held) - 1)
        self.contests_held[sources] += 1
        return held[place]

    async def inspect(self, compiled: Compiled, profile: Profile) -> Inspected:
        """Return the recorded findings."""
        candidate = self.folder.candidate(self.ended[compiled.key].name)
        kept = read_inspection(self.folder, compiled.source, candidate)
        return kept or Inspected(not_inspected=self._unknown("inspection").detail)

    def _unknown(self, what: str) -> InfraFailed:
        detail = f"the record of {self.folder.name} holds no {what}"
        return InfraFailed(component=COMPONENT, detail=detail)


def sha_of(source: str) -> str:
    """Return the SHA-256 of a source, as attempts hold it."""
    return hashlib.sha256(source.encode(errors="replace")).hexdigest()


def recorded_hardware(folder: RunFolder) -> Hardware:
    """Return the GPU of a run as run.json describes it. Raises UsageError where it does not."""
    try:
        return decode(Hardware, folder.read_run()["device_details"]["hardware"])
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{folder.path / 'run.json'}: device_details.{error}") from None


def recorded_device(
    folder: RunFolder, run: Mapping[str, Any], events: Sequence[Event], task: Task
) -> RecordedDevice:
    """Return the device of a run as run.json describes it, with everything that it answered.

    Raises UsageError naming what is damaged or what the record lacks. Files of the task that have
    changed since are named in a note.
    """
    base = next((one for one in reversed(events) if isinstance(one, BaselineJudged)), None)
    if base is None:
        raise UsageError(f"{folder.path}: its record ends before the baseline was timed")
    details, sizes = run["device_details"], [dict(one) for one in base.sizes]
    hardware = recorded_hardware(folder)
    try:
        capabilities = decode(Capabilities, details["capabilities"])
        notes = tuple(details["notes"])
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{folder.path / 'run.json'}: device_details.{error}") from None
    changed = changed_files(task, run["task_files"])
    since = (f"task {task.name} has changed since: {', '.join(changed)}",) if changed else ()
    return RecordedDevice(
        folder=folder,
        spec=run["device_spec"],
        name=run["device"],
        hardware=hardware,
        capabilities=capabilities,
        version=RECORDED,
        notes=(*notes, *since),
        baseline=KernelTimes(
            times=tuple(zip(sizes, base.times_us, strict=True)),
            launches=(),
            bottlenecks=(),
            isolation=base.isolation,
        ),
        ended=find_ends(folder),
    )


def find_ends(folder: RunFolder) -> dict[str, Ended]:
    """Return what became of each source, by its SHA-256. Raises UsageError: a verdict is gone."""
    found: dict[str, Ended] = {}
    for one in filter(None, map(folder.attempt, folder.candidates())):
        stage = [*one.seconds][-1] if one.seconds else "generate"
        if not one.source_sha or stage == "generate":
            continue
        verdict = _verdict(folder, one.id)
        if isinstance(verdict, Duplicate):
            # Equal but for its layout to a kernel of its round, whose verdict counts for both.
            verdict = _verdict(folder, verdict.of)
        found.setdefault(one.source_sha, Ended(name=one.id, stage=stage, verdict=verdict))
    return found


def _verdict(folder: RunFolder, name: str) -> Verdict:
    verdict = folder.kept_verdict(name)
    lost = isinstance(verdict, Passed) and verdict.profile is None
    if verdict is None or lost:
        file = "profile.json" if lost else "verdict.json"
        raise UnusableFile(folder.candidate(name) / file, "gone", "a replay needs it: restore it")
    return verdict


# What came of it


@dataclass(frozen=True, kw_only=True)
class ReplayAccount:
    """The calls and kernels of a replay that the record answered, and those without an answer."""

    of: Path
    """Folder of the recorded run."""
    measurements: bool
    """Whether the recorded device judged the kernels, so that nothing was executed."""
    answered: int
    """Calls of models and of a generator that the record answered."""
    unanswered: tuple[str, ...]
    """Calls to which the record holds no answer: `rounds/2/critique`, `candidates/r2-c1`."""
    prompts_differ: tuple[str, ...]
    """Calls that the record answered although the prompt or the brief differs from the recorded
    one."""
    unjudged: tuple[str, ...]
    """Candidates whose kernel was never judged there."""

    @property
    def differs_at(self) -> str:
        """Return where below both folders the first prompts that differ lie; empty without any.

        Questions of an agent are named by their words, so its whole turn is where to look.
        """
        if not self.prompts_differ:
            return ""
        call = self.prompts_differ[0]
        turn, _, name = call.rpartition("/")
        if name.startswith("ask-"):
            return turn
        file = "prompt.md" if (self.of / call / "prompt.md").exists() else "brief.json"
        return f"{call}/{file}"


def replay_account(folder: RunFolder) -> ReplayAccount | None:
    """Return how far the record answered; None where the run is no replay."""
    run = folder.read_run()
    of = run["request"].get("replay", "")
    if not of:
        return None
    record = RunFolder(Path(of))
    calls = {
        one.event.call: one.event
        for one in read_events(folder.events)
        if isinstance(one.event, ModelCalled)
    }
    missing = [one.call for one in calls.values() if one.outcome == NOT_RECORDED]
    other = [one.call for one in calls.values() if one.replayed == OTHER]
    drafts = _recorded_drafts(folder, run, record)
    for name in drafts:
        if record.draft(name) is None:
            missing.append(f"candidates/{name}")
        elif record.brief(name) != folder.brief(name):
            other.append(f"candidates/{name}")
    judged = filter(None, map(folder.attempt, folder.candidates()))
    return ReplayAccount(
        of=record.path,
        measurements=run["request"]["device"] == RECORDED,
        answered=len(calls) + len(drafts) - len(missing),
        unanswered=tuple(missing),
        prompts_differ=tuple(other),
        unjudged=tuple(one.id for one in judged if component_of(one.code) == COMPONENT),
    )


def _recorded_drafts(folder: RunFolder, run: Mapping[str, Any], record: RunFolder) -> list[str]:
    """Return the candidates that the record drafted in place of a generator."""
    if run["generator"] in ("llm", "tuner") or "generator" in run["brought"]:
        return []
    if not (record.path / "run.json").exists():
        return []
    if record.read_run()["request"]["generator"] != run["request"]["generator"]:
        return []
    asked = ((name, folder.brief(name)) for name in folder.candidates())
    return [name for name, brief in asked if brief is not None and brief.kind in ASKED]
