"""Who becomes the incumbent where times are measured: screening names contenders, a duel decides.

A round's candidates are timed briefly and on their own, maybe on several GPUs. The attempt that
the strategy chooses, and those that may be as fast, are first timed together with the present
incumbent on one GPU; the fastest is inspected by tools that are too slow for every candidate. The
strategy chooses again, knowing the outcome. The last incumbent is judged once more, on fresh
inputs, before it wins.
"""

import math
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from cuda_llm.agents.protocols import Choice
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.acceptance import TIE, find_regression, gain_over, score_doubt
from cuda_llm.graph.candidate import compiled
from cuda_llm.graph.context import RunContext
from cuda_llm.graph.guards import choose_by_strategy
from cuda_llm.graph.measurements import (
    read_contest,
    read_inspection,
    read_last_check,
    write_contest,
    write_inspection,
    write_last_check,
)
from cuda_llm.graph.toolbox import describe_speed
from cuda_llm.outcomes import InfraFailed, Passed, Verdict
from cuda_llm.profile import Profile, limiter
from cuda_llm.search import Attempt, DuelResult
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.bench import DuelBench, Inspected
from cuda_llm.tools.judge.duel import Contest
from cuda_llm.tools.judge.judge import judge
from cuda_llm.tools.profiler.explain_measured import explain_with_counters
from cuda_llm.tools.timing.comparison import SMALLEST_FLOOR
from cuda_llm.tools.timing.contest import Duel
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.traces.events import ContestHeld, KernelInspected, WinnerRemeasured
from cuda_llm.verdict_wording import describe

MOST_DUELS = 3
"""Largest number of duels in one round. Further contenders wait for a later round."""
MOST_TOLD = 4  # lines about a winner that failed its last check


async def hold_contest(
    context: RunContext, bench: DuelBench, names: Sequence[str], incumbent: str
) -> Contest | InfraFailed:
    """Time attempts together with the incumbent on one GPU."""
    built = []
    for one in (*names, incumbent):
        known = await compiled(context, context.folder.source(one))
        if not isinstance(known, Compiled):
            return InfraFailed(component="compiler", detail=f"{one} compiled before: {known.code}")
        built.append(known)
    return await bench.contest(built[:-1], built[-1])


def duel_event(
    round_: int, name: str, incumbent: str, outcome: Duel | InfraFailed, seconds: float
) -> ContestHeld:
    """Return the event that records a duel."""
    who = {"round": round_, "contender": name, "incumbent": incumbent, "seconds": seconds}
    if isinstance(outcome, InfraFailed):
        return ContestHeld(**who, outcome="", fault=outcome.code, detail=outcome.detail)  # type: ignore[arg-type]
    for verdict in outcome.faults.values():
        detail = " ".join(describe(verdict)[:1])
        return ContestHeld(**who, outcome=outcome.outcome, fault=verdict.code, detail=detail)  # type: ignore[arg-type]
    return ContestHeld(
        **who,  # type: ignore[arg-type]
        outcome=outcome.outcome,
        speedup=1 / outcome.ratio,
        speedup_low=1 / outcome.high,
        speedup_high=1 / outcome.low,
    )


def as_duel_result(event: ContestHeld) -> DuelResult:
    """Return the result that strategies see; an incumbent that failed has lost by any factor."""
    return DuelResult(
        contender=event.contender,
        incumbent=event.incumbent,
        outcome=event.outcome,  # type: ignore[arg-type]
        speedup=event.speedup or 1.0,
        speedup_low=event.speedup_low or 1.0,
        speedup_high=event.speedup_high or 1.0,
    )


@dataclass(frozen=True, kw_only=True)
class IncumbentChoice:
    """The choice of the incumbent, and the faults found before the choice."""

    choice: Choice
    unfit: dict[str, str] = field(default_factory=dict)
    """Fault for which an attempt may never be the incumbent, by the id of the attempt."""


@dataclass
class Contenders:
    """Attempts that may still become the incumbent, and the reasons why other attempts may not."""

    situation: Situation
    judged: tuple[Attempt, ...]
    refused: dict[str, str] = field(default_factory=dict)
    """Reason why an attempt may not be the incumbent, whatever its time, by the id of the
    attempt."""
    unfit: dict[str, str] = field(default_factory=dict)
    """Fault of each refused attempt that has a fault, by the id of the attempt."""
    beaten: dict[str, str] = field(default_factory=dict)
    """Id of the attempt that was faster still in the same contest, by the id of the refused
    attempt: the faster attempt may turn out to have a fault."""
    inspected: set[str] = field(default_factory=set)
    duels_held: int = 0
    contests_held: int = 0

    def refuse(self, name: str, why: str) -> None:
        """Exclude an attempt from this choice."""
        self.refused[name] = why
        self.judged = tuple(one for one in self.judged if one.id != name)

    def mark_unfit(self, name: str, fault: str) -> None:
        """Exclude an attempt from this and every later choice."""
        self.unfit[name] = fault
        self.refuse(name, fault)
        for other in [one for one, by in self.beaten.items() if by == name]:
            del self.beaten[other], self.refused[other]
            self.judged += (self.situation.attempt(other),)

    def mark_beaten(self, name: str, by: str) -> None:
        """Exclude an attempt that is faster than the incumbent, but not as fast as another."""
        self.beaten[name] = by
        self.refuse(name, f"slower than {by}, timed together")

    def add_duel(self, held: DuelResult) -> None:
        """Add the result of a duel to what the strategy sees."""
        duels = {**self.situation.duels, held.contender: held}
        self.situation = replace(self.situation, duels=duels)


async def choose_incumbent(
    context: RunContext, situation: Situation, judged: Sequence[Attempt]
) -> IncumbentChoice:
    """Return the strategy's choice, confirmed by a contest where the bench can hold a contest."""
    bench = context.bench
    if not situation.capabilities.duels or not isinstance(bench, DuelBench):
        return IncumbentChoice(choice=choose_by_strategy(context, situation, judged))
    contenders = Contenders(situation=situation, judged=tuple(judged))
    while True:
        choice = choose_by_strategy(context, contenders.situation, contenders.judged)
        if choice.incumbent in contenders.refused:
            return IncumbentChoice(
                choice=keep_incumbent(contenders, choice), unfit=contenders.unfit
            )
        batched = situation.capabilities.batched
        names = [] if batched else next_contenders(contenders.situation, choice)
        left = MOST_DUELS - contenders.duels_held
        if names and left > 0:
            await contest_incumbent(context, bench, contenders, names[:left])
        elif choice.incumbent in names:
            contenders.refuse(names[0], f"no duel: {MOST_DUELS} others had theirs")
        elif needs_inspection(contenders, choice):
            await inspect(context, bench, contenders, choice.incumbent or "")
        else:
            choice = replace(choice, verdicts={**choice.verdicts, **contenders.refused})
            return IncumbentChoice(choice=choice, unfit=contenders.unfit)


def keep_incumbent(contenders: Contenders, choice: Choice) -> Choice:
    """Keep the incumbent where the strategy insists on a kernel that was refused."""
    before = contenders.situation.incumbent
    return Choice(
        incumbent=None if before is None else before.id,
        reason=f"{choice.incumbent} was chosen, but {contenders.refused[choice.incumbent or '']}",
        verdicts={**choice.verdicts, **contenders.refused},
    )


def next_contenders(situation: Situation, choice: Choice) -> list[str]:
    """Return the attempts to time beside the incumbent before the choice can stand.

    The one chosen comes first. With it those that only the doubt of separate times made a tie, the
    fastest first, unless their times rule out a gain over the incumbent, or they are so slow at a
    size that they may not replace it however a contest ends.
    """
    before = situation.incumbent
    if before is None:
        return []
    chosen = None if choice.incumbent in (None, before.id) else choice.incumbent
    if chosen in situation.duels:
        return []
    ties = [
        one
        for one in situation.attempts
        if choice.verdicts.get(one.id) == "tie"
        and one.id not in (before.id, *situation.duels)
        and may_gain(situation, one, before)
        and not find_regression(situation, one, before)
    ]
    ties.sort(key=lambda one: one.speedup or 0.0, reverse=True)
    named = ([] if chosen is None else [situation.attempt(chosen)]) + ties
    fastest = max(named, key=lambda one: one.speedup or 0.0, default=before)
    return [one.id for one in named if one.id == chosen or may_win(situation, one, fastest)]


def may_gain(situation: Situation, contender: Attempt, incumbent: Attempt) -> bool:
    """Return whether separate times leave open that the contender is faster by more than a tie."""
    doubt = doubt_of_equals(situation, contender, incumbent)
    return gain_over(contender, incumbent) + doubt > TIE


def may_win(situation: Situation, contender: Attempt, fastest: Attempt) -> bool:
    """Return whether separate times leave open that it is as fast as the fastest contender.

    Only one becomes the incumbent; if that is found at fault, others are named again.
    """
    return gain_over(contender, fastest) + doubt_of_equals(situation, contender, fastest) >= 0


def doubt_of_equals(situation: Situation, one: Attempt, other: Attempt) -> float:
    """Return `score_doubt`, but not less than what equal kernels may differ by."""
    return math.hypot(score_doubt(situation, one, other), SMALLEST_FLOOR)


def needs_inspection(contenders: Contenders, choice: Choice) -> bool:
    """Return whether the chosen attempt is new and was not inspected."""
    before = contenders.situation.incumbent
    old = {None, None if before is None else before.id, *contenders.inspected}
    return choice.incumbent not in old


async def contest_incumbent(
    context: RunContext, bench: DuelBench, contenders: Contenders, names: Sequence[str]
) -> None:
    """Time the attempts together with the incumbent, and record the outcome of each."""
    incumbent = contenders.situation.incumbent
    assert incumbent is not None, "without an incumbent there is no contender"
    began = time.monotonic()
    sources = [context.folder.source(one) for one in (*names, incumbent.id)]
    round_ = contenders.situation.round
    found = read_contest(context.folder, round_, sources)
    if found is None:
        found = await hold_contest(context, bench, names, incumbent.id)
        write_contest(context.folder, round_, sources, found)
    seconds = time.monotonic() - began
    duels = (found,) * len(names) if isinstance(found, InfraFailed) else found.duels
    place = None if isinstance(found, InfraFailed) else found.fastest
    fastest = None if place is None else names[place]
    contenders.duels_held += len(duels)
    contenders.contests_held += 1
    for name, outcome in zip(names, duels, strict=False):
        event = duel_event(round_, name, incumbent.id, outcome, seconds)
        event = replace(event, number=contenders.contests_held)
        context.record(event)
        if event.outcome not in ("faster", "slower", "tie"):
            contenders.refuse(name, f"no duel: {event.fault}")
        elif isinstance(outcome, Duel) and "first" in outcome.faults:
            contenders.mark_unfit(name, f"{event.fault} when it was timed")
        elif event.outcome == "faster" and fastest not in (None, name):
            contenders.mark_beaten(name, fastest or "")
        else:
            contenders.add_duel(as_duel_result(event))


async def inspect(context: RunContext, bench: DuelBench, contenders: Contenders, name: str) -> None:
    """Inspect the kernel with further tools; record their findings, write their files."""
    contenders.inspected.add(name)
    began = time.monotonic()
    source = context.folder.source(name)
    found = read_inspection(context.folder, source, context.folder.candidate(name))
    if found is None:
        built = await compiled(context, source)
        if not isinstance(built, Compiled):
            return
        found = await bench.inspect(built, profile_of(context, name))
        for file, made in found.artefacts.items():
            context.folder.keep_file(name, file, made)
        write_inspection(context.folder, source, found)
    explain_attempt(context, name, found)
    fault = found.fault
    context.record(
        KernelInspected(
            round=contenders.situation.round,
            attempt=name,
            code="" if fault is None else fault.code,
            notes=found.notes,
            not_inspected=found.not_inspected,
            seconds=time.monotonic() - began,
        )
    )
    if fault is not None:
        contenders.mark_unfit(name, f"{fault.code}: {' '.join(describe(fault)[:1])}")


def profile_of(context: RunContext, name: str) -> Profile:
    """Return the profile of an attempt that passed; one without times where it has none."""
    verdict = context.folder.verdict(name)
    profile = verdict.profile if isinstance(verdict, Passed) else None
    hardware = context.device.hardware.name
    return profile or Profile(device=context.device.name, hardware=hardware, source="measured")


def explain_attempt(context: RunContext, name: str, found: Inspected) -> None:
    """Explain an attempt's time by the counters of its inspection, where there are any.

    The verdict in the run's folder has the new explanation from then on: prompts, reports and
    exports read it there.
    """
    verdict, attempt = context.folder.verdict(name), context.folder.attempt(name)
    if not found.counters or not isinstance(verdict, Passed) or verdict.profile is None:
        return
    profile = explain_with_counters(
        context.task, context.device.hardware, verdict.profile, found.counters
    )
    context.folder.write_verdict(name, replace(verdict, profile=profile))
    if attempt is not None:
        limit = limiter(profile.bottlenecks)
        limited_by = limit.code if limit else ""
        summary = describe_speed(profile)
        context.folder.write_attempt(replace(attempt, limited_by=limited_by, summary=summary))


def rank_attempts(situation: Situation, unfit: Collection[str]) -> list[Attempt]:
    """Return the incumbent, then all others that passed without a fault, fastest first."""
    passed = [
        one
        for one in situation.attempts
        if one.passed and one != situation.incumbent and one.id not in unfit
    ]
    passed.sort(key=lambda one: one.speedup or 0.0, reverse=True)
    return passed if situation.incumbent is None else [situation.incumbent, *passed]


async def confirm_winner(
    context: RunContext, ranked: Iterable[Attempt], baseline: KernelTimes
) -> WinnerRemeasured | None:
    """Return the event of the first of `ranked` that passes again; None where none does.

    Where our own parts break, the kernel keeps its first verdict.
    """
    for attempt in ranked:
        event = remeasured_event(attempt, await judge_again(context, attempt, baseline))
        context.record(event)
        if event.stands:
            return event
    return None


async def judge_again(context: RunContext, attempt: Attempt, baseline: KernelTimes) -> Verdict:
    """Judge the attempt again. Raises UsageError where the folder lost its source."""
    source = context.folder.same_source(attempt.id, attempt.source_sha)
    verdict = read_last_check(context.folder, source)
    if verdict is None:
        bench = context.bench.with_fresh_inputs()
        verdict = (await judge(bench, source, baseline=baseline)).verdict
        write_last_check(context.folder, source, verdict)
    return verdict


def remeasured_event(attempt: Attempt, verdict: Verdict) -> WinnerRemeasured:
    """Return the event that records the second verdict."""
    profile = verdict.profile if isinstance(verdict, Passed) else None
    sizes = () if profile is None else profile.sizes
    infra = isinstance(verdict, InfraFailed)
    return WinnerRemeasured(
        attempt=attempt.id,
        code=verdict.code,
        speedup=attempt.speedup if infra else None if profile is None else profile.speedup,
        times_us=attempt.times_us if infra else tuple(size.time_us for size in sizes),
        detail="" if profile else "; ".join(describe(verdict)[:MOST_TOLD]),
    )
