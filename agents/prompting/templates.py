"""The templates of prompts: ours, or a user's own by the same file names, checked whole before any
work.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuda_llm.agents.prompting.quote import fence
from cuda_llm.errors import UsageError

if TYPE_CHECKING:
    from jinja2 import Environment

VALUES: Mapping[str, Any] = {
    **dict.fromkeys(("task", "signature", "direction", "parent_source", "failure"), "text"),
    **dict.fromkeys(("real_names", "profile", "host_code", "hints", "hardware"), "text"),
    **dict.fromkeys(("history", "notes", "baseline", "title", "tolerance", "sizes"), "text"),
    **dict.fromkeys(("score", "timed_inputs", "history_key", "profile_size", "expected"), "text"),
    **dict.fromkeys(("brings", "savings", "failures", "ordered"), "text"),
    **dict.fromkeys(("parent_id", "parent_idea", "parent_tunables", "parent_headline"), "text"),
    **dict.fromkeys(("failure_code", "time_source"), "text"),
    **dict.fromkeys(("second_source", "second_id", "second_changes"), "text"),
    **dict.fromkeys(("dims", "allowed", "parent_times", "second_times", "sibling"), ("text",)),
    "refused_changes": ("text",),
    **dict.fromkeys(("emulated", "depart", "parent_hidden", "tuned"), True),
}
"""Everything a template may name, with a value of its kind; empty where there is nothing to say."""

CHANNELS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("Task:", "How it is called", "The baseline"), ("task",)),
    "The GPU": ("notes", "hardware profile"),
    **dict.fromkeys(("Notes of other agents", "Notes"), ("notes",)),
    **dict.fromkeys(("The kernel that failed", "What went wrong"), ("attempts",)),
    **dict.fromkeys(("The kernel to beat", "The kernel,"), ("attempts",)),
    **dict.fromkeys(("Where its time goes", "A second kernel", "Beside it"), ("attempts",)),
    "What was tried": ("attempts",),
    **dict.fromkeys(("Hints", "Known:", "Asked for before"), ("error_hints", "performance_hints")),
    "Your turn": ("briefs",),
}
"""By how a heading of our templates begins: the channels of the state that its section comes from
(docs/state.md); `task` is the request's, and the hardware profile is part of no state."""


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
    """Open the templates that ship; templates in `folder` replace them by name. Raises
    UsageError."""
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
        raise UsageError(f"{where}:{_line(error)}: {error.message}; fix the template") from None
    except (ArithmeticError, TypeError, ValueError, LookupError, AttributeError) as error:
        raise UsageError(f"{where}:{_line(error)}: {error}; fix the template") from None


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
