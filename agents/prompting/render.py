"""From one brief to the prompt of one candidate: the templates, ours or a user's own by the same
file names, filled with what the situation holds.

Pure: the same situation gives the same text. A user's templates are checked whole before any work.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuda_llm.agents.prompting.describe_kernel import (
    describe_failure,
    describe_headline,
    describe_profile,
    describe_timed_sizes,
    real_names,
)
from cuda_llm.agents.prompting.describe_run import (
    describe_allowed,
    describe_hints,
    describe_history,
    describe_known_hardware,
    describe_named_dims,
    describe_notes,
    describe_sizes,
    describe_tolerance,
)
from cuda_llm.agents.prompting.quote import clean, fence, hide, hide_in_comments, one_line
from cuda_llm.agents.prompting.token_budget import SECTIONS, Passage, count_tokens, fit
from cuda_llm.agents.situation import Situation
from cuda_llm.conversation import Message
from cuda_llm.errors import UsageError
from cuda_llm.failures import CompileFailed
from cuda_llm.outcomes import Passed
from cuda_llm.search import Attempt, Brief, Components, Kind
from cuda_llm.tasks.signature import host_context, signature

if TYPE_CHECKING:
    from jinja2 import Environment

VALUES: Mapping[str, Any] = {
    **dict.fromkeys(("task", "signature", "direction", "parent_source", "failure"), "text"),
    **dict.fromkeys(("real_names", "profile", "host_code", "hints", "hardware"), "text"),
    **dict.fromkeys(("history", "notes", "baseline", "title", "tolerance", "sizes"), "text"),
    **dict.fromkeys(("parent_id", "parent_idea", "parent_tunables", "parent_headline"), "text"),
    **dict.fromkeys(("failure_code", "time_source"), "text"),
    **dict.fromkeys(("dims", "allowed", "parent_times"), ("text",)),
    **dict.fromkeys(("emulated", "depart", "parent_hidden"), True),
}
"""Everything a template may name, with a value of its kind; empty where there is nothing to say."""


@dataclass(frozen=True)
class Templates:
    """The templates of one run, by file name."""

    texts: Mapping[str, str]

    def render(self, name: str, values: Mapping[str, Any]) -> str:
        """Render that template. Raises jinja2's UndefinedError for a value not given."""
        rendered = self._environment.get_template(name).render(values)
        return rendered.strip() + "\n"

    @cached_property
    def _environment(self) -> "Environment":
        return _environment(self.texts)


def open_templates(folder: Path | str | None = None) -> Templates:
    """Open our templates, those in `folder` in their place. Raises UsageError."""
    ours = _shipped()
    if not folder:
        return Templates(ours)
    own = _read(Path(folder), ours)
    templates = Templates({**ours, **own})
    for name in own:
        _check(templates, name, Path(folder))
    return templates


def _shipped() -> dict[str, str]:
    folder = resources.files("cuda_llm.agents") / "prompts"
    files = [file for file in folder.iterdir() if file.name.endswith(".j2")]
    return {file.name: file.read_text() for file in sorted(files, key=lambda one: one.name)}


def _read(folder: Path, ours: Mapping[str, str]) -> dict[str, str]:
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder; --prompts takes one that holds templates")
    files = sorted(file for file in folder.iterdir() if not file.name.startswith("."))
    for file in files:
        if file.name not in ours:
            raise UsageError(
                f"{file}: no prompt has that name; --prompts replaces {', '.join(ours)}"
            )
    try:
        return {file.name: file.read_text() for file in files}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{folder}: a template cannot be read: {error}") from None


def _check(templates: Templates, name: str, folder: Path) -> None:
    """Render `name` with everything given and with everything empty, and look for unknown names."""
    from jinja2 import TemplateError

    where = folder / name
    try:
        for line, unknown in _unknown_names(templates, name):
            known = ", ".join(sorted(VALUES))
            raise UsageError(
                f"{where}:{line}: {unknown} is no value of a prompt; there are {known}"
            )
        for values in (VALUES, {key: type(value)() for key, value in VALUES.items()}):
            templates.render(name, values)
    except TemplateError as error:
        raise UsageError(f"{where}:{_line(error)}: {error.message}; mend the template") from None
    except (ArithmeticError, TypeError, ValueError, LookupError, AttributeError) as error:
        raise UsageError(f"{where}:{_line(error)}: {error}; mend the template") from None


def _unknown_names(templates: Templates, name: str) -> Iterator[tuple[int, str]]:
    from jinja2 import meta, nodes

    tree = templates._environment.parse(templates.texts[name])
    unknown = meta.find_undeclared_variables(tree) - set(VALUES)
    for node in tree.find_all(nodes.Name):
        if node.name in unknown:
            yield node.lineno, node.name


def _line(error: Exception) -> int:
    """Return the line of a syntax error; of others a template's last in the traceback."""
    line: int = getattr(error, "lineno", 0)
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line or 1


def _environment(texts: Mapping[str, str]) -> "Environment":
    from jinja2 import DictLoader, Environment, StrictUndefined

    environment = Environment(
        loader=DictLoader(dict(texts)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    environment.filters["fenced"] = fence
    return environment


MOST_DIRECTION = 2000


def passages(
    situation: Situation, brief: Brief, parent: Attempt | None, components: Components
) -> dict[str, Passage]:
    """Return the passages by section; an empty one where there is nothing, or it may not be."""
    task = situation.task
    direction = one_line(brief.direction, MOST_DIRECTION) if components.diversity else ""
    return {
        "task": _text(task.description.strip()),
        "signature": _text(signature(task)),
        "direction": _text(direction),
        "host_code": _text(task.host or host_context(task)) if components.host_code else Passage(),
        "hardware": describe_known_hardware(situation),
        "notes": describe_notes(situation),
        "hints": describe_hints(situation, brief, components),
        "history": describe_history(situation, brief.history, components)
        if components.history
        else Passage(),
        "baseline": _text(task.baseline.read_text()) if components.baseline else Passage(),
        **_of_parent(situation, brief, parent, components),
    }


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
    context = situation.plan.hardware_context
    return {
        "parent_source": _text(hide_in_comments(clean(source), situation.hardware, context)),
        "failure": failure,
        "real_names": names,
        "profile": profile,
    }


def _text(text: str) -> Passage:
    return Passage(entries=tuple(text.split("\n"))) if text else Passage()


PROMPT_TOKENS = 24_000
"""Budget of both messages together, as `token_budget.count_tokens` counts."""

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
    """Render the system's and the user's message, together at most `budget` tokens.

    Sections are cut as `token_budget.SECTIONS` says. Task, signature, direction and the parent's
    source stay whole, also where they alone exceed the budget. Raises KeyError for an unknown
    parent.
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
    """Return what stands outside the budget: a few words each."""
    task, context = situation.task, situation.plan.hardware_context
    tunables = parent.tunables.items() if parent else ()
    failed = parent is not None and not parent.passed
    idea = one_line(parent.idea, 120) if parent else ""
    return {
        "title": task.title,
        "dims": describe_named_dims(task),
        "tolerance": describe_tolerance(task),
        "sizes": describe_sizes(situation),
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
        "parent_times": describe_timed_sizes(situation, parent, components)
        if parent and parent.passed
        else (),
        "failure_code": parent.code if failed and parent else "",
    }
