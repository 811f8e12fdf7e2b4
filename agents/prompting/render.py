"""From one brief to the prompt of one candidate. Pure: the same situation gives the same text."""

from collections.abc import Mapping
from typing import Any

from cuda_llm.agents.prompting.hide import hide
from cuda_llm.agents.prompting.say_profile import say_headline, say_times
from cuda_llm.agents.prompting.say_task import say_allowed, say_dims_of, say_sizes, say_tolerance
from cuda_llm.agents.prompting.sections import passages
from cuda_llm.agents.prompting.templates import Templates
from cuda_llm.agents.prompting.tokens import count_tokens
from cuda_llm.agents.prompting.trim import SECTIONS, Passage, fit
from cuda_llm.agents.quote import one_line
from cuda_llm.agents.situation import Situation
from cuda_llm.conversation import Message
from cuda_llm.search import Attempt, Brief, Components, Kind

PROMPT_TOKENS = 24_000
"""Budget of both messages together, as `tokens.count_tokens` counts."""

TEMPLATES = {
    Kind.FIRST: "first.j2",
    Kind.FIX: "fix.j2",
    Kind.IMPROVE: "improve.j2",
    Kind.DEPART: "improve.j2",
}
MOVABLE = frozenset(section.name for section in SECTIONS if section.priority)


def render_prompt(
    brief: Brief, situation: Situation, templates: Templates, budget: int = PROMPT_TOKENS
) -> tuple[Message, ...]:
    """The system's message and the user's, together at most `budget` tokens.

    Sections are cut as `trim.SECTIONS` says. Task, signature, direction and the parent's source
    stay whole, also where they alone exceed the budget. Raises KeyError for an unknown parent.
    """
    parent = situation.attempt(brief.parent) if brief.parent else None
    components = brief.components & situation.plan.components
    sections = passages(situation, brief, parent, components)
    fixed = fixed_values(situation, brief, parent, components)
    name = TEMPLATES[brief.kind] if parent else TEMPLATES[Kind.FIRST]
    # Headings and fences come with a section, and a user's template may show one twice: so what is
    # too long after rendering is taken off the sections' room, and all is rendered again.
    bare = {key: Passage() if key in MOVABLE else passage for key, passage in sections.items()}
    room = budget - _cost(_render(templates, name, {**fixed, **_texts(bare)}))
    while True:
        messages = _render(templates, name, {**fixed, **fit(sections, room)})
        excess = _cost(messages) - budget
        if excess <= 0 or room <= 0:
            return messages
        room -= excess


def _render(templates: Templates, name: str, values: Mapping[str, Any]) -> tuple[Message, ...]:
    return (
        Message(role="system", text=templates.render("system.j2", values)),
        Message(role="user", text=templates.render(name, values)),
    )


def _cost(messages: tuple[Message, ...]) -> int:
    return sum(count_tokens(message.text) for message in messages)


def _texts(sections: Mapping[str, Passage]) -> dict[str, str]:
    return {name: passage.text for name, passage in sections.items()}


def fixed_values(
    situation: Situation, brief: Brief, parent: Attempt | None, components: Components
) -> dict[str, Any]:
    """What stands outside the budget: a few words each."""
    task, context = situation.task, situation.plan.hardware_context
    tunables = parent.tunables.items() if parent else ()
    failed = parent is not None and not parent.passed
    idea = one_line(parent.idea, 120) if parent else ""
    return {
        "title": task.title,
        "dims": say_dims_of(task),
        "tolerance": say_tolerance(task),
        "sizes": say_sizes(situation),
        "allowed": say_allowed(task),
        "emulated": not situation.capabilities.full_isa,
        "time_source": situation.capabilities.time_source,
        "depart": brief.kind == Kind.DEPART,
        "parent_id": parent.id if parent else "",
        "parent_idea": hide(idea, situation.hardware, context),
        "parent_hidden": parent is not None and parent.written_by == "playbook",
        "parent_tunables": ", ".join(f"{name} = {value}" for name, value in tunables),
        "parent_headline": say_headline(situation, parent, components)
        if parent and parent.passed
        else "",
        "parent_times": say_times(situation, parent, components)
        if parent and parent.passed
        else (),
        "failure_code": parent.code if failed and parent else "",
    }
