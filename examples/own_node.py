"""Put a node of your own into the graph: `python examples/own_node.py`.

`build_graph` gives a LangGraph StateGraph; this one says after each round what is to be beaten.
"""

import asyncio
from typing import Any

from cuda_llm import build_graph
from cuda_llm.extend import SearchState


async def say(state: SearchState) -> dict[str, Any]:
    """Any LangGraph node: it sees the state, and adds nothing to it."""
    print(f"round {state['round']}: {len(state['attempts'])} judged, best {state['incumbent']}")
    return {}


async def main() -> None:
    graph = build_graph()
    graph.edges.remove(("choose", "reflection"))
    graph.add_node("say", say)
    graph.add_edge("choose", "say")
    graph.add_edge("say", "reflection")
    state = await graph.compile().ainvoke({"task": "vector_add", "candidates": 2, "rounds": 2})
    print(state["best"])


if __name__ == "__main__":
    asyncio.run(main())
