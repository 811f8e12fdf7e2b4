"""The parts of a run: those that a script passes as Python objects, those that answer from the
record of an earlier run, and all parts together before the run starts.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cuda_llm.run_config import RunConfig
from cuda_llm.traces.events import ModelCalled
from cuda_llm.traces.run_folder import RunFolder

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from cuda_llm.agents.prompting.templates import Templates
    from cuda_llm.agents.protocols import Generator, PlacedAgent, Reflector, Strategy, Tuner
    from cuda_llm.tasks.task import Task
    from cuda_llm.tools.device import Device
    from cuda_llm.tools.judge.bench import Bench


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Python objects of the caller, in place of the parts that a RunConfig names. `run.json` keeps
    only the names of the fields: to resume such a run the caller passes the objects again."""

    task: "Task | None" = None
    device: "Device | None" = None
    opened_device: "Device | None" = None
    """The device that the configuration names, open already: not passed again to resume."""
    model: "BaseChatModel | None" = None
    """Chat model of the generator."""
    reflection_model: "BaseChatModel | None" = None
    agent_models: "Mapping[str, BaseChatModel]" = field(default_factory=dict)
    """Chat models by the name of the agent that asks the model, beside the models that the
    configuration names."""
    generator: "Generator | None" = None
    strategy: "Strategy | None" = None
    reflector: "Reflector | None" = None
    tuner: "Tuner | None" = None
    agents: "tuple[PlacedAgent, ...]" = ()
    """Agents beside the agents that the configuration names."""
    bench: "Bench | None" = None

    @property
    def given(self) -> Mapping[str, object]:
        """The objects that the caller passed, by field."""
        return {name: part for name, part in vars(self).items() if part and name != "opened_device"}


NO_PARTS = Parts()


@dataclass(frozen=True, kw_only=True)
class Replay:
    """The record of an earlier run, and the parts of a new run that answer from the record."""

    folder: RunFolder
    """Folder of the earlier run."""
    calls: Mapping[str, ModelCalled]
    """The last call to a model by place: a run that was killed may have made a call twice."""
    generator: "Generator | None"
    """None where today's code writes the kernels: a generator that asks a model, that only tunes,
    or that the user named or brought."""
    tuner: "Tuner | None"
    """None beside a generator of today's code."""
    device: "Device | None"
    """None where another device judges the kernels."""
    bench: "Bench | None"
    """None without `device`."""
    last_round: int
    """Last round of the earlier run."""
    reason: str
    """Reason why the earlier run ended; empty where the run did not end, or ended with its last
    round."""
    taken: set[str] = field(default_factory=set)
    """Places of the calls answered so far."""

    def why_end(self, round_: int) -> str:
        """Return why no round follows `round_`; empty where the record holds a later round."""
        if round_ < self.last_round:
            return ""
        return self.reason or f"the record of {self.folder.name} ends with round {self.last_round}"

    def find_place(self, call: str) -> str | None:
        """Return the place of the recorded answer to a call; None without a recorded answer.

        The place of an agent's question follows from the words of the question. A question in other
        words gets the next answer of the same turn of the agent that was not given yet.
        """
        found: str | None = call
        if call not in self.calls and self.folder.load_reply(call) is None:
            turn, name = call.rpartition("/")[::2]
            left = (one for one in self.calls if one.rpartition("/")[0] == turn)
            asks = name.startswith("ask-")
            found = next((one for one in left if asks and one not in self.taken), None)
        self.taken.add(found or "")
        return found

    def copy_reviews(self, folder: RunFolder) -> None:
        """Copy a person's decisions before each round to `folder`, so that no person is asked."""
        for path in self.folder.path.glob("rounds/*/review.json"):
            new = folder.path / path.relative_to(self.folder.path)
            new.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, new)


@dataclass(frozen=True)
class GeneratorChoice:
    """The name of the generator, with a note for the user on why this generator was chosen."""

    name: str
    """`llm`, `playbook`, `tuner` or a dotted path."""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class RunParts:
    """The parts of one run, found and checked before anything is written or started."""

    config: RunConfig
    """The configuration without open choices."""
    brought: Parts = NO_PARTS
    """The caller's own objects."""
    folder: RunFolder
    """Folder of the run, which may not exist yet."""
    task: "Task"
    device: "Device"
    generator_choice: GeneratorChoice
    generator: "Generator | None"
    """None for the generator that asks a model: prompts and replies need the run's folder."""
    strategy: "Strategy"
    agents: "tuple[PlacedAgent, ...]"
    """Agents between the stages, with the hardware researcher unless the user left the researcher
    out."""
    templates: "Templates"
    """Templates of the prompts."""
    own_part_names: tuple[str, ...] = ()
    """Names of the agents, and of a generator and a reflector of the user's: each may have a model
    of its own."""
    replay: Replay | None = None
    """The record that answers instead of models and device; None where models and device are
    asked."""

    @property
    def run_id(self) -> str:
        """Name of the run."""
        return self.folder.name

    @property
    def note(self) -> str:
        """Notes for the user on the choice of the generator and on the device."""
        return "; ".join(filter(None, (self.generator_choice.note, *self.device.notes)))

    @property
    def model(self) -> str:
        """Name of the model that writes kernels; empty where no model writes."""
        return self.named_model if self.generator_choice.name == "llm" else ""

    @property
    def critic(self) -> str:
        """Name of the model that our reflection asks; empty where no prompt holds its hints."""
        if self.brought.reflector is not None:
            return ""
        if not (self.strategy.components & self.config.components).hints:
            return ""
        own = name_of(self.brought.reflection_model) or self.config.reflection_model
        writes_alone = self.generator_choice.name in ("playbook", "tuner")
        return own or ("" if writes_alone else self.named_model)

    @property
    def named_model(self) -> str:
        """Name of the model that the user named; empty where the user named none."""
        return name_of(self.brought.model) or self.config.model


def name_of(model: object | None) -> str:
    """Return the name that a chat model gives itself; empty for None."""
    if model is None:
        return ""
    named = getattr(model, "model_name", None) or getattr(model, "model", None)
    return str(named or type(model).__name__)
