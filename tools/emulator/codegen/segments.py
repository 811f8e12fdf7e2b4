"""Schedules the steps of a block: lane operations are gathered into long loops between acts.

A lane operation is pure, so it may wait until an act, or the end of the block, needs its result.
Waiting operations then share a loop over the lanes, in which intermediate values stay scalars.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cuda_llm.tools.emulator.codegen.kernel import Act, Lane, Step
from cuda_llm.tools.emulator.codegen.liveness import step_reads


@dataclass(frozen=True)
class Segment:
    """Lane operations that share a loop over the lanes."""

    lanes: tuple[Lane, ...]
    stores: frozenset[str] = frozenset()
    """Registers that are read after the loop."""


Item: TypeAlias = Segment | Act


def schedule(steps: Iterable[Step], live: frozenset[str], needed: Iterable[str]) -> list[Item]:
    """Return a block's items. `live` registers are read in later blocks, `needed` by its end."""
    return _prune(_gather(steps), live | frozenset(needed))


def _gather(steps: Iterable[Step]) -> list[Item]:
    items: list[Item] = []
    waiting: list[Lane] = []
    for step in steps:
        if isinstance(step, Lane) and step.vectorises:
            waiting.append(step)
            continue
        ready, waiting = _split(waiting, step)
        if ready:
            items.append(Segment(tuple(ready)))
        items.append(Segment((step,)) if isinstance(step, Lane) else step)
    if waiting:
        items.append(Segment(tuple(waiting)))
    return items


def _split(waiting: Sequence[Lane], step: Step) -> tuple[list[Lane], list[Lane]]:
    """Return the operations that must run before `step`, and those that may go on waiting."""
    read = set(step_reads(step))
    written = set(step.writes)
    ready: list[Lane] = []
    rest: list[Lane] = []
    for lane in reversed(waiting):
        writes = lane.writes
        reads = step_reads(lane)
        if any(r in read or r in written for r in writes) or any(r in written for r in reads):
            ready.append(lane)
            read.update(reads)
            written.update(writes)
        else:
            rest.append(lane)
    return ready[::-1], rest[::-1]


def _prune(items: Sequence[Item], live: frozenset[str]) -> list[Item]:
    """Drop operations whose results are not read, and note what each loop has to store."""
    needed = set(live)
    kept: list[Item] = []
    for item in reversed(items):
        if isinstance(item, Act):
            if item.guard is None:
                needed.difference_update(item.writes)
            needed.update(step_reads(item))
            kept.append(item)
            continue
        stores = {r for lane in item.lanes for r in lane.writes if r in needed}
        lanes: list[Lane] = []
        for lane in reversed(item.lanes):
            if not any(r in needed for r in lane.writes):
                continue
            if lane.guard is None:
                needed.difference_update(lane.writes)
            needed.update(step_reads(lane))
            lanes.append(lane)
        if lanes:
            kept.append(Segment(tuple(reversed(lanes)), frozenset(stores)))
    return kept[::-1]
