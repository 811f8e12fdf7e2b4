"""Parts that a user names: `FILE.py:NAME`, or `MODULE:NAME` for a module that Python finds."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from cuda_llm.errors import UsageError, nearest
from cuda_llm.log import share_structlog


def is_dotted(name: str) -> bool:
    """Return whether the name points at code instead of being a short name."""
    return ":" in name or "." in name


def load_dotted(name: str, what: str) -> Any:
    """Return the object that `name` points at. The current folder is searched too.

    `what` says what it should be ("strategy"). Raises UsageError: nothing there, or it cannot be
    imported, with the reason.
    """
    if name.endswith(".py"):
        raise UsageError(f"{what} {name!r}: a file; name what it defines, as in {name}:NAME")
    place, attribute = split_dotted(name)
    share_structlog()
    try:
        module = _load_file(Path(place)) if place.endswith(".py") else _load_module(place)
    except Exception as error:  # a user's own code may raise anything
        msg = f"{what} {name!r}: cannot import {place}: {type(error).__name__}: {error}"
        raise UsageError(msg) from error
    found = getattr(module, attribute, None)
    if found is None:
        known = nearest(attribute, _defined_names(module))
        raise UsageError(f"{what} {name!r}: {place} has no {attribute!r}; {known}")
    return found


def split_dotted(name: str) -> tuple[str, str]:
    """Return the file or module, and the name in it."""
    place, _, attribute = name.rpartition(":" if ":" in name else ".")
    return place, attribute


def _defined_names(module: ModuleType) -> list[str]:
    """Return the public names that the module itself defines."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]


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
