"""One technique, and whether it fits."""

from dataclasses import dataclass

from cuda_llm.agents.situation import Situation
from cuda_llm.agents.techniques.work import Work, work_of
from cuda_llm.search import Kind


@dataclass(frozen=True, kw_only=True)
class Technique:
    """Something a candidate may be told to try.

    The text names it and how to go about it, never a figure of the hardware: it is shown whatever
    the hardware context is.
    """

    text: str
    kinds: frozenset[Kind]
    """Orders it fits."""
    work: frozenset[Work] = frozenset(Work)
    """Kinds of work it fits; all where nothing is said."""
    against: tuple[str, ...] = ()
    """Codes of bottlenecks it relieves."""
    needs: tuple[int, int] = (0, 0)
    """Least compute capability; beyond (0, 0) it is not offered where the hardware is hidden."""
    emulated: bool = True
    """Whether the emulated device executes it."""
    library: str = ""
    """Header library the task must allow."""
    shown_by: str = ""
    """What a source that uses it already shows (`kernel_text.signs`); empty where nothing
    tells."""


STRUCTURE = frozenset({Kind.FIRST, Kind.DEPART})
"""Another way to cut the problem into threads: to begin with, or to leave the beaten track."""
CHANGE = frozenset({Kind.IMPROVE})
"""A change to a kernel that works."""
REPAIR = frozenset({Kind.FIX})

STREAMS, REARRANGES = frozenset({Work.STREAMS}), frozenset({Work.REARRANGES})
ACCUMULATES, SCATTERS = frozenset({Work.ACCUMULATES}), frozenset({Work.SCATTERS})
REUSES, SLIDES = frozenset({Work.REUSES}), frozenset({Work.SLIDES})
ADDS_UP = ACCUMULATES | SCATTERS


def fits(technique: Technique, situation: Situation) -> bool:
    """Whether it suits the task's kind of work, and the task and what runs the kernels allow it."""
    task = situation.task
    return (
        work_of(task) in technique.work
        and (not technique.library or technique.library in task.capabilities.header_libraries)
        and technique.needs <= situation.hardware.compute_capability
        and (technique.emulated or situation.capabilities.full_isa)
    )
