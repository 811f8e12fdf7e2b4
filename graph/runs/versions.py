"""Versions of what made a run."""

import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("cuda-llm", "langgraph", "langchain-openai", "optuna")


def versions() -> dict[str, str]:
    """Return versions by package name; what is not installed is left out."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
