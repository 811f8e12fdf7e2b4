"""From a node of ours, `(state, wiring) -> update`, to one of LangGraph's."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from cuda_llm.graph.state import SearchInput
from cuda_llm.graph.wiring import Wiring
from cuda_llm.log import bound

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

Node = Callable[[Any, Wiring], Awaitable[Any]]
Find = Callable[[Mapping[str, Any], object], Awaitable[Wiring]]
"""The wiring of the run that a state belongs to: the runtime context, where that is one."""


def bind(node: Node, find: Find, name: str) -> Any:
    """The node as LangGraph calls it."""

    async def node_of_ours(state: Any, runtime: "Runtime[Wiring]") -> Any:
        wiring = await find(state, runtime.context)
        with bound(**about(wiring, state, name)):
            return await node(state, wiring)

    node_of_ours.__name__ = name
    return node_of_ours


def about(wiring: Wiring, state: Mapping[str, Any], node: str) -> dict[str, Any]:
    """Fields of every log record of a node's work."""
    return {
        "run_id": wiring.run_id,
        "round": state.get("candidate_round", state.get("round")),
        "candidate": state.get("candidate_id"),
        "stage": node,
    }


def anew(find: Find) -> Find:
    """Finds wirings of new runs: what a thread's earlier run left in the state does not count."""

    async def find_new(state: Mapping[str, Any], given: object) -> Wiring:
        return await find(input_of(state), given)

    return find_new


def input_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the state that the user gave."""
    return {key: state[key] for key in SearchInput.__annotations__ if key in state}
