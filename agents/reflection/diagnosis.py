"""What is known about one failure or one slow kernel, before it becomes a hint."""

from dataclasses import dataclass

from cuda_llm.agents.kernel_text.facts import SourceFacts
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.tasks.task import Task


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """A cause with its evidence. The fields mean what they mean in a `Hint`."""

    code: str
    cause: str
    text: str
    evidence: str = ""
    hardware_text: str = ""
    avoid: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Where a candidate failed: its source, its task, its GPU."""

    source: SourceFacts
    task: Task
    hardware: Hardware
