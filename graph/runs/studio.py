"""The graph as LangGraph Studio and `langgraph dev` serve it (langgraph.json)."""

import os
from typing import Any

STEPS = 1000
"""More than any run takes: a graph that goes in circles is our fault, and ends."""

# The development server refuses whatever touches a file from an async function, unless it was
# started with `--allow-blocking`: this variable, asked for once the modules of its graphs are
# loaded. A run writes small local files between its steps, each in far less than a millisecond.
if os.environ.get("LANGSMITH_LANGGRAPH_API_VARIANT") == "local_dev":
    os.environ["LANGGRAPH_ALLOW_BLOCKING"] = "true"


def make_graph() -> Any:
    """Return the compiled graph; the server adds a checkpointer. A run needs only a `task`."""
    from cuda_llm.graph.runs.build_graph import build_graph

    return build_graph().compile(name="fsr").with_config(recursion_limit=STEPS)
