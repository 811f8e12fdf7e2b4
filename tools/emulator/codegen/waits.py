"""Waits of a warp in each basic block, counted along data dependencies, not along source lines.

Arithmetic, shared, local and constant memory count along the longest chain of data. Loads from
global memory wait together until an instruction needs a loaded value; guarded copies of an unrolled
loop wait together too, because ptxas turns their guards into predicates.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from cuda_llm.tools.emulator.codegen.flow import Barrier, BlockEnd
from cuda_llm.tools.emulator.codegen.kernel import SiteDraft, Step
from cuda_llm.tools.emulator.codegen.liveness import end_reads, step_reads, successors
from cuda_llm.tools.emulator.codegen.memory import space_of
from cuda_llm.tools.emulator.ops.machine_code import machine_code
from cuda_llm.tools.emulator.ops.tensor import CHAIN, instructions_of
from cuda_llm.tools.emulator.ptx.module import Address, Instruction, Reg
from cuda_llm.tools.profiler.tables import InstructionClass

WHOLE = 256
"""Units in a latency: waits are given in 256ths."""
SHUFFLE_CHAIN = 6
"""Latency of a shuffle in dependent arithmetic instructions (Jia et al. 2018: 22 to 24 clocks on
Volta)."""

FENCE_CHAIN = 100
"""Latency of a fence of the whole GPU behind a store, in dependent arithmetic instructions: 426
clocks of an idle H200."""

AT_ONCE = 8
"""Largest number of loads of a warp in flight: a warp has six scoreboards, which some loads share
(an estimate)."""

_NEAR = frozenset({"cta", "cluster", "proxy", "mbarrier_init"})
"""What makes a fence wait for nothing that is far away."""
_LOADS = frozenset({"ld", "ldu", "atom"})
_ORDERED = frozenset({"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"})


@dataclass(frozen=True)
class LoweredInstruction:
    """An instruction of a block's body, its steps, and the numbers of its sites."""

    instruction: Instruction
    steps: Sequence[Step]
    sites: range

    @cached_property
    def reads(self) -> frozenset[str]:
        """Return the registers that the instruction reads."""
        return frozenset(register for step in self.steps for register in step_reads(step))

    @cached_property
    def writes(self) -> frozenset[str]:
        """Return the registers that the instruction writes."""
        return frozenset(register for step in self.steps for register in step.writes)

    @cached_property
    def address(self) -> frozenset[str]:
        """Return the registers of the addresses that the instruction accesses."""
        bases = (o.base for o in self.instruction.operands if isinstance(o, Address))
        return frozenset(base.name for base in bases if isinstance(base, Reg))

    @cached_property
    def loads_from(self) -> str:
        """Return the space of a load, or of an atomic whose result is kept; empty for the rest."""
        opcode = self.instruction.opcode
        if opcode[0] == "ldmatrix" or opcode[:2] == ("wmma", "load"):
            return space_of(opcode)
        if opcode[0] not in _LOADS or (opcode[0] == "atom" and not self.writes):
            return ""
        space = space_of(opcode)
        return "" if space == "param" and not self.address else space

    @property
    def is_slow(self) -> bool:
        """Return whether it is a load that may go to DRAM."""
        return self.loads_from in {"global", "generic"}


@dataclass(frozen=True)
class BlockInstructions:
    """A basic block as its instructions and how it ends."""

    body: Sequence[LoweredInstruction]
    end: BlockEnd


def longest_chain(
    body: Iterable[LoweredInstruction], weight: Callable[[LoweredInstruction], int]
) -> int:
    """Return the weight of the heaviest path of data through a block."""
    depths: dict[str, int] = {}
    longest = 0
    for one in body:
        ready = max((depths.get(register, 0) for register in one.reads), default=0)
        ready += weight(one)
        longest = max(longest, ready)
        depths.update(dict.fromkeys(one.writes, ready))
    return longest


def arithmetic_chain(
    body: Iterable[LoweredInstruction], pipe: Callable[[Instruction], InstructionClass]
) -> int:
    """Return the longest chain of arithmetic and the fences, in latencies of an addition."""
    body = list(body)

    def weight(one: LoweredInstruction) -> int:
        parts = machine_code(one.instruction.opcode)
        if parts is not None:
            return parts.latencies
        match pipe(one.instruction):
            case InstructionClass.FREE | InstructionClass.LOAD_STORE:
                return 0
            case InstructionClass.SHUFFLE:
                return SHUFFLE_CHAIN
            case InstructionClass.TENSOR:
                # The wait for a warpgroup's product is at the wait for its group.
                return 0 if one.instruction.opcode[0] == "wgmma" else CHAIN
            case _:
                return 1

    return longest_chain(body, weight) + FENCE_CHAIN * sum(map(_is_fence, body))


def _is_fence(one: LoweredInstruction) -> bool:
    opcode = one.instruction.opcode
    return opcode[0] in {"membar", "fence"} and _NEAR.isdisjoint(opcode)


def shared_chain(body: Iterable[LoweredInstruction]) -> int:
    """Return the length of the longest chain of dependent reads of shared memory."""
    return longest_chain(body, lambda one: int(one.loads_from == "shared"))


def cached_chain(body: Iterable[LoweredInstruction], loaded: frozenset[str]) -> int:
    """Return the length of the longest chain of dependent reads of local memory, and of constants
    at addresses that were `loaded`."""

    def weight(one: LoweredInstruction) -> int:
        space = one.loads_from
        waits = space == "local" or (space in {"const", "param"} and bool(one.address & loaded))
        return int(waits)

    return longest_chain(body, weight)


def follow(sources: Iterable[str], blocks: Sequence[BlockInstructions]) -> frozenset[str]:
    """Return the registers that may hold something computed from `sources`, at any time."""
    readers: dict[str, list[frozenset[str]]] = {}
    for block in blocks:
        for one in block.body:
            for register in one.reads:
                readers.setdefault(register, []).append(one.writes)
    found: set[str] = set()
    work = list(sources)
    while work:
        register = work.pop()
        if register not in found:
            found.add(register)
            for writes in readers.get(register, ()):
                work.extend(writes - found)
    return frozenset(found)


def loaded_registers(blocks: Sequence[BlockInstructions]) -> frozenset[str]:
    """Return the registers that may hold something computed from memory."""
    every = (one for block in blocks for one in block.body if one.loads_from)
    return follow((register for one in every for register in one.writes), blocks)


def batches(body: Sequence[LoweredInstruction]) -> tuple[int, int]:
    """Return slow loads, and groups of them that are under way together.

    Loads of a basic block are issued as soon as their addresses are known, as ptxas moves them up;
    but not past a store to global memory or another access that keeps its place, and no more at
    once than registers hold.
    """
    depths: dict[str, int] = {}
    loads = groups = floor = 0
    for one in body:
        ready = max((depths.get(register, 0) for register in one.reads), default=0)
        if one.is_slow:
            loads += 1
            ready = max(ready, floor) + 1
            groups = max(groups, ready)
        if _keeps_order(one):
            floor = max(floor, ready)
        depths.update(dict.fromkeys(one.writes, ready))
    return loads, max(groups, -(-loads // AT_ONCE))


def place_waits(
    sites: Sequence[SiteDraft], blocks: Sequence[BlockInstructions]
) -> tuple[SiteDraft, ...]:
    """Return the sites with the waits of a warp at each: `waits`, `copy` and `loop`."""
    placed = list(sites)
    for block in blocks:
        loads, groups = batches(block.body)
        for one in block.body:
            # A wmma load is several accesses, which are under way together.
            accesses = instructions_of(one.instruction.opcode)
            share = WHOLE * groups // (loads * accesses) if one.is_slow else 0
            for site in one.sites if share else ():
                placed[site] = replace(placed[site], waits=min(share, 0xFFFF))
    copy = loop = 0
    for members in unrolled_loops(sites, blocks):
        # Loads of copies are under way together, but no more of them than loads of one block.
        each = max(batches(blocks[member].body)[0] for member in members)
        together = max(1, AT_ONCE // each)
        for number, member in enumerate(members):
            loop += number % together == 0
            copy += 1
            for one in blocks[member].body:
                for site in one.sites if one.is_slow else ():
                    placed[site] = replace(placed[site], copy=copy, loop=loop)
    return tuple(placed)


def unrolled_loops(
    sites: Sequence[SiteDraft], blocks: Sequence[BlockInstructions]
) -> list[list[int]]:
    """Return groups of blocks that are copies of a loop's body, by their loads.

    Copies have the same source lines (in a library's headers, whose lines are not known, the same
    loads) and the same innermost loop, with no barrier between them. No
    copy stores to global memory, and neither the address nor the guard of a copy's load depends on
    a value that another copy has loaded.
    """
    inner = innermost_loops(blocks)
    groups: dict[object, list[int]] = {}
    barriers = 0
    for index, block in enumerate(blocks):
        loads = [one for one in block.body if one.is_slow]
        if loads and not any(_keeps_order(one) for one in block.body):
            groups.setdefault((_origin(loads, sites), inner[index], barriers), []).append(index)
        barriers += isinstance(block.end, Barrier)
    found = [members for members in groups.values() if len(members) > 1]
    return [members for members in found if not _depend(members, blocks)]


def _origin(loads: Sequence[LoweredInstruction], sites: Sequence[SiteDraft]) -> object:
    """Return the lines that loads come from; their opcodes where one has no line."""
    lines = [sites[site].loc for one in loads for site in one.sites]
    known = frozenset((loc.file, loc.line) for loc in lines if loc)
    return known if None not in lines else tuple(one.instruction.opcode for one in loads)


def _keeps_order(one: LoweredInstruction) -> bool:
    opcode = one.instruction.opcode
    if opcode[0] in {"st", "atom", "red"} or opcode[:2] == ("wmma", "store"):
        return space_of(opcode) in {"global", "generic"}
    return one.is_slow and not _ORDERED.isdisjoint(opcode)


def _depend(members: Sequence[int], blocks: Sequence[BlockInstructions]) -> bool:
    """Return whether copies of a loop's body wait for values that other copies have loaded."""
    loads = [one for index in members for one in blocks[index].body if one.is_slow]
    loaded = follow((register for one in loads for register in one.writes), blocks)
    if any(one.address & loaded for one in loads):
        return True
    between = blocks[members[0] : members[-1]]
    return any(not loaded.isdisjoint(end_reads(block.end)) for block in between)


def innermost_loops(blocks: Sequence[BlockInstructions]) -> list[int]:
    """Return for each block the number of the innermost loop it is in; 0 for none."""
    after = [successors(block.end) for block in blocks]
    inner = [0] * len(blocks)
    work = [frozenset(range(len(blocks)))]
    number = 0
    while work:
        for knot in _knots(work.pop(), after):
            number += 1
            for block in knot:
                inner[block] = number
            work.append(knot - {min(knot)})
    return inner


def outermost_loops(ends: Sequence[BlockEnd]) -> list[frozenset[int]]:
    """Return the blocks of each loop that lies in no other loop."""
    return _knots(frozenset(range(len(ends))), [successors(end) for end in ends])


def _knots(nodes: frozenset[int], after: Sequence[Sequence[int]]) -> list[frozenset[int]]:
    """Return the strongly connected components (Tarjan) with several blocks, or with a block that
    repeats."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    stacked: set[int] = set()
    found: list[frozenset[int]] = []
    for root in sorted(nodes):
        if root in order:
            continue
        calls = [(root, iter(after[root]))]
        order[root] = low[root] = len(order)
        stack.append(root)
        stacked.add(root)
        while calls:
            node, rest = calls[-1]
            target = next(
                (t for t in rest if t in nodes and (t not in order or t in stacked)), None
            )
            if target is None:
                calls.pop()
                if calls:
                    low[calls[-1][0]] = min(low[calls[-1][0]], low[node])
                if low[node] == order[node]:
                    part = stack[stack.index(node) :]
                    del stack[stack.index(node) :]
                    stacked.difference_update(part)
                    if len(part) > 1 or node in after[node]:
                        found.append(frozenset(part))
            elif target in order:
                low[node] = min(low[node], order[target])
            else:
                order[target] = low[target] = len(order)
                stack.append(target)
                stacked.add(target)
                calls.append((target, iter(after[target])))
    return found
