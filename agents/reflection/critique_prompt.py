"""The prompt of a critique: told and left out by the same rules as the generator's."""

from collections.abc import Sequence

from cuda_llm.agents.prompting.render import fixed_values
from cuda_llm.agents.prompting.sections import passages
from cuda_llm.agents.prompting.templates import Templates
from cuda_llm.agents.prompting.trim import fit
from cuda_llm.agents.situation import Situation
from cuda_llm.conversation import Message
from cuda_llm.search import Attempt, Brief, Hint, Kind

ROOM_TOKENS = 12_000
"""For what may be shortened; a critique is to be cheap."""


def critique_prompt(
    situation: Situation, about: Attempt, known: Sequence[Hint], templates: Templates
) -> tuple[Message, ...]:
    """What a model is asked about `about`. `known` are the diagnosis' own hints."""
    brief = _brief(situation, about, known)
    components = brief.components & situation.plan.components
    told = fit(passages(situation, brief, about, components), ROOM_TOKENS)
    values = {**fixed_values(situation, brief, about, components), **told}
    return (
        Message(role="system", text=templates.render("critique_system.j2", values)),
        Message(role="user", text=templates.render("critique.j2", values)),
    )


def _brief(situation: Situation, about: Attempt, known: Sequence[Hint]) -> Brief:
    """The order that a generator would get for `about`: it decides what is told."""
    return Brief(
        id=f"r{situation.round}-critique",
        round=situation.round,
        index=0,
        kind=Kind.IMPROVE if about.passed else Kind.FIX,
        parent=about.id,
        history=tuple(one.id for one in situation.attempts),
        performance_hints=tuple(one for one in known if one.about in {about.id, ""}),
    )
