"""Agents that write, prove and speed up CUDA kernels.

from cuda_llm import load_task, optimize

result = optimize(load_task("histogram"))
print(result.speedup, result.source)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuda_llm.graph.runs.build_graph import build_graph
    from cuda_llm.graph.runs.result import Result, read_run
    from cuda_llm.graph.runs.start import aoptimize, astream, optimize
    from cuda_llm.graph.toolbox import judge_tools
    from cuda_llm.tasks.loader import load_task

__all__ = [
    "Result",
    "aoptimize",
    "astream",
    "build_graph",
    "judge_tools",
    "load_task",
    "optimize",
    "read_run",
]


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, so that importing the package stays free."""
    from cuda_llm.lazy_exports import find_export

    return find_export(__name__, name)
