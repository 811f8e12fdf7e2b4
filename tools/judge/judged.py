"""What judging one source file gives."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cuda_llm.outcomes import Verdict
from cuda_llm.tools.compiler.candidate import Compiled

OnStage = Callable[[str, str], None]
"""Called with a candidate's name and the stage it enters: `compile`, `validate`, `time`."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One candidate, its verdict and what it took."""

    name: str
    verdict: Verdict
    compiled: Compiled | None = None
    """None when it did not get through the compiler."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Wall time by stage: `compile`, `validate`, `time`."""
    isolation: str = ""
    """What kept its runner in on a GPU; empty where nothing ran, and on an emulated device."""


def ignore(_name: str, _stage: str) -> None:
    """An `OnStage` that tells nobody."""
