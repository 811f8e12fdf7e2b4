"""What an agent sees of a run: everything there is to decide on, and nothing to change."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cuda_llm.capabilities import Capabilities
from cuda_llm.conversation import AskModel, no_model
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.predictions import Prediction
from cuda_llm.run_config import RunConfig
from cuda_llm.search import Archive, Attempt, DuelResult, Hint, predictions_of
from cuda_llm.tasks.task import Task


@dataclass(frozen=True, kw_only=True)
class Note:
    """What an extra agent found, kept in the state under the agent's name."""

    text: str = ""
    """Goes into prompts."""
    about_hardware: bool = False
    """Then it goes into prompts only where the hardware context is `full`."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Plain JSON, for other agents and the trace."""


@dataclass(frozen=True, kw_only=True)
class Situation:
    """A run as it stands. Agents, strategies and generators all decide on this."""

    task: Task
    hardware: Hardware
    device: str
    """What runs the kernels, as a person reads it."""
    capabilities: Capabilities
    """What the device can do, and how its times come about."""
    config: RunConfig
    """What the run was asked for."""
    round: int
    """The round at work, from 1; 0 before the first."""
    attempts: tuple[Attempt, ...] = ()
    """All that were judged, by round and index. Append-only."""
    incumbent: Attempt | None = None
    """The kernel to beat; None while no generated one has passed."""
    duels: Mapping[str, DuelResult] = field(default_factory=dict)
    """By contender: who was timed beside the incumbent before this round's choice. Empty where
    times are modelled: there the attempts' own times say as much."""
    sizes: tuple[Mapping[str, int], ...] = ()
    """Dims of the timed sizes."""
    baseline_us: tuple[float, ...] = ()
    """The baseline's time at each of `sizes`."""
    error_hints: tuple[Hint, ...] = ()
    performance_hints: tuple[Hint, ...] = ()
    notes: Mapping[str, Note] = field(default_factory=dict)
    """By name of the agent that wrote it."""
    archive: Archive
    ask: AskModel = field(default=no_model, repr=False, compare=False)
    """Asks the model of the agent, generator or reflector that is at work; anybody else, such as
    a strategy, is answered a CallFailed of kind `no_model`."""

    @property
    def predictions(self) -> tuple[Prediction, ...]:
        """Return what orders of this run should have saved, and what they did."""
        return predictions_of(self.attempts)

    def attempt(self, name: str) -> Attempt:
        """Return the attempt of that id. Raises KeyError."""
        found = next((one for one in self.attempts if one.id == name), None)
        if found is None:
            raise KeyError(name)
        return found
