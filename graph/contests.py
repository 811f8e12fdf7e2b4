"""Two attempts timed in turn: from their sources to a duel, and to its event."""

from cuda_llm.graph.judging.bench import Arena
from cuda_llm.graph.stages import compiled
from cuda_llm.graph.wiring import Wiring
from cuda_llm.outcomes import InfraFailed
from cuda_llm.search import Contested
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.judge.contest import Contest
from cuda_llm.traces.events import ContestHeld
from cuda_llm.wording import describe


async def held_contest(
    wiring: Wiring, bench: Arena, name: str, incumbent: str
) -> Contest | InfraFailed:
    """Time two attempts in turn."""
    pair = []
    for one in (name, incumbent):
        built = await compiled(wiring, wiring.bench, wiring.folder.source(one))
        if not isinstance(built, Compiled):
            return InfraFailed(component="compiler", detail=f"{one} compiled before: {built.code}")
        pair.append(built)
    return await bench.duel(*pair)


def tell(
    round_: int, name: str, incumbent: str, outcome: Contest | InfraFailed, seconds: float
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


def as_contested(event: ContestHeld) -> Contested:
    """What a strategy sees of it; an incumbent that failed has lost by any factor."""
    return Contested(
        contender=event.contender,
        incumbent=event.incumbent,
        outcome=event.outcome,  # type: ignore[arg-type]
        speedup=event.speedup or 1.0,
        speedup_low=event.speedup_low or 1.0,
        speedup_high=event.speedup_high or 1.0,
    )
