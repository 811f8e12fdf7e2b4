"""Where the graph finds what judges candidates."""

from cuda_llm.tools.judge.bench import SOURCE, Arena, Bench, Inspected

__all__ = ["SOURCE", "Arena", "Bench", "Inspected"]
