"""Parts that a user names: `package.module:attribute` or `path/to/file.py:attribute`."""

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from typing import Any

from cuda_llm.errors import CudaLLMError, UsageError, describe_error
from cuda_llm.log import share_structlog


def is_dotted(name: str) -> bool:
    """Return whether the name points at code instead of being a short name."""
    return ":" in name or "." in name


def load_dotted(name: str, what: str) -> Any:
    """Return the object that `name` points at. The current folder is searched too.

    `what` says what it should be ("strategy"). Raises UsageError: nothing there, or it cannot be
    imported, with the reason.
    """
    place, colon, attribute = name.rpartition(":")
    if not colon:
        place, _, attribute = name.rpartition(".")
    share_structlog()
    try:
        module = _load_file(Path(place)) if place.endswith(".py") else _load_module(place)
    except Exception as error:  # a user's own code may raise anything
        msg = f"{what} {name!r}: cannot import {place}: {type(error).__name__}: {error}"
        raise UsageError(msg) from error
    found = getattr(module, attribute, None)
    if found is None:
        msg = f"{what} {name!r}: {place} has no {attribute!r}; expected module:attribute"
        raise UsageError(msg)
    return found


def make_part(found: Any, name: str, what: str) -> Any:
    """Return what `load_dotted` found; of a class, an object that is made without arguments.

    Raises UsageError: the class needs arguments, with the remedy, or it raises something.
    """
    if not isinstance(found, type):
        return found
    if needed := _needed_arguments(found):
        place, _, attribute = name.rpartition(":" if ":" in name else ".")
        given = ", ".join(f"{one}=..." for one in needed)
        raise UsageError(
            f"{what} {name!r}: {attribute} needs {', '.join(needed)}; make one beside it, as in "
            f"`mine = {attribute}({given})`, and name that: {place}:mine"
        )
    try:
        return found()
    except CudaLLMError:
        raise
    except Exception as error:  # a user's own code may raise anything
        msg = f"{what} {name!r}: cannot be made: {describe_error(error)}"
        raise UsageError(msg) from error


def _needed_arguments(kind: type) -> list[str]:
    """Return the names of the parameters without which no object is made."""
    try:
        parameters = inspect.signature(kind).parameters.values()
    except (TypeError, ValueError):
        return []
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [one.name for one in parameters if one.default is one.empty and one.kind not in optional]


def _load_module(name: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    return importlib.import_module(name)


def _load_file(path: Path) -> Any:
    if not path.is_file():
        raise FileNotFoundError(f"no such file {path}")
    name = path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)
    spec.loader.exec_module(module)
    return module
