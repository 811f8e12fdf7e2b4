"""What agents add to the state, recorded in the trace."""

from collections.abc import Sequence

from cuda_llm.agents.reflector import Reflected
from cuda_llm.agents.seam import Contribution
from cuda_llm.graph.lean import lean
from cuda_llm.graph.state import SearchUpdate
from cuda_llm.graph.wiring import Wiring
from cuda_llm.outcomes import InfraFailed
from cuda_llm.search import Hint
from cuda_llm.traces.events import AgentDecided, AgentFailed, HintGiven


def contribute(
    wiring: Wiring, agent: str, round_: int, made: Contribution | InfraFailed
) -> SearchUpdate:
    """The update an agent's answer makes; one that failed adds nothing, and the trace tells why."""
    if isinstance(made, InfraFailed):
        wiring.record(AgentFailed(agent=agent, round=round_, error=made.detail))
        return {}
    note = made.note
    if made.decisions or note:
        text = "" if note is None else note.text
        wiring.record(AgentDecided(agent=agent, round=round_, decisions=made.decisions, note=text))
    update: SearchUpdate = {
        "error_hints": give(wiring, "error_hints", made.error_hints),
        "performance_hints": give(wiring, "performance_hints", made.performance_hints),
    }
    if note is not None:
        update["notes"] = {agent: lean(note)}
    return update


def as_contribution(made: Reflected | InfraFailed) -> Contribution | InfraFailed:
    """What a reflector answered, as any other agent would have."""
    return made if isinstance(made, InfraFailed) else Contribution(**vars(made))


def give(wiring: Wiring, channel: str, hints: Sequence[Hint]) -> list[str]:
    """Keep and record the hints; their ids, which the state holds."""
    kept = wiring.folder.keep_hints(hints)
    for hint in kept:
        wiring.record(HintGiven(channel=channel, hint=hint))
    return [hint.id for hint in kept]
