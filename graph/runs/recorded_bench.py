"""A bench that answers from the record of a run: nothing is compiled or executed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cuda_llm.errors import UsageError
from cuda_llm.graph.candidate import read_validated
from cuda_llm.graph.runs.kept_measurements import (
    FOLDER,
    Measurements,
    read_contest,
    read_inspection,
)
from cuda_llm.graph.runs.recorded_course import RecordedCourse
from cuda_llm.graph.runs.recorded_verdicts import (
    Ended,
    duel_by_event,
    find_cut_short,
    find_ends,
    find_last_check,
    not_recorded,
    sha_of,
    verdict_in_short,
)
from cuda_llm.outcomes import InfraFailed, Passed, PublishedCheck, Verdict
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.bench import Inspected
from cuda_llm.tools.judge.duel import Contest
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.tools.validator.validate import Validated
from cuda_llm.traces.event_log import Recorded
from cuda_llm.traces.events import (
    AttemptJudged,
    BaselineJudged,
    ContestHeld,
    KernelInspected,
    StageLeft,
    WinnerRemeasured,
)
from cuda_llm.traces.run_folder import RunFolder

NOWHERE = Path("/nowhere")


@dataclass(frozen=True, kw_only=True)
class RecordedBench:
    """Answers each step as it was answered for the same source. Is a `DuelBench`."""

    folder: RunFolder
    target: str
    course: RecordedCourse
    baseline: KernelTimes
    names: Mapping[str, str]
    """The first candidate that had a source, judged or not, by `sha_of` it."""
    ended: Mapping[str, Ended]
    """By `sha_of` a source."""
    checks: Mapping[str, Verdict]
    """Of the last check of winners, by `sha_of` a source."""
    contests: Sequence[ContestHeld]
    inspections: Mapping[str, KernelInspected]
    """By `sha_of` a source."""
    kept: Measurements = field(init=False)
    is_last_check: bool = False

    def __post_init__(self) -> None:
        """Count contests from the first."""
        object.__setattr__(self, "kept", Measurements(self.folder.path / FOLDER))

    async def time_baseline(self) -> KernelTimes:
        """Return the recorded times."""
        return self.baseline

    async def compile(self, source: str, name: str) -> Compiled | Verdict:
        """Return the verdict that ended it there; else what stands for its files."""
        ended = await self._reach(source, "compile")
        if ended is None:
            return self._unknown("verdict on this kernel")
        if ended.stage == "compile" and not self.is_last_check:
            return ended.verdict
        profile = ended.verdict.profile if isinstance(ended.verdict, Passed) else None
        return Compiled(
            key=sha_of(source),
            name=name,
            source=source,
            target=self.target,
            library=NOWHERE,
            ptx=NOWHERE,
            kernels=() if profile is None else profile.resources,
        )

    async def validate(self, compiled: Compiled) -> Validated | Verdict:
        """Return the verdict that ended it there; else what was checked."""
        if self.is_last_check:
            return Validated()
        ended = await self._reach(compiled.source, "validate")
        if ended is None:
            return self._unknown("verdict on this kernel")
        if ended.stage == "validate":
            return ended.verdict
        kept = self.folder.candidate(ended.name) / "validated.json"
        return read_validated(kept) or Validated()

    async def profile(
        self, compiled: Compiled, validated: Validated, baseline: KernelTimes
    ) -> Verdict:
        """Return the verdict that was recorded last."""
        if self.is_last_check:
            return self.checks.get(compiled.key) or self._unknown("last check of this kernel")
        ended = await self._reach(compiled.source, "profile")
        return self._unknown("verdict on this kernel") if ended is None else ended.verdict

    async def check_as_published(
        self, compiled: Compiled, verdict: Verdict
    ) -> PublishedCheck | None:
        """Return what was recorded of the kernel."""
        ended = self.ended.get(compiled.key)
        kept = None if ended is None else self.folder.attempt(ended.name)
        return None if kept is None else kept.published_check

    def with_fresh_inputs(self) -> "RecordedBench":
        """Return the bench that answers with the last check of winners."""
        return replace(self, is_last_check=True)

    async def contest(
        self, contenders: Sequence[Compiled], incumbent: Compiled
    ) -> Contest | InfraFailed:
        """Return the contest that these kernels held."""
        kept = read_contest(self.kept.place_contest(contenders, incumbent))
        return kept or self._contest_by_events(contenders, incumbent)

    async def inspect(self, compiled: Compiled) -> Inspected:
        """Return the recorded findings."""
        unknown = Inspected(not_inspected=self._unknown("inspection").detail)
        ended = self.ended.get(compiled.key)
        if ended is None:
            return unknown
        place = self.kept.place_inspection(compiled.source)
        kept = read_inspection(place, self.folder.candidate(ended.name))
        if kept is not None:
            return kept
        told = self.inspections.get(compiled.key)
        if told is None:
            return unknown
        fault = verdict_in_short(told.code, "") if told.code else None
        return Inspected(fault=fault, notes=told.notes, not_inspected=told.not_inspected)

    async def _reach(self, source: str, stage: str) -> Ended | None:
        """Return what became of the source, when it may leave the stage."""
        key = sha_of(source)
        if key in self.names and not self.is_last_check:
            await self.course.hold(self.names[key], stage)
        return self.ended.get(key)

    def _unknown(self, what: str) -> InfraFailed:
        return not_recorded(self.folder, what)

    def _contest_by_events(
        self, contenders: Sequence[Compiled], incumbent: Compiled
    ) -> Contest | InfraFailed:
        """Return the contest as the events of a run tell of it that kept no more."""
        names = [self._name(one) for one in contenders]
        rivals = {
            one.contender: one for one in self.contests if one.incumbent == self._name(incumbent)
        }
        told = [rivals[one] for one in names if one in rivals]
        if not told:
            return self._unknown("contest of these kernels")
        faster = [
            (one.speedup or 0.0, -place)
            for place, one in enumerate(told)
            if one.outcome == "faster" and not one.fault
        ]
        fastest = -max(faster)[1] if faster else None
        return Contest(duels=tuple(map(duel_by_event, told)), fastest=fastest)

    def _name(self, compiled: Compiled) -> str:
        ended = self.ended.get(compiled.key)
        return "" if ended is None else ended.name


def recorded_bench(
    folder: RunFolder, recorded: Sequence[Recorded], target: str, course: RecordedCourse
) -> RecordedBench:
    """Read everything that a bench once answered.

    Raises UsageError naming what is damaged, or what the record lacks.
    """
    events = [one.event for one in recorded]
    base = next((one for one in reversed(events) if isinstance(one, BaselineJudged)), None)
    if base is None:
        raise UsageError(f"{folder.path}: its record ends before the baseline was timed")
    attempts = {one.attempt.id: one.attempt for one in events if isinstance(one, AttemptJudged)}
    left = {one.candidate: one for one in events if isinstance(one, StageLeft)}
    shas = {one.id: one.source_sha for one in attempts.values()}
    inspected = [one for one in events if isinstance(one, KernelInspected)]
    contests = [one for one in events if isinstance(one, ContestHeld)]
    if not (folder.path / FOLDER).is_dir():
        # What these events tell has to do; better told now than in the middle of the run.
        for duel in contests:
            duel_by_event(duel)
        for found in inspected:
            if found.code:
                verdict_in_short(found.code, "")
    names = {sha_of(folder.source(one)): one for one in reversed(folder.candidates())}
    return RecordedBench(
        folder=folder,
        target=target,
        course=course,
        baseline=KernelTimes(
            times=tuple(zip((dict(one) for one in base.sizes), base.times_us, strict=True)),
            launches=(),
            bottlenecks=(),
            isolation=base.isolation,
        ),
        names=names,
        ended={**find_cut_short(folder, names, left), **find_ends(folder, attempts.values(), left)},
        checks={
            shas[one.attempt]: find_last_check(folder, one)
            for one in events
            if isinstance(one, WinnerRemeasured) and one.attempt in shas
        },
        contests=contests,
        inspections={shas[one.attempt]: one for one in inspected if one.attempt in shas},
    )
