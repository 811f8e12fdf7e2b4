"""When the search ends."""

from collections.abc import Sequence

from cuda_llm.agents.situation import Situation
from cuda_llm.graph.steer import stop
from cuda_llm.graph.wiring import Wiring
from cuda_llm.search import Attempt

ROUNDS = "rounds"


def why_stop(situation: Situation, judged: Sequence[Attempt], wiring: Wiring) -> str:
    """Why no round should follow, in a few words; empty to go on."""
    if situation.round >= situation.plan.rounds:
        return ROUNDS
    return wiring.over() or broken(judged) or stop(wiring, situation)


def broken(judged: Sequence[Attempt]) -> str:
    """Whether our own parts, or a user's generator, fail whatever they are given."""
    if not judged or not all(one.code.startswith("INFRA_") for one in judged):
        return ""
    return f"nothing works: {judged[0].code}: {judged[0].summary}"
