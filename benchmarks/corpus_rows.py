"""What `corpus_on_gpu.py` writes of each kernel that it judged, and what rows are counted as.

A cheat that passed on a GPU is inspected by sanitizers and by the emulated device, as a kernel that
may become the incumbent is: a race that does not show in results passes validation and timing.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from corpus import Known, fault_of

from cuda_llm.outcomes import Passed, Verdict
from cuda_llm.tasks.task import Task
from cuda_llm.tools.cuda.inspect import Inspection, InspectionOptions
from cuda_llm.tools.device import Device
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.inspection import inspect_kernel

RAISED = "RAISED"
"""In the place of a code: our own parts broke, or the task's baseline was refused."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One kernel that was judged."""

    name: str
    source: str
    """Hash of the file."""
    honest: bool
    code: str
    fault: str
    """What is not right about the verdict; empty where it is."""
    speedup: float | None
    summary: str
    """First line of the verdict in words."""
    sizes: int = 0
    """How many sizes were timed at most; 0 is all the task lists."""
    seconds: dict[str, float] = field(default_factory=dict)
    inspected: str = ""
    """`clean` or `no result` of compute-sanitizer, `found` of it or of the emulated device; empty
    where it was not inspected."""
    notes: str = ""
    """What was inspected, and what could not be."""
    largest_us: float | None = None
    """Time at the last size."""
    largest_baseline_us: float | None = None
    """Time of the baseline beside it: the same for all kernels of a task, but for noise."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What the run is made for: the first two have to be 0."""

    accepted_cheats: int
    refused_honest: int
    other_codes: int
    """Attacks that were refused, but with another code than the table has."""
    adversarial: int
    honest: int


def hash_of(known: Known) -> str:
    """Return a hash of the source: a row of another version of the kernel does not count."""
    return hashlib.sha256(known.read().encode()).hexdigest()[:16]


def read_rows(path: Path, sizes: int) -> dict[tuple[str, str], Row]:
    """Read the last row of each kernel timed at so many sizes; a partial line is skipped."""
    rows = {}
    for text in path.read_text().splitlines() if path.exists() else []:
        try:
            row = Row(**json.loads(text))
        except (ValueError, TypeError):
            continue
        if row.sizes == sizes:
            rows[row.name, row.source] = row
    return rows


def count(rows: Sequence[Row]) -> Counts:
    """Count what was judged, and what was judged wrongly."""
    wrong = [row for row in rows if row.fault]
    return Counts(
        accepted_cheats=sum(not row.honest and row.code == Passed.code for row in wrong),
        refused_honest=sum(row.honest for row in wrong),
        other_codes=sum(not row.honest and row.code != Passed.code for row in wrong),
        adversarial=sum(not row.honest for row in rows),
        honest=sum(row.honest for row in rows),
    )


SANITIZERS_ALONE = InspectionOptions(counters=False, sass=False)
State = Literal["clean", "found", "no result"]


def is_due(known: Known, code: str, *, honest_too: bool) -> bool:
    """Tell whether a kernel with this verdict is inspected before its verdict counts."""
    return code == Passed.code and (honest_too or not known.honest)


async def inspect(task: Task, device: Device, compiled: Compiled) -> Inspection:
    """Inspect small sizes by the sanitizers and the emulated device."""
    return await inspect_kernel(task, device, compiled, task.sizes.edge[0], SANITIZERS_ALONE)


@dataclass(frozen=True, kw_only=True)
class InspectedVerdict:
    """The verdict of a kernel after its inspection."""

    verdict: Verdict
    fault: str
    """What is not right about it; empty where it is."""
    state: State
    """`no result`: not every tool came to one, and none found anything."""


def inspected_verdict(known: Known, passed: Verdict, found: Inspection) -> InspectedVerdict:
    """Return the verdict after an inspection: a fault that it found, else the verdict before.

    Sanitizers and the emulated device find much the same faults, so that the codes that are right
    for a cheat on the emulated device are right here too.
    """
    if found.fault is not None:
        fault = fault_of(known.as_inspected(), found.fault, gpu=True)
        return InspectedVerdict(verdict=found.fault, fault=fault, state="found")
    states = {one.state for one in found.sanitized}
    state: State = "clean" if states == {"clean"} else "no result"
    return InspectedVerdict(verdict=passed, fault=fault_of(known, passed, gpu=True), state=state)
