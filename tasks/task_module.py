"""A Python file of a task's: imported within a time limit, its functions asked by name."""

import importlib.util
import inspect
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

from cuda_llm.errors import TaskError
from cuda_llm.tasks.time_limit import Overdue, call_within

REMEDY = "make it end, or allow more by the setting reference_limit_s"


def import_module_file(path: Path, limit_s: float) -> Any:
    """Import a task's Python file under a name of its own. Raises TaskError where it fails."""
    spec = importlib.util.spec_from_file_location(f"cuda_llm_{path.stem}_{path.parent.name}", path)
    if spec is None or spec.loader is None:
        raise TaskError(f"{path}: cannot be imported")
    module = importlib.util.module_from_spec(spec)
    try:
        call_within(limit_s, partial(spec.loader.exec_module, module))
    except Overdue:
        raise TaskError(f"{path}: importing it takes longer than {limit_s:g} s; {REMEDY}") from None
    except Exception as error:
        raise TaskError(f"{path}: {type(error).__name__}: {error}") from error
    return module


def named_parameters(
    function: Callable[..., Any], leading: int, known: Collection[str], where: str
) -> tuple[str, ...]:
    """Return the parameters of `function` after its `leading` positional parameters.

    Raises TaskError where a parameter is not in `known`.
    """
    wanted = tuple(inspect.signature(function).parameters)[leading:]
    for name in wanted:
        if name not in known:
            raise TaskError(f"{where}: asks for {name}; expected one of {', '.join(sorted(known))}")
    return wanted
