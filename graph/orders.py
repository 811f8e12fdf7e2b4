"""The briefs of a round: the strategy's, and those of the user's own kernel and the tuner."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cuda_llm.agents.situation import Situation
from cuda_llm.agents.tuner import Trial
from cuda_llm.errors import UsageError
from cuda_llm.graph.steer import write_briefs
from cuda_llm.graph.wiring import Wiring
from cuda_llm.search import Brief, Draft, Kind


def order(situation: Situation, wiring: Wiring) -> tuple[Brief, ...]:
    """What is asked of the generator; in round 0 the user's own kernel is judged instead.

    A playbook follows no direction, so it is told none: nothing could be learned of it.
    """
    if situation.round == 0:
        return own_kernel(wiring)
    briefs = write_briefs(wiring, situation)
    if wiring.generator.written_by == "playbook":
        return tuple(replace(brief, direction="") for brief in briefs)
    return briefs


def own_kernel(wiring: Wiring) -> tuple[Brief, ...]:
    """The order to judge the kernel that the user brought. Raises UsageError."""
    brief = Brief(id="r0-c1", round=0, index=1, kind=Kind.START)
    if wiring.folder.draft(brief.id) is None:
        path = Path(wiring.request.start)
        try:
            source = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{path}: cannot be read: {error}") from None
        wiring.folder.write_draft(brief.id, Draft(source=source, idea=path.name))
    return (brief,)


def write_trials(wiring: Wiring, round_: int, briefs: int, trials: Sequence[Trial]) -> list[str]:
    """Keep the tuner's kernels; ids of their orders, which follow the round's `briefs` others."""
    names = []
    for number, trial in enumerate(trials, start=1):
        name = f"r{round_}-t{number}"
        brief = Brief(
            id=name, round=round_, index=briefs + number, kind=Kind.TUNE, parent=trial.parent
        )
        wiring.folder.write_brief(brief)
        wiring.folder.write_draft(name, trial.draft)
        names.append(name)
    return names
