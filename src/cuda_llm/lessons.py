"""Lessons across tasks: orders of earlier runs with what they promised and what came of them, and
what orders of one kind taught together.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from cuda_llm.predictions import Predictor
from cuda_llm.profile import TimeSource
from cuda_llm.search import Kind


@dataclass(frozen=True, kw_only=True)
class TriedOrder:
    """One order of a finished run, with its promise and its outcome. Holds names and figures: no
    text of a kernel, a prompt or a path."""

    run: str
    """Id of the run; with `candidate` it separates equal orders from an order stored twice."""
    candidate: str
    gpu: str
    """Name of the hardware profile."""
    time_source: TimeSource
    task: str
    task_kind: str
    """Value of a `TaskKind`."""
    kind: Kind
    technique: str = ""
    """Text of the technique in the catalogue; empty for a change in the words of a critique."""
    against: str = ""
    """Code of the bottleneck that the order was to relieve; empty where none was known."""
    by: Predictor = "diagnosis"
    promised: float = 0.0
    """Largest saving that the order named, as a part of the time of the parent (of the baseline
    without a parent); 0 where no saving was named."""
    had: float | None = None
    """Saving over the score; negative if slower, None where the kernel did not pass."""
    gained: bool = False
    """Whether the saving is more than a tie."""
    nvcc: str = ""
    """Version of the compiler; empty where it is not known."""


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """What the orders of one technique against one bottleneck taught."""

    kind: Kind
    technique: str
    against: str
    tried: int
    gained: int
    had: float
    """Median saving of the orders whose kernel passed; 0 where none did."""
    promised: float
    """Median of the named savings; 0 where none was named."""
    tasks: tuple[str, ...]
    """Tasks of the orders, by name."""


def tally_lessons(orders: Iterable[TriedOrder]) -> tuple[Lesson, ...]:
    """Return one lesson for each kind of order, the most tried first; orders that were stored
    twice count once."""
    kinds: dict[tuple[Kind, str, str], list[TriedOrder]] = {}
    for one in dict.fromkeys(orders):
        kinds.setdefault((one.kind, one.technique, one.against), []).append(one)
    found = (
        Lesson(
            kind=kind,
            technique=technique,
            against=against,
            tried=len(tried),
            gained=sum(one.gained for one in tried),
            had=median([one.had for one in tried if one.had is not None] or [0.0]),
            promised=median([one.promised for one in tried if one.promised] or [0.0]),
            tasks=tuple(sorted({one.task for one in tried})),
        )
        for (kind, technique, against), tried in kinds.items()
    )
    return tuple(sorted(found, key=lambda one: (-one.tried, one.kind, one.technique, one.against)))
