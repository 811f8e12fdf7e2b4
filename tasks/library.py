"""A Python file of a task's that calls PyTorch: a vendor's library, or the task's baseline."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuda_llm.errors import TaskError
from cuda_llm.settings import settings
from cuda_llm.tasks.task_module import import_module_file, named_parameters


@dataclass(frozen=True, kw_only=True)
class Library:
    """A loaded library call of a task, with its name and arguments."""

    name: str
    """Name of the call in reports: `torch.softmax`."""
    call: Callable[..., Any]
    wanted: tuple[str, ...]
    """Names of the arguments that the call takes."""


def load_library(file: Path, arguments: Collection[str]) -> Library:
    """Load `NAME` and `call(torch, *, ...)` from the file; `call` may take only `arguments`.

    Raises TaskError that names the fault.
    """
    module = import_module_file(file, settings().reference_limit_s)
    name, call = getattr(module, "NAME", None), getattr(module, "call", None)
    if not isinstance(name, str) or not callable(call):
        raise TaskError(f"{file}: expected NAME, a text, and call(torch, *, ...)")
    wanted = named_parameters(call, 1, arguments, f"{file}: call")
    return Library(name=name, call=call, wanted=wanted)
