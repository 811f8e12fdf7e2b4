"""Finds loads whose values steer a kernel: decide a branch or an address.

Where only a part of a launch is executed, values that other blocks would have written are missing.
Missing values do not change counts unless they steer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cuda_llm.tools.emulator.codegen.flow import BlockEnd, GuardedBranch
from cuda_llm.tools.emulator.codegen.kernel import SiteDraft
from cuda_llm.tools.emulator.codegen.liveness import end_reads, successors
from cuda_llm.tools.emulator.codegen.memory import space_of
from cuda_llm.tools.emulator.codegen.waits import (
    BlockInstructions,
    LoweredInstruction,
    outermost_loops,
)
from cuda_llm.tools.emulator.ops.wgmma import is_group_product

_STORES = frozenset({"st", "red", "atom", "cp"})
_MEMORY = frozenset({"ld", "ldu", *_STORES})


def mark_steering(
    sites: Sequence[SiteDraft], blocks: Sequence[BlockInstructions]
) -> tuple[SiteDraft, ...]:
    """Return the sites, with the loads marked whose values decide a branch or an address.

    Shared and local memory, which a block writes and reads itself, are each followed as a single
    value. Global memory is not followed: the launch itself detects a missing value there.
    """
    body = [one for block in blocks for one in block.body]
    steering = _steering_registers(body, blocks)
    placed = list(sites)
    for one in body:
        brings = one.loads_from or is_group_product(one.instruction.opcode)
        if brings and not one.writes.isdisjoint(steering):
            for site in one.sites:
                placed[site] = replace(placed[site], steers=True)
    return tuple(placed)


def _steering_registers(
    body: Sequence[LoweredInstruction], blocks: Sequence[BlockInstructions]
) -> frozenset[str]:
    writers: dict[str, list[LoweredInstruction]] = {}
    for one in body:
        for register in one.writes:
            writers.setdefault(register, []).append(one)
    found: set[str] = set()
    own: set[str] = set()
    work = [register for block in blocks for register in end_reads(block.end)]
    for one in body:
        work.extend(one.address)
        if one.instruction.guard is not None and one.instruction.opcode[0] in _MEMORY:
            work.append(one.instruction.guard.reg.name)
    while work:
        register = work.pop()
        if register in found:
            continue
        found.add(register)
        for one in writers.get(register, ()):
            if one.loads_from in {"shared", "local", "generic"} and one.loads_from not in own:
                own.add(one.loads_from)
                work.extend(_stored(body))
            if not one.loads_from:
                work.extend(one.reads)
    return frozenset(found)


def _stored(body: Sequence[LoweredInstruction]) -> list[str]:
    """Return the registers that are stored to memory which the block may read again."""
    return [
        register
        for one in body
        if one.instruction.opcode[0] in _STORES and space_of(one.instruction.opcode) != "global"
        for register in one.reads
    ]


def outer_latches(ends: Sequence[BlockEnd]) -> Mapping[int, int]:
    """Return where outermost loops go back, by the block that does, if they can be left there."""
    latches: dict[int, int] = {}
    for loop in outermost_loops(ends):
        head = min(loop)
        back = [block for block in loop if head in successors(ends[block])]
        if all(_leaves(ends[block], loop) for block in back):
            latches.update(dict.fromkeys(back, head))
    return latches


def _leaves(end: BlockEnd, loop: frozenset[int]) -> bool:
    return isinstance(end, GuardedBranch) and not loop >= {end.target, end.otherwise}
