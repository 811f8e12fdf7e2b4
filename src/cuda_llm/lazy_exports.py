"""Public names, imported at their first use from where type checkers see them come from."""

import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


def find_export(module: str, name: str) -> Any:
    """Return what `module`, a module of ours with `__all__`, exports as `name`.

    Its imports below `TYPE_CHECKING` are the one list of where names come from. Raises
    AttributeError for a name that it does not export.
    """
    home = _homes(module).get(name)
    if home is None:
        msg = f"module {module!r} has no attribute {name!r}"
        raise AttributeError(msg)
    loaded = import_module(home)
    # A submodule is no attribute of its package before somebody has imported it.
    return getattr(loaded, name) if hasattr(loaded, name) else import_module(f"{home}.{name}")


@cache
def _homes(module: str) -> dict[str, str]:
    """Return the module that each exported name comes from."""
    import ast

    loaded = sys.modules[module]
    tree = ast.parse(Path(str(loaded.__file__)).read_text(encoding="utf-8"))
    imports = [one for one in ast.walk(tree) if isinstance(one, ast.ImportFrom) and one.module]
    homes = {name.name: str(one.module) for one in imports for name in one.names}
    return {name: homes[name] for name in loaded.__all__}
