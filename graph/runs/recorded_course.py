"""How far a replay has come in its record: which candidates are late there, how much time it had
taken, and what a person decided before each round.
"""

import asyncio
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from cuda_llm.graph.review import read_review, review_file
from cuda_llm.graph.review_decisions import Decisions
from cuda_llm.traces.event_line import identity_of, to_line
from cuda_llm.traces.event_log import Recorded
from cuda_llm.traces.events import (
    CandidateLate,
    Event,
    HintGiven,
    RoundBegan,
    RoundReviewed,
    RunResumed,
    StageEntered,
    StageLeft,
)
from cuda_llm.traces.run_folder import RunFolder

Stage = tuple[str, str]
"""Candidate and stage."""
LATE_S = 3.0
"""How long a round waits where candidates were late for the minutes were over; the answers of the
others take milliseconds."""
STRAYED_S = 60.0
"""The same where a quorum ends the round: only a replay that decides otherwise comes to wait."""


class RecordedCourse:
    """Where a replay stands beside its record: which stage has to wait, and how late it is there.

    An observer of the replay's events. A stage for which a round did not wait is held until the
    round in which it was left, and what ends candidates of a round until all that are late have
    come to theirs. With `waits` false none is: rounds wait for all, or for others than they did.
    """

    def __init__(
        self, recorded: Sequence[Recorded], *, waits: bool, late_by_clock: bool = False
    ) -> None:
        """Take whether only the end of the minutes made candidates late, with `late_by_clock`."""
        self._late_by_clock = late_by_clock
        self._seconds = dict(_seconds_by_event(recorded))
        late = _find_late(recorded) if waits else set()
        self._late_rounds = {round_ for _, round_ in late}
        self._late = late
        self._leaves = _rounds_left(recorded, late)
        self._last_stages = _find_last_stages(recorded) if late else set()
        self._come: set[Stage | str] = set()
        """Stages that were entered, and candidates that have ended."""
        rounds = (one.event.round for one in recorded if isinstance(one.event, RoundBegan))
        self.last_round = max(rounds, default=0)
        self._round = 0
        self._now_s = 0.0
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def is_beyond(self) -> bool:
        """Whether a round is at work that was never recorded."""
        return self._round > self.last_round

    def clock(self) -> float:
        """Return how many seconds the recorded run had been at work when it came here."""
        return self._now_s

    def __call__(self, event: Event) -> None:
        """Go on to the event; let go on what was late until this round."""
        round_ = event.round if isinstance(event, RoundBegan) else self._round
        self._now_s = max(self._now_s, self._seconds.get(_key(event, round_), 0.0))
        if self._late_by_clock and isinstance(event, CandidateLate):
            self._now_s = math.inf
        self._round = round_
        match event:
            case StageEntered(candidate=name, stage=stage):
                self._come.add((name, stage))
            case StageLeft(candidate=name, stage=stage, outcome=outcome):
                self._come |= {name} if _is_last(stage, outcome) else set()
        if isinstance(event, (RoundBegan, StageEntered, StageLeft)):
            self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)

    def seconds_left(self) -> float:
        """Return how long the round at work waits: for ever where no candidate was late."""
        if self._round not in self._late_rounds:
            return math.inf
        return LATE_S if self._late_by_clock else STRAYED_S

    async def hold(self, candidate: str, stage: str) -> None:
        """Return when the candidate may leave the stage."""
        while not self.is_beyond and self._has_to_wait((candidate, stage)):
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn

    def _has_to_wait(self, stage: Stage) -> bool:
        """Return whether it is late still, or would end a round before others are late in it."""
        if self._round < self._leaves.get(stage, 0):
            return True
        return stage in self._last_stages and any(
            round_ == self._round and one not in self._come and one[0] not in self._come
            for one, round_ in self._late
        )


def _find_late(recorded: Sequence[Recorded]) -> set[tuple[Stage, int]]:
    """Return whom a round did not wait for at which stage, and that round."""
    return {
        ((event.candidate, event.stage), round_)
        for round_, event in _by_round(recorded)
        if isinstance(event, CandidateLate)
    }


def _find_last_stages(recorded: Sequence[Recorded]) -> set[Stage]:
    """Return the stages that ended their candidate."""
    left = [one.event for one in recorded if isinstance(one.event, StageLeft)]
    return {(one.candidate, one.stage) for one in left if _is_last(one.stage, one.outcome)}


def _is_last(stage: str, outcome: str) -> bool:
    return stage == "profile" or outcome != "ok"


def _rounds_left(
    recorded: Sequence[Recorded], late: Iterable[tuple[Stage, int]]
) -> dict[Stage, float]:
    """Return the round in which each candidate that was late left its stage; infinity for never."""
    left = {
        (event.candidate, event.stage): round_
        for round_, event in _by_round(recorded)
        if isinstance(event, StageLeft)
    }
    # A round takes in what is there when it ends: what was late in it left after that.
    return {stage: max(left.get(stage, math.inf), last + 1.0) for stage, last in sorted(late)}


def _by_round(recorded: Sequence[Recorded]) -> Iterator[tuple[int, Event]]:
    """Yield each event with the round at work."""
    round_ = 0
    for one in recorded:
        round_ = one.event.round if isinstance(one.event, RoundBegan) else round_
        yield round_, one.event


def _key(event: Event, round_: int) -> str:
    return identity_of(json.loads(to_line(event, 0, "")), round_) or ""


def _seconds_by_event(recorded: Sequence[Recorded]) -> Iterator[tuple[str, float]]:
    """Yield each event with the seconds that the run had been at work, between processes apart."""
    worked_s, before_s, round_ = 0.0, None, 0
    for one in recorded:
        now_s = datetime.fromisoformat(one.at).timestamp()
        if before_s is not None and not isinstance(one.event, RunResumed):
            worked_s += max(0.0, now_s - before_s)
        before_s = now_s
        round_ = one.event.round if isinstance(one.event, RoundBegan) else round_
        if key := _key(one.event, round_):
            yield key, worked_s


def recorded_reviews(folder: RunFolder, events: Sequence[Event]) -> dict[int, Decisions]:
    """Return what was decided before each round.

    Older runs kept only the hints given, between a stop and the round that followed.
    """
    found: dict[int, Decisions] = {}
    answer: tuple[str, ...] | None = None
    for event in events:
        match event:
            case RunResumed():
                answer = ()
            case HintGiven(hint=hint) if answer is not None and hint.by == "user":
                answer = (*answer, hint.text)
            case RoundBegan(round=round_) if answer is not None:
                found[round_], answer = Decisions(add_hints=answer), None
            case _:
                continue
    reviewed = [one.round for one in events if isinstance(one, RoundReviewed)]
    kept = {one: read_review(review_file(folder.path, one)) for one in reviewed}
    return found | {number: one.decisions for number, one in kept.items() if one is not None}
