"""Everything a run is wired to: LangGraph's runtime context. Values and parts, no decisions."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cuda_llm.agents.generator import Generator
from cuda_llm.agents.reflector import Reflector
from cuda_llm.agents.seam import PlacedAgent
from cuda_llm.agents.situation import Plan
from cuda_llm.agents.strategy import Strategy
from cuda_llm.agents.tuner import Tuner
from cuda_llm.conversation import Ask, Call, CallFailed, Reply
from cuda_llm.graph.judging.bench import Bench
from cuda_llm.graph.request import RunRequest
from cuda_llm.graph.workbench import Workbench
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Device
from cuda_llm.traces.events import Record
from cuda_llm.traces.run_folder import RunFolder


def never_over() -> str:
    """No budget."""
    return ""


def no_end() -> float:
    """No deadline."""
    return math.inf


def keep_open() -> None:
    """Whoever made the parts closes them."""


def no_client(agent: str) -> Ask:
    """No model for anybody."""

    async def ask(call: Call) -> Reply | CallFailed:
        return CallFailed(kind="no_model", detail=f"no model is named for {agent}", tries=0)

    return ask


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """One run's parts."""

    run_id: str
    request: RunRequest
    task: Task
    device: Device
    plan: Plan
    folder: RunFolder
    record: Record
    generator: Generator
    strategy: Strategy
    reflector: Reflector
    tuner: Tuner
    agents: tuple[PlacedAgent, ...]
    """The researcher among them, unless the user took it out."""
    bench: Bench
    over: Callable[[], str] = never_over
    """Why the run has to end (money, tokens, time), in a few words; empty to go on. Asked before
    each round; what is at work may end."""
    seconds_left: Callable[[], float] = no_end
    """Until `--max-minutes` are over: a round does not wait for its candidates any longer."""
    client_of: Callable[[str], Ask] = no_client
    """What asks the model of an agent, generator or reflector of the user's, by its name."""
    release: Callable[[], None] = keep_open
    """Called when the run is over: gives its trace back where nobody else would."""
    note: str = ""
    """What the user should know about how this run was set up; `RunStarted` tells it."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of what made the run: `cuda-llm`, `nvcc` ... For `RunStarted`."""
    workbench: Workbench = field(default_factory=Workbench)
    """What is at work. Whoever runs the graph closes it in the end, come what may."""
