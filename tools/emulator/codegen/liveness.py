"""Finds which registers have a value that is still read later."""

from collections.abc import Sequence
from dataclasses import dataclass

from cuda_llm.tools.emulator.codegen.flow import (
    LEAVE,
    Barrier,
    BlockEnd,
    GuardedBranch,
    Jump,
    Switch,
)
from cuda_llm.tools.emulator.codegen.kernel import Step
from cuda_llm.tools.emulator.ptx.module import Reg


@dataclass(frozen=True)
class LoweredBlock:
    """A basic block as steps. A collective comes first in its block, after its operands alone."""

    steps: tuple[Step, ...]
    end: BlockEnd


def successors(end: BlockEnd) -> tuple[int, ...]:
    """Return the blocks that may run next; empty after the end of the kernel."""
    match end:
        case Jump(target) | Barrier(_, target):
            found: tuple[int, ...] = (target,)
        case GuardedBranch(_, target, otherwise):
            found = (target, otherwise)
        case Switch(_, targets):
            found = targets
    return tuple(block for block in found if block != LEAVE)


def end_reads(end: BlockEnd) -> tuple[str, ...]:
    """Return the registers that decide where lanes go."""
    match end:
        case GuardedBranch(guard):
            return (guard.reg.name,)
        case Switch(index):
            return (index.name,)
        case Barrier(instruction):
            return tuple(o.name for o in instruction.operands if isinstance(o, Reg))
        case Jump():
            return ()


def step_reads(step: Step) -> tuple[str, ...]:
    """Return the registers a step reads. A guarded write keeps the old value, so it reads it."""
    if step.guard is None:
        return step.reads
    return (*step.reads, step.guard.reg.name, *step.writes)


def live_out(blocks: Sequence[LoweredBlock]) -> list[frozenset[str]]:
    """Return for each block the registers that some successor may read before writing."""
    uses: list[set[str]] = []
    kills: list[set[str]] = []
    for block in blocks:
        used: set[str] = set()
        killed: set[str] = set()
        for step in block.steps:
            used.update(r for r in step_reads(step) if r not in killed)
            killed.update(step.writes)
        used.update(r for r in end_reads(block.end) if r not in killed)
        uses.append(used)
        kills.append(killed)
    after: list[set[str]] = [set() for _ in blocks]
    before: list[set[str]] = [set(used) for used in uses]
    predecessors: list[list[int]] = [[] for _ in blocks]
    for index, block in enumerate(blocks):
        for successor in successors(block.end):
            predecessors[successor].append(index)
    work = list(range(len(blocks)))
    while work:
        index = work.pop()
        for predecessor in predecessors[index]:
            new = before[index] - after[predecessor]
            if new:
                after[predecessor] |= new
                fresh = new - kills[predecessor] - before[predecessor]
                if fresh:
                    before[predecessor] |= fresh
                    work.append(predecessor)
    return [frozenset(registers) for registers in after]


def unset(blocks: Sequence[LoweredBlock]) -> frozenset[str]:
    """Return the registers that the first block may read before it writes them."""
    used: set[str] = set()
    killed: set[str] = set()
    for step in blocks[0].steps:
        used.update(r for r in step_reads(step) if r not in killed)
        killed.update(step.writes)
    used.update(r for r in end_reads(blocks[0].end) if r not in killed)
    return frozenset(used)


def crossing(after: Sequence[frozenset[str]]) -> frozenset[str]:
    """Return the registers whose value crosses a block boundary."""
    return frozenset().union(*after)
