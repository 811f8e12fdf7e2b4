"""A kernel that passed on a GPU is looked at as one that is about to be crowned: by sanitizers and
by the emulated device.

A race that does not show in results passes validation and timing there; no run would crown it.
"""

from dataclasses import dataclass
from typing import Literal

from corpus import Known, fault_of

from cuda_llm.outcomes import Passed, Verdict
from cuda_llm.tasks.task import Task
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.counters.inspect import Inspection, Look
from cuda_llm.tools.device import Device
from cuda_llm.tools.judge.second_look import look_closer

SANITIZERS_ALONE = Look(counters=False, sass=False)
State = Literal["clean", "found", "no result"]


def is_due(known: Known, code: str, *, honest_too: bool) -> bool:
    """Whether a kernel with this verdict has to be looked at before it is believed."""
    return code == Passed.code and (honest_too or not known.honest)


async def inspect(task: Task, device: Device, compiled: Compiled) -> Inspection:
    """What the sanitizers and the emulated device say of small sizes."""
    return await look_closer(task, device, compiled, task.sizes.edge[0], SANITIZERS_ALONE)


@dataclass(frozen=True, kw_only=True)
class Believed:
    """A verdict after the look."""

    verdict: Verdict
    fault: str
    """What is not right about it; empty where it is."""
    state: State
    """`no result`: not every tool came to one, and none found anything."""


def believed(known: Known, passed: Verdict, found: Inspection) -> Believed:
    """What a sanitizer or the emulated device finds is the verdict. They see much the same, so that
    of a cheat what is right on the emulated device is right of it.
    """
    if found.fault is not None:
        fault = fault_of(known.looked_at(), found.fault, gpu=True)
        return Believed(verdict=found.fault, fault=fault, state="found")
    states = {one.state for one in found.sanitized}
    state: State = "clean" if states == {"clean"} else "no result"
    return Believed(verdict=passed, fault=fault_of(known, passed, gpu=True), state=state)
