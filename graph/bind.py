"""From a node of ours, `(state, wiring) -> update`, to one of LangGraph's."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from cuda_llm.graph.wiring import Wiring

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

Node = Callable[[Any, Wiring], Awaitable[Any]]
Find = Callable[[Mapping[str, Any], object], Awaitable[Wiring]]
"""The wiring of the run that a state belongs to: the runtime context, where that is one."""


def bind(node: Node, find: Find, name: str) -> Any:
    """The node as LangGraph calls it."""

    async def bound(state: Any, runtime: "Runtime[Wiring]") -> Any:
        return await node(state, await find(state, runtime.context))

    bound.__name__ = name
    return bound
