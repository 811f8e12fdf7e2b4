"""Who writes the kernels: what the user named, or what there is."""

from dataclasses import dataclass
from typing import get_args

from cuda_llm.agents.generator import Generator
from cuda_llm.dotted import is_dotted, load_dotted
from cuda_llm.errors import MissingError, UsageError
from cuda_llm.search import Author
from cuda_llm.tasks.task import Task

SHIPPED = ("auto", "llm", "playbook")
NAME_A_MODEL = "name one with --model (or CUDA_LLM_MODEL)"


@dataclass(frozen=True)
class Chosen:
    """The generator's name and what the user should know of the choice."""

    name: str
    """`llm`, `playbook` or a dotted path."""
    note: str = ""


def choose_generator(wanted: str, task: Task, *, has_model: bool) -> Chosen:
    """Decide what `auto` means, and whether the generator named can work on this task.

    Raises UsageError for a name nobody knows, MissingError where no one could write a kernel.
    """
    if wanted not in SHIPPED:
        if not is_dotted(wanted):
            known = ", ".join(SHIPPED)
            raise UsageError(f"unknown generator {wanted!r}; there are {known}, or module:Class")
        return Chosen(wanted)
    if wanted == "llm" or (wanted == "auto" and has_model):
        if not has_model:
            raise MissingError("generator llm: no model is named", NAME_A_MODEL)
        return Chosen("llm")
    if task.playbook is None:
        mend = f"{NAME_A_MODEL}, or write tunable kernels into {task.folder / 'playbook.cu'}"
        lacks = "" if wanted == "playbook" else " and no model is named"
        raise MissingError(f"task {task.name} has no playbook{lacks}", mend)
    if wanted == "playbook":
        return Chosen("playbook")
    note = "no model is named, so the playbook writes the kernels; --model NAME asks a model"
    return Chosen("playbook", note)


def open_chosen(chosen: Chosen, task: Task) -> Generator | None:
    """Load the generator; None for `llm`, which needs the run's model client first.

    Raises UsageError for one that is none, TaskError for a playbook that cannot be used.
    """
    if chosen.name == "llm":
        return None
    if chosen.name == "playbook":
        from cuda_llm.agents.playbook.generator import PlaybookGenerator

        return PlaybookGenerator(task)
    found = load_dotted(chosen.name, "generator")
    generator: Generator = found() if isinstance(found, type) else found
    missing = [part for part in ("name", "written_by", "generate") if not hasattr(generator, part)]
    if missing:
        lacks = ", ".join(missing)
        msg = f"generator {chosen.name!r} lacks {lacks}; see cuda_llm.extend.Generator"
        raise UsageError(msg)
    if generator.written_by not in get_args(Author):
        known = ", ".join(get_args(Author))
        msg = f"generator {chosen.name!r}: written_by {generator.written_by!r}; expected one of"
        raise UsageError(f"{msg} {known}")
    return generator
