"""The public input of the graph, which refuses keys that it does not know.

LangGraph itself drops them, so that a misspelt budget would be no budget.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cuda_llm.errors import InputRefused, UsageError, nearest
from cuda_llm.graph.state import SearchOutput, SearchState
from cuda_llm.run_config import GraphInput, read_config

if TYPE_CHECKING:
    from langgraph.graph import StateGraph


def check_input(given: object) -> None:
    """Raise InputRefused for the first key or value that no run has, or where there is no task."""
    if not isinstance(given, dict):
        return
    known = GraphInput.model_fields
    for key in given:
        if key == "agents":
            raise InputRefused("the graph's input has no 'agents'; give them to build_graph()")
        if key not in known:
            raise InputRefused(f"the graph's input has no key {key!r}; {nearest(str(key), known)}")
    if "task" not in given:
        raise InputRefused("the graph's input lacks 'task', the name of a task or its folder")
    try:
        read_config(given, GraphInput)
    except UsageError as error:
        raise InputRefused(str(error)) from None


def make_search_graph() -> "StateGraph[SearchState, Any, Any, SearchOutput]":
    """Return a graph without nodes over the state of a search, whose input is checked.

    Its input raises InputRefused before any node runs.
    """
    from langgraph.channels import EphemeralValue, UntrackedValue
    from langgraph.graph import START, StateGraph

    class InputChannel(EphemeralValue[Any]):
        """Holds the input until the first node; see `check_input`."""

        __slots__ = ()

        def update(self, values: Sequence[Any]) -> bool:
            for value in values:
                # To draw a graph an empty input is written; a run with one is refused at its start.
                if value:
                    check_input(value)
            return super().update(values)

    class SearchGraph(StateGraph[SearchState, Any, Any, SearchOutput]):
        def compile(self, *arguments: Any, **keywords: Any) -> Any:
            compiled = super().compile(*arguments, **keywords)
            channel = InputChannel(self.input_schema)
            channel.key = START
            compiled.channels[START] = channel
            return compiled

    # No context schema: servers would build a context from the empty one that they send.
    graph = SearchGraph(SearchState, input_schema=GraphInput, output_schema=SearchOutput)
    # What it tells lies in the run's folder: no checkpoint holds it once more.
    graph.channels["decided"] = UntrackedValue(list, guard=False)
    graph.channels["decided"].key = "decided"
    return graph
