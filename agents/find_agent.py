"""Find agents by short name, dotted path or file, with their place in the graph."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from cuda_llm.agents.protocols import Agent, PlacedAgent, Stage
from cuda_llm.dotted import is_dotted, load_dotted
from cuda_llm.errors import UsageError
from cuda_llm.own_part import fits

A = TypeVar("A")

SHIPPED: Mapping[str, str] = {
    "hardware_research": "cuda_llm.agents.researcher.research:hardware_research",
}
"""Short names of the agents that ship."""


def find_agent(spec: str) -> PlacedAgent:
    """Return the agent of a short name, `FILE.py:NAME` or `MODULE:NAME`.

    `@stage` behind it says after which stage it runs; without, the agent's attribute `after` does,
    else it stands behind the hardware research. Its attribute `agent_name` names it, else the
    attribute it was found by. Raises UsageError with what is wrong, where, and the remedy.
    """
    path, _, stage = spec.partition("@")
    target = SHIPPED.get(path, path)
    if not is_dotted(target):
        known = ", ".join(SHIPPED)
        msg = f"no agent is called {path!r}; expected one of {known}, or where it is: FILE.py:NAME"
        raise UsageError(msg)
    agent = load_dotted(target, "agent")
    if not is_agent(agent):
        msg = (
            f"agent {path!r} is neither an async callable with one argument nor a compiled "
            "LangGraph; expected `async def agent(situation) -> Contribution`"
        )
        raise UsageError(msg)
    named = getattr(agent, "agent_name", "") or target.replace(":", ".").rpartition(".")[2]
    return PlacedAgent(
        name=_checked(str(named), path), after=_stage(stage, agent, path), agent=agent
    )


def placed(*, after: Stage, name: str = "") -> Callable[[A], A]:
    """Mark an agent with its place, and its name where that is not the attribute's."""

    def mark(agent: A) -> A:
        marked: Any = agent
        marked.after = after
        if name:
            marked.agent_name = name
        return agent

    return mark


def is_agent(candidate: Any) -> bool:
    """Return whether it can be awaited with a situation, or is a compiled graph."""
    if inspect.isclass(candidate):
        return False
    if callable(getattr(candidate, "ainvoke", None)):
        return True
    return callable(candidate) and fits(candidate, Agent.__call__)


def _stage(named: str, agent: Any, path: str) -> Stage:
    wanted = named or getattr(agent, "after", Stage.RESEARCH)
    try:
        return Stage(wanted)
    except ValueError:
        stages = ", ".join(Stage)
        msg = f"agent {path!r}: there is no stage {wanted!r}; expected one of {stages}"
        raise UsageError(msg) from None


def _checked(name: str, path: str) -> str:
    if name.isidentifier():
        return name
    msg = (
        f"agent {path!r}: its name {name!r} cannot be a node's; expected letters, digits and _ in "
        "its attribute agent_name"
    )
    raise UsageError(msg)
