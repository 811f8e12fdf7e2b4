"""Agents that write, prove and speed up CUDA kernels."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuda_llm.tasks.loader import load_task

__all__ = ["load_task"]

_HOMES = {"load_task": "cuda_llm.tasks.loader"}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, so that importing the package stays free."""
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(_HOMES[name]), name)
