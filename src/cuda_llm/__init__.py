"""Agents that write, prove and speed up CUDA kernels.

from cuda_llm import load_task, optimize

result = optimize(load_task("histogram"))
print(result.speedup, result.source)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuda_llm.graph.runs.optimize import aoptimize, optimize
    from cuda_llm.graph.runs.result import Result
    from cuda_llm.graph.unwired import build_graph
    from cuda_llm.tasks.loader import load_task

__all__ = ["Result", "aoptimize", "build_graph", "load_task", "optimize"]

_HOMES = {
    "Result": "cuda_llm.graph.runs.result",
    "aoptimize": "cuda_llm.graph.runs.optimize",
    "build_graph": "cuda_llm.graph.unwired",
    "load_task": "cuda_llm.tasks.loader",
    "optimize": "cuda_llm.graph.runs.optimize",
}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, so that importing the package stays free."""
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(_HOMES[name]), name)
