"""The protocol of extra agents: an async callable, or a compiled LangGraph, and its place."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from cuda_llm.agents.situation import Note, Situation
from cuda_llm.conversation import AskModel
from cuda_llm.search import Hint


class Stage(StrEnum):
    """Stages of the graph that an agent may stand behind; one after `start` runs first of all."""

    START = "start"
    RESEARCH = "hardware_research"
    BASELINE = "baseline"
    STRATEGY = "strategy"
    CANDIDATES = "candidates"
    TUNER = "tuner"
    REFLECTION = "reflection"


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """What an extra agent adds to the state."""

    note: Note | None = None
    """Replaces the agent's earlier note."""
    error_hints: tuple[Hint, ...] = ()
    performance_hints: tuple[Hint, ...] = ()
    decisions: tuple[str, ...] = ()
    """What it decided and why, one sentence each: they land in the trace."""


class Agent(Protocol):
    """An extra agent. A plain async function is one."""

    async def __call__(self, situation: Situation) -> Contribution:
        """Look at the run, add to it. Raising ends only this agent's part; the trace tells why."""
        ...


@dataclass(frozen=True)
class AgentContext:
    """LangGraph's runtime context of an agent that is a compiled graph."""

    ask: AskModel
    """As `Situation.ask`, which plain JSON cannot hold."""


@dataclass(frozen=True, kw_only=True)
class PlacedAgent:
    """An agent, its name and its place."""

    name: str
    """Its channel in the state, its node in the graph."""
    after: Stage
    agent: Agent | Any
    """An `Agent`, or a compiled LangGraph that takes `{"situation": ...}` (plain JSON) and answers
    `{"contribution": ...}` (plain JSON of a Contribution); its runtime context is an
    `AgentContext`."""
