"""Parts of a run that a script passes as Python objects: its own device, models, agents."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from cuda_llm.agents.protocols import Generator, PlacedAgent, Reflector, Strategy, Tuner
    from cuda_llm.tasks.task import Task
    from cuda_llm.tools.device import Device
    from cuda_llm.tools.judge.bench import Bench


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Python objects in place of what a RunConfig names. `run.json` keeps only which of them there
    were: to resume such a run they must be passed again."""

    task: "Task | None" = None
    device: "Device | None" = None
    opened_device: "Device | None" = None
    """The one that the configuration names, open already: it need not be passed again."""
    model: "BaseChatModel | None" = None
    """The generator's."""
    reflection_model: "BaseChatModel | None" = None
    agent_models: "Mapping[str, BaseChatModel]" = field(default_factory=dict)
    """By the name of the agent that asks it, beside those that the configuration names."""
    generator: "Generator | None" = None
    strategy: "Strategy | None" = None
    reflector: "Reflector | None" = None
    tuner: "Tuner | None" = None
    agents: "tuple[PlacedAgent, ...]" = ()
    """Beside those that the configuration names."""
    bench: "Bench | None" = None

    @property
    def given(self) -> Mapping[str, object]:
        """The objects that were passed, by field."""
        return {name: part for name, part in vars(self).items() if part and name != "opened_device"}


NO_PARTS = Parts()
