"""From one brief to the prompt of one candidate, or of a critique: templates filled with what the
situation holds.

Pure: the same situation gives the same text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cuda_llm.agents.limits import deciding_profile, possible_savings
from cuda_llm.agents.prompting.describe_accuracy import describe_timed_inputs, describe_tolerance
from cuda_llm.agents.prompting.describe_kernel import (
    describe_differences,
    describe_failure,
    describe_headline,
    describe_profile,
    describe_profiled_size,
    describe_savings,
    describe_side_by_side,
    keep_differences,
    phases_shown,
    real_names,
    tabulate_sizes,
)
from cuda_llm.agents.prompting.describe_run import (
    describe_allowed,
    describe_expected,
    describe_hints,
    describe_history,
    describe_history_key,
    describe_named_dims,
    describe_score,
    describe_sizes,
)
from cuda_llm.agents.prompting.describe_sibling import describe_sibling
from cuda_llm.agents.prompting.quote import (
    clean,
    hide,
    hide_in_comments,
    mark_lines,
    one_line,
    spots_in,
)
from cuda_llm.agents.prompting.templates import Templates
from cuda_llm.agents.prompting.token_budget import SECTIONS, Passage, count_tokens, fit
from cuda_llm.agents.researcher.facts import describe_hardware
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.techniques.objections import left_at_deciding, nameable, profile_of
from cuda_llm.components import Components
from cuda_llm.conversation import Message
from cuda_llm.outcomes import CompileFailed, Passed, Verdict
from cuda_llm.search import Attempt, Brief, Hint, Kind
from cuda_llm.source_file import SourceSpot
from cuda_llm.tasks.signature import host_context, signature

MOST_DIRECTION = 2000
PROMPT_TOKENS = 24_000
"""Budget of both messages together, as `token_budget.count_tokens` counts."""
ROUNDED = 50
"""The room of the sections is a multiple of this part of the budget: prompts that differ in a
direction alone are then cut alike, and a provider's cache of one serves the others."""

TEMPLATES = {
    Kind.FIRST: "first.j2",
    Kind.FIX: "fix.j2",
    Kind.IMPROVE: "improve.j2",
    Kind.DEPART: "improve.j2",
}
MOVABLE = frozenset(section.name for section in SECTIONS if section.priority)

CRITIQUE_TOKENS = 12_000
"""Token budget of the sections of a critique's prompt that may be shortened: a critique has to be
cheap."""

MOST_REFUSED = 4
"""Most refused changes, the newest, that a critique's prompt shows."""


def render_prompt(
    brief: Brief, situation: Situation, templates: Templates, budget: int = PROMPT_TOKENS
) -> tuple[Message, ...]:
    """Render the system's and the user's message, together at most `budget` tokens.

    Sections are cut as `token_budget.SECTIONS` says. Task, signature, direction and the parent's
    source stay whole, also where they alone exceed the budget. Raises KeyError for an unknown
    parent.
    """
    parent = situation.attempt(brief.parent) if brief.parent else None
    components = brief.components & situation.config.components
    sections = _passages(situation, brief, parent, components)
    fixed = _fixed_values(situation, brief, parent, components)
    name = TEMPLATES[brief.kind] if parent else TEMPLATES[Kind.FIRST]
    # Headings and fences come with a section, and a user's template may show one twice: so what is
    # too long after rendering is taken off the sections' room, and all is rendered again.
    bare = {key: Passage() if key in MOVABLE else passage for key, passage in sections.items()}
    room = budget - _cost(_render(templates, name, {**fixed, **_texts(bare)}))
    step = max(1, budget // ROUNDED)
    room = room // step * step
    while True:
        messages = _render(templates, name, {**fixed, **fit(sections, room)})
        excess = _cost(messages) - budget
        if excess <= 0 or room <= 0:
            return messages
        room = (room - excess) // step * step


def _render(templates: Templates, name: str, values: Mapping[str, Any]) -> tuple[Message, ...]:
    return (
        Message(role="system", text=templates.render("system.j2", values)),
        Message(role="user", text=templates.render(name, values)),
    )


def _cost(messages: tuple[Message, ...]) -> int:
    return sum(count_tokens(message.text) for message in messages)


def _texts(sections: Mapping[str, Passage]) -> dict[str, str]:
    return {name: passage.text for name, passage in sections.items()}


def render_critique_prompt(
    situation: Situation,
    about: Attempt,
    known: Sequence[Hint],
    templates: Templates,
    failures: Sequence[Attempt] = (),
) -> tuple[Message, ...]:
    """Render what a model is asked about `about`. `known` are the diagnosis' own hints, `failures`
    the attempts for which the model is to name the way out."""
    brief = _critique_brief(situation, about, known)
    # The direction of each attempt matters less here than the changes of the attempt.
    components = replace(brief.components & situation.config.components, diversity=False)
    sections = fit(_passages(situation, brief, about, components), CRITIQUE_TOKENS)
    profile = profile_of(situation, about) if about.passed and components.profile else None
    left = left_at_deciding(situation, about)
    savings = possible_savings(profile, left) if profile else {}
    values = {
        **_fixed_values(situation, brief, about, components),
        **sections,
        "sibling": describe_sibling(situation, about, components),
        "savings": describe_savings(situation, about, savings),
        "brings": ", ".join(nameable(situation, about)),
        "refused_changes": _refused_changes(situation, about),
        "failures": ", ".join(one.id for one in failures),
    }
    return (
        Message(role="system", text=templates.render("critique_system.j2", values)),
        Message(role="user", text=templates.render("critique.j2", values)),
    )


def _refused_changes(situation: Situation, about: Attempt) -> tuple[str, ...]:
    """Return the changes that critiques of `about` asked for and nobody was ordered to make, each
    with its reason."""
    given = (*situation.error_hints, *situation.performance_hints)
    return tuple(
        f"{hide(one_line(one.change, 240), situation.hardware, situation.config.hardware_context)}"
        f" ({one.refused})"
        for one in given
        if one.refused and one.about == about.id
    )[-MOST_REFUSED:]


def _critique_brief(situation: Situation, about: Attempt, known: Sequence[Hint]) -> Brief:
    """Return the order that a generator would get: it decides what the prompt holds."""
    return Brief(
        id=f"r{situation.round}-critique",
        round=situation.round,
        index=0,
        kind=Kind.IMPROVE if about.passed else Kind.FIX,
        parent=about.id,
        history=tuple(one.id for one in situation.attempts),
        performance_hints=tuple(one for one in known if one.about in {about.id, ""}),
    )


def _fixed_values(
    situation: Situation, brief: Brief, parent: Attempt | None, components: Components
) -> dict[str, Any]:
    """Return what stands outside the budget: a few words each."""
    task, context = situation.task, situation.config.hardware_context
    tunables = parent.tunables.items() if parent else ()
    failed = parent is not None and not parent.passed
    idea = one_line(parent.idea, 120) if parent else ""
    return {
        "title": task.title,
        "dims": describe_named_dims(task),
        "tolerance": describe_tolerance(task),
        "sizes": describe_sizes(situation),
        "score": describe_score(situation),
        "timed_inputs": describe_timed_inputs(situation),
        "history_key": describe_history_key(situation, components, parent),
        "tuned": situation.config.tune > 0,
        "allowed": describe_allowed(task),
        "emulated": not situation.capabilities.full_isa,
        "time_source": situation.capabilities.time_source,
        "depart": brief.kind == Kind.DEPART,
        "parent_id": parent.id if parent else "",
        "parent_idea": hide(idea, situation.hardware, context),
        "parent_hidden": parent is not None and parent.written_by == "playbook",
        "parent_tunables": ", ".join(f"{name} = {value}" for name, value in tunables),
        "parent_headline": describe_headline(situation, parent, components)
        if parent and parent.passed
        else "",
        "parent_times": tabulate_sizes(situation, parent, components)
        if parent and parent.passed
        else (),
        "profile_size": _profiled_size(situation, parent),
        "expected": describe_expected(situation, brief, components),
        "failure_code": parent.code if failed and parent else "",
        "sibling": (),
        "savings": "",
        "brings": "",
        "refused_changes": (),
        "failures": "",
        **_values_of_second(situation, parent, _second_of(situation, brief, components)),
    }


def _values_of_second(
    situation: Situation, parent: Attempt | None, second: Attempt | None
) -> dict[str, Any]:
    if parent is None or second is None:
        return {"second_id": "", "second_times": (), "second_changes": ""}
    return {
        "second_id": second.id,
        "second_times": describe_side_by_side(situation, parent, second),
        "second_changes": describe_differences(situation, parent, second),
    }


def _profiled_size(situation: Situation, parent: Attempt | None) -> str:
    verdict = situation.archive.verdict(parent.id) if parent else None
    profile = verdict.profile if isinstance(verdict, Passed) else None
    return describe_profiled_size(situation, parent, profile) if parent and profile else ""


def _passages(
    situation: Situation, brief: Brief, parent: Attempt | None, components: Components
) -> dict[str, Passage]:
    """Return the passages by section; an empty passage where a section has no content, or is not
    allowed."""
    task = situation.task
    direction = one_line(brief.direction, MOST_DIRECTION).removesuffix(".")
    direction = direction if components.diversity else ""
    return {
        "task": _text(task.description.strip()),
        "signature": _text(signature(task)),
        "direction": _text(direction),
        "host_code": _text(task.host or host_context(task)) if components.host_code else Passage(),
        "hardware": describe_known_hardware(situation),
        "notes": describe_notes(situation),
        "hints": describe_hints(situation, brief, components),
        "ordered": describe_hints(situation, brief, components, ordered=True),
        "history": describe_history(situation, brief.history, components, brief.parent)
        if components.history
        else Passage(),
        "baseline": _text(task.baseline.read_text()) if components.baseline else Passage(),
        **_of_parent(situation, brief, parent, components),
        "second_source": _source_of_second(situation, brief, parent, components),
    }


def _second_of(situation: Situation, brief: Brief, components: Components) -> Attempt | None:
    """Return the second kernel that the order shows; what was tried may be left out of prompts."""
    shown = brief.second if components.history and brief.parent else None
    return situation.attempt(shown) if shown else None


def _source_of_second(
    situation: Situation, brief: Brief, parent: Attempt | None, components: Components
) -> Passage:
    """Return what of the second kernel's source the parent's has not."""
    second = _second_of(situation, brief, components)
    if parent is None or second is None or "playbook" in (second.written_by, parent.written_by):
        return Passage()
    context = situation.config.hardware_context
    one, other = (
        hide_in_comments(clean(situation.archive.source(each.id)), situation.hardware, context)
        for each in (parent, second)
    )
    return _text(keep_differences(one, other, parent.id))


def _of_parent(
    situation: Situation, brief: Brief, parent: Attempt | None, components: Components
) -> dict[str, Passage]:
    """Render the parent's source, failure or limits. A playbook kernel's source stays out."""
    if parent is None:
        return dict.fromkeys(("parent_source", "failure", "real_names", "profile"), Passage())
    verdict = situation.archive.verdict(parent.id)
    shown = parent.written_by != "playbook"
    source = situation.archive.source(parent.id) if shown else ""
    failure, names, profile = Passage(), Passage(), Passage()
    if not parent.passed:
        failure = Passage(entries=describe_failure(situation, parent, verdict))
    if isinstance(verdict, CompileFailed) and shown:
        names = Passage(entries=real_names(verdict, source), noun="names")
    if isinstance(verdict, Passed) and verdict.profile and components.profile:
        hinted = any(one.about == parent.id for one in brief.performance_hints)
        advise = not (hinted and components.hints)
        entries = describe_profile(situation, parent, verdict.profile, advise=advise)
        profile = Passage(entries=entries, noun="lines")
    context = situation.config.hardware_context
    readable = hide_in_comments(clean(source), situation.hardware, context)
    return {
        "parent_source": _text(mark_lines(readable, _cited(situation, parent, verdict))),
        "failure": failure,
        "real_names": names,
        "profile": profile,
    }


def _cited(situation: Situation, parent: Attempt, verdict: Verdict) -> tuple[SourceSpot, ...]:
    """Return the lines that the profile or the failure of the parent cites."""
    if isinstance(verdict, Passed):
        profile = verdict.profile and deciding_profile(situation, parent, verdict.profile)[0]
        if not profile:
            return ()
        limits = (one.spot for one in profile.bottlenecks)
        waits = (one.spot for one in phases_shown(profile))
        return tuple(spot for spot in (*limits, *waits) if spot)
    return tuple(spots_in(verdict))


def _text(text: str) -> Passage:
    return Passage(entries=tuple(text.split("\n"))) if text else Passage()


def describe_known_hardware(situation: Situation) -> Passage:
    """Describe the GPU as far as the hardware context allows, with agents' notes on it."""
    match situation.config.hardware_context:
        case "full":
            noted = [note.text for note in situation.notes.values() if note.about_hardware]
            entries = (
                *describe_hardware(situation),
                *filter(None, map(str.strip, map(clean, noted))),
            )
            return Passage(entries=entries, noun="facts")
        case "name":
            return Passage(entries=(situation.hardware.name,))
        case _:
            return Passage()


def describe_notes(situation: Situation) -> Passage:
    """Return what agents noted that is not about the hardware."""
    context = situation.config.hardware_context
    noted = [
        f"{name}: {hide(clean(note.text).strip(), situation.hardware, context)}"
        for name, note in situation.notes.items()
        if note.text.strip() and not note.about_hardware
    ]
    return Passage(entries=tuple(noted), noun="notes")
