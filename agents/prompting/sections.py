"""The whole text of each section of a prompt, before anything is cut."""

from cuda_llm.agents.prompting.hide import hide, hide_in_comments
from cuda_llm.agents.prompting.known_names import real_names
from cuda_llm.agents.prompting.say_failure import say_failure
from cuda_llm.agents.prompting.say_hardware import say_facts
from cuda_llm.agents.prompting.say_hints import say_hints
from cuda_llm.agents.prompting.say_history import say_history
from cuda_llm.agents.prompting.say_profile import say_profile
from cuda_llm.agents.prompting.trim import Passage
from cuda_llm.agents.quote import clean, one_line
from cuda_llm.agents.situation import Situation
from cuda_llm.outcomes import CompileFailed, Passed
from cuda_llm.search import Attempt, Brief, Components
from cuda_llm.tasks.signature import host_context, signature

MOST_DIRECTION = 2000


def passages(
    situation: Situation, brief: Brief, parent: Attempt | None, components: Components
) -> dict[str, Passage]:
    """By name of the section; an empty passage where there is nothing to say, or it may not."""
    task = situation.task
    direction = one_line(brief.direction, MOST_DIRECTION) if components.diversity else ""
    return {
        "task": _text(task.description.strip()),
        "signature": _text(signature(task)),
        "direction": _text(direction),
        "host_code": _text(task.host or host_context(task)) if components.host_code else Passage(),
        "hardware": _hardware(situation),
        "notes": _notes(situation),
        "hints": say_hints(situation, brief, components),
        "history": say_history(situation, brief.history, components)
        if components.history
        else Passage(),
        "baseline": _text(task.baseline.read_text()) if components.baseline else Passage(),
        **_of_parent(situation, brief, parent, components),
    }


def _of_parent(
    situation: Situation, brief: Brief, parent: Attempt | None, components: Components
) -> dict[str, Passage]:
    """Its source, what failed or what limits it. The source of a playbook kernel stays out."""
    if parent is None:
        return dict.fromkeys(("parent_source", "failure", "real_names", "profile"), Passage())
    verdict = situation.archive.verdict(parent.id)
    shown = parent.written_by != "playbook"
    source = situation.archive.source(parent.id) if shown else ""
    failure, names, profile = Passage(), Passage(), Passage()
    if not parent.passed:
        failure = Passage(entries=say_failure(situation, parent, verdict))
    if isinstance(verdict, CompileFailed) and shown:
        names = Passage(entries=real_names(verdict, source), noun="names")
    if isinstance(verdict, Passed) and verdict.profile and components.profile:
        hinted = any(one.about == parent.id for one in brief.performance_hints)
        advise = not (hinted and components.hints)
        entries = say_profile(situation, parent, verdict.profile, advise=advise)
        profile = Passage(entries=entries, noun="lines")
    context = situation.plan.hardware_context
    return {
        "parent_source": _text(hide_in_comments(clean(source), situation.hardware, context)),
        "failure": failure,
        "real_names": names,
        "profile": profile,
    }


def _hardware(situation: Situation) -> Passage:
    """Facts, and what agents noted about the hardware; a name alone; or nothing."""
    match situation.plan.hardware_context:
        case "full":
            noted = [note.text for note in situation.notes.values() if note.about_hardware]
            entries = (*say_facts(situation), *filter(None, map(str.strip, map(clean, noted))))
            return Passage(entries=entries, noun="facts")
        case "name":
            return _text(situation.hardware.name)
        case _:
            return Passage()


def _notes(situation: Situation) -> Passage:
    """What agents noted that is not about the hardware."""
    context = situation.plan.hardware_context
    noted = [
        f"{name}: {hide(clean(note.text).strip(), situation.hardware, context)}"
        for name, note in situation.notes.items()
        if note.text.strip() and not note.about_hardware
    ]
    return Passage(entries=tuple(noted), noun="notes")


def _text(text: str) -> Passage:
    return Passage(entries=tuple(text.split("\n"))) if text else Passage()
