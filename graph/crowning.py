"""Who becomes the incumbent where times are measured: a screen names contenders, a duel decides.

A round's candidates are timed briefly and on their own, maybe on several GPUs. Whoever the strategy
would choose for that is first timed in turn with the present incumbent on one GPU, and inspected by
tools that are too slow for every candidate. The strategy chooses again, knowing what came of it.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategy import Choice
from cuda_llm.graph.contests import as_contested, held_contest, tell
from cuda_llm.graph.judging.bench import Arena
from cuda_llm.graph.stages import compiled
from cuda_llm.graph.steer import choose
from cuda_llm.graph.wiring import Wiring
from cuda_llm.search import Attempt, Contested
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.judge.contest import Contest
from cuda_llm.traces.events import KernelInspected
from cuda_llm.wording import describe

MOST_CONTESTS = 3
"""A round. Whoever would be the next contender waits for a later round."""


@dataclass(frozen=True, kw_only=True)
class Crowned:
    """The choice, and what was found on the way to it."""

    choice: Choice
    unfit: dict[str, str] = field(default_factory=dict)
    """By attempt: the fault for which it may never be the incumbent."""


@dataclass
class Field:
    """Who is still in the running."""

    situation: Situation
    judged: tuple[Attempt, ...]
    refused: dict[str, str] = field(default_factory=dict)
    """By attempt: why it may not be the incumbent, whatever its time."""
    unfit: dict[str, str] = field(default_factory=dict)
    """Those of them that are at fault."""
    inspected: set[str] = field(default_factory=set)
    held: int = 0

    def refuse(self, name: str, why: str) -> None:
        """Take an attempt out."""
        self.refused[name] = why
        self.judged = tuple(one for one in self.judged if one.id != name)

    def mark_unfit(self, name: str, fault: str) -> None:
        """Take it out for good."""
        self.unfit[name] = fault
        self.refuse(name, fault)

    def add_duel(self, held: Contested) -> None:
        """Let the strategy know what a duel came to."""
        duels = {**self.situation.duels, held.contender: held}
        self.situation = replace(self.situation, duels=duels)


async def crown(wiring: Wiring, situation: Situation, judged: Sequence[Attempt]) -> Crowned:
    """The strategy's choice, confirmed where the bench can and times are measured."""
    bench = wiring.bench
    if not situation.capabilities.duels or not isinstance(bench, Arena):
        return Crowned(choice=choose(wiring, situation, judged))
    contenders = Field(situation=situation, judged=tuple(judged))
    while True:
        choice = choose(wiring, contenders.situation, contenders.judged)
        if choice.incumbent in contenders.refused:
            return Crowned(choice=stay(contenders, choice), unfit=contenders.unfit)
        name = next_contender(contenders.situation, choice)
        if name is not None and contenders.held < MOST_CONTESTS:
            await contend(wiring, bench, contenders, name)
        elif name is not None and name == choice.incumbent:
            contenders.refuse(name, f"no duel: {MOST_CONTESTS} others had theirs")
        elif is_new(contenders, choice):
            await look_at(wiring, bench, contenders, choice.incumbent or "")
        else:
            choice = replace(choice, verdicts={**choice.verdicts, **contenders.refused})
            return Crowned(choice=choice, unfit=contenders.unfit)


def stay(contenders: Field, choice: Choice) -> Choice:
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


def is_new(contenders: Field, choice: Choice) -> bool:
    """Whether the chosen one was never inspected."""
    before = contenders.situation.incumbent
    old = {None, None if before is None else before.id, *contenders.inspected}
    return choice.incumbent not in old


async def contend(wiring: Wiring, bench: Arena, contenders: Field, name: str) -> None:
    """Time it beside the incumbent, and record what came of it."""
    incumbent = contenders.situation.incumbent
    assert incumbent is not None, "the first kernel that passes has nobody to beat"
    contenders.held += 1
    began = time.monotonic()
    outcome = await held_contest(wiring, bench, name, incumbent.id)
    seconds = time.monotonic() - began
    event = tell(contenders.situation.round, name, incumbent.id, outcome, seconds)
    wiring.record(event)
    if event.outcome not in ("faster", "slower", "tie"):
        contenders.refuse(name, f"no duel: {event.fault}")
    elif isinstance(outcome, Contest) and "first" in outcome.faults:
        contenders.mark_unfit(name, f"{event.fault} when it was timed")
    else:
        contenders.add_duel(as_contested(event))


async def look_at(wiring: Wiring, bench: Arena, contenders: Field, name: str) -> None:
    """Have further tools watch the kernel; record what they found, keep what they made."""
    contenders.inspected.add(name)
    began = time.monotonic()
    built = await compiled(wiring, wiring.bench, wiring.folder.source(name))
    if not isinstance(built, Compiled):
        return
    found = await bench.inspect(built)
    for file, made in found.artefacts.items():
        wiring.folder.keep_file(name, file, made)
    fault = found.fault
    wiring.record(
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
