"""The situation of a run: all values that agents decide on, and nothing to change."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cuda_llm.capabilities import Capabilities
from cuda_llm.conversation import AskModel, no_model
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.lessons import Lesson
from cuda_llm.predictions import Prediction
from cuda_llm.run_config import RunConfig
from cuda_llm.search import Archive, Attempt, DuelResult, Hint, predictions_of
from cuda_llm.tasks.task import Task


@dataclass(frozen=True, kw_only=True)
class Note:
    """The finding of an extra agent, which the state holds under the agent's name."""

    text: str = ""
    """Text of the note for prompts."""
    about_hardware: bool = False
    """Whether the note is about the hardware: such a note is in prompts only where the hardware
    context is `full`."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Plain JSON, for other agents and the trace."""


@dataclass(frozen=True, kw_only=True)
class Situation:
    """The state of a run at one moment, on which agents, strategies and generators decide."""

    task: Task
    hardware: Hardware
    device: str
    """Name of the device for a person, as `emulated RTX 3090 Ti`."""
    capabilities: Capabilities
    """Capabilities of the device, and the source of its times."""
    config: RunConfig
    """Configuration of the run."""
    round: int
    """Round at work, from 1; 0 before the first round."""
    attempts: tuple[Attempt, ...] = ()
    """All attempts, by round and index. Append-only."""
    incumbent: Attempt | None = None
    """The fastest attempt so far, which a contender must beat; None before an attempt has
    passed."""
    duels: Mapping[str, DuelResult] = field(default_factory=dict)
    """Duels with the incumbent before this round's choice, by the contender's id. Empty for
    modelled times: the times of the attempts suffice."""
    sizes: tuple[Mapping[str, int], ...] = ()
    """Dims of the timed sizes."""
    baseline_us: tuple[float, ...] = ()
    """Time of the baseline at each of `sizes`, in microseconds."""
    error_hints: tuple[Hint, ...] = ()
    performance_hints: tuple[Hint, ...] = ()
    notes: Mapping[str, Note] = field(default_factory=dict)
    """Notes of agents, by the name of the agent."""
    lessons: tuple[Lesson, ...] = ()
    """Lessons of runs of other tasks; none unless the strategy's switch `lessons` is on."""
    archive: Archive
    ask: AskModel = field(default=no_model, repr=False, compare=False)
    """Asks the model of the agent, generator or reflector that is at work; anybody else, such as
    a strategy, is answered a CallFailed of kind `no_model`."""

    @property
    def predictions(self) -> tuple[Prediction, ...]:
        """Predicted savings of the briefs of this run beside the measured savings."""
        return predictions_of(self.attempts)

    def attempt(self, name: str) -> Attempt:
        """Return the attempt of that id. Raises KeyError."""
        found = next((one for one in self.attempts if one.id == name), None)
        if found is None:
            raise KeyError(name)
        return found
