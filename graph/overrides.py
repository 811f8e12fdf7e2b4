"""Parts of a run that a caller passes as Python objects instead of naming them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from cuda_llm.agents.generator import Generator
    from cuda_llm.agents.reflector import Reflector
    from cuda_llm.agents.seam import PlacedAgent
    from cuda_llm.agents.strategy import Strategy
    from cuda_llm.agents.tuner import Tuner
    from cuda_llm.graph.judging.bench import Bench
    from cuda_llm.tasks.task import Task
    from cuda_llm.tools.device import Device


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """Objects that replace what the request names. `run.json` keeps only which of them there were:
    whoever resumes such a run passes them again."""

    task: "Task | None" = None
    device: "Device | None" = None
    model: "BaseChatModel | None" = None
    """The generator's."""
    reflection_model: "BaseChatModel | None" = None
    agent_models: "Mapping[str, BaseChatModel]" = field(default_factory=dict)
    """By the name of the agent that asks it, beside the ones that the request names."""
    generator: "Generator | None" = None
    strategy: "Strategy | None" = None
    reflector: "Reflector | None" = None
    tuner: "Tuner | None" = None
    agents: "tuple[PlacedAgent, ...]" = ()
    """Beside the ones that the request names."""
    bench: "Bench | None" = None

    @property
    def given(self) -> Mapping[str, object]:
        """The objects that were passed, by field."""
        return {name: part for name, part in vars(self).items() if part}


NOTHING = Overrides()
