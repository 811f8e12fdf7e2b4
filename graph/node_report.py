"""The report of a node: its decisions in words, in its update, and every event of its work, in the
stream of the caller that runs the graph."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from cuda_llm.codec import encode
from cuda_llm.graph.context import FindContext, GraphNode, log_fields
from cuda_llm.log import bound
from cuda_llm.traces.event_text import describe_decision
from cuda_llm.traces.events import Event

MOST_LINES = 24
"""Largest number of lines of decisions in one update; the checkpoint holds them until the next
node's update."""
SERVER = "LANGSMITH_LANGGRAPH_API_VARIANT"
"""Set by LangGraph's servers, which send what is streamed on as JSON."""


@dataclass
class Listener:
    """One node at work: its stream, and the events so far."""

    write: Callable[[Any], None]
    events: list[Event] = field(default_factory=list)


_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(runtime: Any) -> Iterator[Listener]:
    """Receive the events that this node's work records, also that which outlives it.

    `runtime` is LangGraph's.
    """
    here = Listener(runtime.stream_writer)
    before = _listener.set(here)
    try:
        yield here
    finally:
        _listener.reset(before)


def pass_on(event: Event) -> None:
    """Give an event to the node at work, and to the graph's `custom` stream: an observer.

    A server gets it as JSON, which would lack the kind of a dataclass.
    """
    here = _listener.get()
    if here is not None:
        here.events.append(event)
        served = SERVER in os.environ
        here.write({"kind": event.kind, **encode(event)} if served else event)


def decisions_of(events: list[Event]) -> list[str]:
    """Return what these events decided, in words."""
    lines = [line for event in events for line in describe_decision(event)]
    left = len(lines) - MOST_LINES
    return lines if left <= 0 else [*lines[:MOST_LINES], f"and {left} more"]


def bind_reporting(node: GraphNode, find: FindContext, name: str) -> Any:
    """Return the node as `bind_node` does, with the node's decisions in its update."""

    async def node_of_ours(state: Any, runtime: Any) -> Any:
        context = await find(state, runtime.context)
        with bound(**log_fields(context, state, name)), listening(runtime) as here:
            update = await node(state, context)
        return {**update, "decided": decisions_of(here.events)}

    node_of_ours.__name__ = name
    return node_of_ours
