"""Agents that write, prove and speed up CUDA kernels.

from cuda_llm import load_task, optimize

result = optimize(load_task("histogram"))
print(result.speedup, result.source)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuda_llm.graph.judge import Judge, ajudge, judge, judge_many
    from cuda_llm.graph.runs.build_graph import build_graph
    from cuda_llm.graph.runs.result import Result, read_run
    from cuda_llm.graph.runs.resume import aresume, resume
    from cuda_llm.graph.runs.start import aoptimize, astream, optimize
    from cuda_llm.graph.toolbox import judge_tools
    from cuda_llm.tasks.loader import load_task
    from cuda_llm.tools.judge.judged import Judged

__all__ = [
    "Judge",
    "Judged",
    "Result",
    "ajudge",
    "aoptimize",
    "aresume",
    "astream",
    "build_graph",
    "judge",
    "judge_many",
    "judge_tools",
    "load_task",
    "optimize",
    "read_run",
    "resume",
]

_HOMES = {
    "Judge": "graph.judge",
    "Judged": "tools.judge.judged",
    "Result": "graph.runs.result",
    "ajudge": "graph.judge",
    "aoptimize": "graph.runs.start",
    "aresume": "graph.runs.resume",
    "astream": "graph.runs.start",
    "build_graph": "graph.runs.build_graph",
    "judge": "graph.judge",
    "judge_many": "graph.judge",
    "judge_tools": "graph.toolbox",
    "load_task": "tasks.loader",
    "optimize": "graph.runs.start",
    "read_run": "graph.runs.result",
    "resume": "graph.runs.resume",
}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use: LangGraph takes half a second, which `--help` saves.

    Raises AttributeError for a name that the package does not export.
    """
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"cuda_llm.{_HOMES[name]}"), name)
