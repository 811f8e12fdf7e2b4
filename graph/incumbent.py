"""Who becomes the incumbent where times are measured: screening names contenders, a duel decides.

A round's candidates are timed briefly and on their own, maybe on several GPUs. Whoever the strategy
would choose for that is first timed in turn with the present incumbent on one GPU, and inspected by
tools that are too slow for every candidate. The strategy chooses again, knowing what came of it.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cuda_llm.agents.protocols import Choice
from cuda_llm.agents.situation import Situation
from cuda_llm.graph.candidate import compiled
from cuda_llm.graph.context import RunContext
from cuda_llm.graph.guards import choose_by_strategy
from cuda_llm.outcomes import InfraFailed
from cuda_llm.search import Attempt, DuelResult
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.bench import DuelBench
from cuda_llm.tools.judge.duel import Duel
from cuda_llm.traces.events import ContestHeld, KernelInspected
from cuda_llm.wording import describe


async def run_duel(
    context: RunContext, bench: DuelBench, name: str, incumbent: str
) -> Duel | InfraFailed:
    """Time two attempts in turn."""
    pair = []
    for one in (name, incumbent):
        built = await compiled(context, context.bench, context.folder.source(one))
        if not isinstance(built, Compiled):
            return InfraFailed(component="compiler", detail=f"{one} compiled before: {built.code}")
        pair.append(built)
    return await bench.duel(*pair)


def duel_event(
    round_: int, name: str, incumbent: str, outcome: Duel | InfraFailed, seconds: float
) -> ContestHeld:
    """The event of a duel."""
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
    """What a strategy sees of it; an incumbent that failed has lost by any factor."""
    return DuelResult(
        contender=event.contender,
        incumbent=event.incumbent,
        outcome=event.outcome,  # type: ignore[arg-type]
        speedup=event.speedup or 1.0,
        speedup_low=event.speedup_low or 1.0,
        speedup_high=event.speedup_high or 1.0,
    )


MOST_DUELS = 3
"""A round. Whoever would be the next contender waits for a later round."""


@dataclass(frozen=True, kw_only=True)
class IncumbentChoice:
    """The choice, and what was found on the way to it."""

    choice: Choice
    unfit: dict[str, str] = field(default_factory=dict)
    """By attempt: the fault for which it may never be the incumbent."""


@dataclass
class Contenders:
    """Who is still in the running."""

    situation: Situation
    judged: tuple[Attempt, ...]
    refused: dict[str, str] = field(default_factory=dict)
    """By attempt: why it may not be the incumbent, whatever its time."""
    unfit: dict[str, str] = field(default_factory=dict)
    """Those of them that are at fault."""
    inspected: set[str] = field(default_factory=set)
    duels_held: int = 0

    def refuse(self, name: str, why: str) -> None:
        """Take an attempt out."""
        self.refused[name] = why
        self.judged = tuple(one for one in self.judged if one.id != name)

    def mark_unfit(self, name: str, fault: str) -> None:
        """Take it out for good."""
        self.unfit[name] = fault
        self.refuse(name, fault)

    def add_duel(self, held: DuelResult) -> None:
        """Let the strategy know what a duel came to."""
        duels = {**self.situation.duels, held.contender: held}
        self.situation = replace(self.situation, duels=duels)


async def choose_incumbent(
    context: RunContext, situation: Situation, judged: Sequence[Attempt]
) -> IncumbentChoice:
    """The strategy's choice, confirmed where the bench can and times are measured."""
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
        name = next_contender(contenders.situation, choice)
        if name is not None and contenders.duels_held < MOST_DUELS:
            await duel_with_incumbent(context, bench, contenders, name)
        elif name is not None and name == choice.incumbent:
            contenders.refuse(name, f"no duel: {MOST_DUELS} others had theirs")
        elif needs_inspection(contenders, choice):
            await inspect(context, bench, contenders, choice.incumbent or "")
        else:
            choice = replace(choice, verdicts={**choice.verdicts, **contenders.refused})
            return IncumbentChoice(choice=choice, unfit=contenders.unfit)


def keep_incumbent(contenders: Contenders, choice: Choice) -> Choice:
    """A strategy that insists on a kernel that was refused does not get it."""
    before = contenders.situation.incumbent
    return Choice(
        incumbent=None if before is None else before.id,
        reason=f"{choice.incumbent} was chosen, but {contenders.refused[choice.incumbent or '']}",
        verdicts={**choice.verdicts, **contenders.refused},
    )


def next_contender(situation: Situation, choice: Choice) -> str | None:
    """Who has to be timed beside the incumbent before this choice can stand.

    The one chosen; else the fastest that only the doubt of two separate times made a tie.
    """
    before = situation.incumbent
    if before is None:
        return None
    if choice.incumbent not in (None, before.id):
        return None if choice.incumbent in situation.duels else choice.incumbent
    ties = [
        one
        for one in situation.attempts
        if choice.verdicts.get(one.id) == "tie"
        and one.id not in situation.duels
        and (one.speedup or 0.0) > (before.speedup or 0.0)
    ]
    return max(ties, key=lambda one: one.speedup or 0.0).id if ties else None


def needs_inspection(contenders: Contenders, choice: Choice) -> bool:
    """Whether the chosen one was never inspected."""
    before = contenders.situation.incumbent
    old = {None, None if before is None else before.id, *contenders.inspected}
    return choice.incumbent not in old


async def duel_with_incumbent(
    context: RunContext, bench: DuelBench, contenders: Contenders, name: str
) -> None:
    """Time it beside the incumbent, and record what came of it."""
    incumbent = contenders.situation.incumbent
    assert incumbent is not None, "the first kernel that passes has nobody to beat"
    contenders.duels_held += 1
    began = time.monotonic()
    outcome = await run_duel(context, bench, name, incumbent.id)
    seconds = time.monotonic() - began
    event = duel_event(contenders.situation.round, name, incumbent.id, outcome, seconds)
    context.record(event)
    if event.outcome not in ("faster", "slower", "tie"):
        contenders.refuse(name, f"no duel: {event.fault}")
    elif isinstance(outcome, Duel) and "first" in outcome.faults:
        contenders.mark_unfit(name, f"{event.fault} when it was timed")
    else:
        contenders.add_duel(as_duel_result(event))


async def inspect(context: RunContext, bench: DuelBench, contenders: Contenders, name: str) -> None:
    """Have further tools watch the kernel; record what they found, keep what they made."""
    contenders.inspected.add(name)
    began = time.monotonic()
    built = await compiled(context, context.bench, context.folder.source(name))
    if not isinstance(built, Compiled):
        return
    found = await bench.inspect(built)
    for file, made in found.artefacts.items():
        context.folder.keep_file(name, file, made)
    fault = found.fault
    context.record(
        KernelInspected(
            round=contenders.situation.round,
            attempt=name,
            code="" if fault is None else fault.code,
            notes=found.notes,
            seconds=time.monotonic() - began,
        )
    )
    if fault is not None:
        contenders.mark_unfit(name, f"{fault.code}: {' '.join(describe(fault)[:1])}")
