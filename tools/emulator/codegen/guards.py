"""Finds loads that race with nothing: whose value nobody uses, and plain ones that only guard an
update of the same word: `if (*p < v) atomicMax(p, v)`.

A load whose value no instruction reads brings a line into a cache, as a prefetch does. A guarding
load races with the updates of other threads, but no result depends on what it reads: the
value decides whether the update is made, or is what a compare-and-swap compares with. The rule
looks at the kernel alone, so it is the same in every run:

- some min, max, and, or, cas of the same address is made only where the loaded value says so, or is
  a cas that compares with the value;
- the value, and what is computed from it, reaches no other address, store, update or collective
  until such a cas has compared with it;
- from a branch that the value decides to where its two ways meet again, nothing is stored, updated
  or waited for before such an update.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cuda_llm.tools.emulator.codegen.atomics import OPERATIONS
from cuda_llm.tools.emulator.codegen.flow import (
    LEAVE,
    Barrier,
    BlockEnd,
    GuardedBranch,
    Jump,
    Switch,
    is_collective,
)
from cuda_llm.tools.emulator.codegen.kernel import Act, SiteDraft
from cuda_llm.tools.emulator.codegen.liveness import end_reads, successors
from cuda_llm.tools.emulator.codegen.memory import space_of
from cuda_llm.tools.emulator.codegen.waits import BlockInstructions, LoweredInstruction
from cuda_llm.tools.emulator.ptx.module import Address, Imm, Instruction, Reg, Vector

GUARDED = frozenset({"min", "max", "and", "or", "cas"})
"""Updates that a guard only spares: made once too often they change nothing."""

_ORDERED = frozenset({"volatile", "relaxed", "acquire", "mmio", "nc"})
_SPACES = frozenset({"global", "shared", "generic"})
_LOADS = frozenset({"ld", "ldu"})
_UPDATES = frozenset({"atom", "red"})
_FENCES = frozenset({"fence", "membar"})

_Word = tuple[object, int]
"""An address: how its base is computed, and the offset."""


@dataclass(frozen=True)
class Operation:
    """An atomic operation, as a bit of `emu::Site::updates`."""

    name: str

    @property
    def bit(self) -> int:
        """Return the bit of the operation's `emu::AtomOp`."""
        return 1 << list(OPERATIONS).index(self.name)


UNUSED = 1 << 15
"""Bit of `emu::Site::updates`: no instruction reads what the load brings."""
_EVERY = sum(Operation(name).bit for name in OPERATIONS)


def mark_guards(
    sites: Sequence[SiteDraft], blocks: Sequence[BlockInstructions]
) -> tuple[SiteDraft, ...]:
    """Return the sites, each atomic with its operation and each load that only guards updates with
    the operations it may race with; loads that nobody uses are marked."""
    placed = list(sites)
    for site in _unused_loads(blocks):
        placed[site] = replace(placed[site], updates=UNUSED)
    updates = [
        one for block in blocks for one in block.body if one.instruction.opcode[0] in _UPDATES
    ]
    for one in updates:
        for site in one.sites:
            placed[site] = replace(placed[site], updates=Operation(operation_of(one)).bit)
    if not any(operation_of(one) in GUARDED for one in updates):
        return tuple(placed)
    search = _Search(blocks)
    for at, block in enumerate(blocks):
        for index, one in enumerate(block.body):
            unused = any(placed[site].updates == UNUSED for site in one.sites)
            if _is_plain_load(one.instruction) and not unused:
                allowed = search.operations_guarded(at, index)
                for site in one.sites if allowed else ():
                    placed[site] = replace(placed[site], updates=allowed)
    return tuple(placed)


def _unused_loads(blocks: Sequence[BlockInstructions]) -> Iterator[int]:
    """Yield the sites of loads whose registers no other instruction and no branch reads; a load
    that acquires is none."""
    readers = Counter(name for block in blocks for name in end_reads(block.end))
    for block in blocks:
        for one in block.body:
            readers.update(one.reads)
    for block in blocks:
        for one in block.body:
            opcode = one.instruction.opcode
            is_load = opcode[0] in _LOADS and space_of(opcode) in _SPACES
            if not is_load or "acquire" in opcode:
                continue
            # A load under a guard keeps the old value in the other lanes, and so reads its target.
            if not any(readers[name] > (name in one.reads) for name in one.writes):
                yield from one.sites


def operation_of(update: LoweredInstruction) -> str:
    """Return the operation of an atom or red."""
    return next(part for part in update.instruction.opcode[1:] if part in OPERATIONS)


def _is_plain_load(instruction: Instruction) -> bool:
    opcode = instruction.opcode
    return (
        opcode[0] in _LOADS
        and space_of(opcode) in _SPACES
        and _ORDERED.isdisjoint(opcode)
        and not any(isinstance(operand, Vector) for operand in instruction.operands)
    )


class _Search:
    """The kernel that loads are looked at in."""

    def __init__(self, blocks: Sequence[BlockInstructions]) -> None:
        self.blocks = blocks
        self._words = _Words(blocks)
        self._meets = meeting_blocks([_ways(block.end) for block in blocks])

    def operations_guarded(self, at: int, index: int) -> int:
        """Return bits of the operations that the load may race with; 0 where it is no guard."""
        load = self.blocks[at].body[index]
        word = self._words.of(load.instruction)
        guarded: set[str] = set()
        reached: dict[int, frozenset[str]] = {}
        work = [(at, index + 1, load.writes)]
        while work:
            number, first, before = work.pop()
            after = self._follow(number, first, before, word, guarded)
            if after is None:
                return 0
            for following in successors(self.blocks[number].end):
                known = reached.get(following)
                joined = after if known is None else known | after
                if joined and joined != known:
                    reached[following] = joined
                    work.append((following, 0, joined))
        if "cas" in guarded:
            return _EVERY
        return sum(Operation(name).bit for name in guarded)

    def _follow(
        self, number: int, first: int, before: frozenset[str], word: _Word, guarded: set[str]
    ) -> frozenset[str] | None:
        """Return the registers that hold the value or follow from it at a block's end; None where
        the value is used."""
        holding = set(before)
        block = self.blocks[number]
        for one in block.body[first:]:
            guard = one.instruction.guard
            decided = guard is not None and guard.reg.name in holding
            if self._is_guarded(one, word):
                is_compared = operation_of(one) == "cas" and not holding.isdisjoint(_compared(one))
                if decided or is_compared:
                    guarded.add(operation_of(one))
                if is_compared:
                    holding.clear()
                elif not holding.isdisjoint(_stored(one)):
                    return None
                if guard is None:
                    holding -= one.writes
            elif _is_pure(one):
                # What a value selects from is not the value.
                if holding.isdisjoint(_data_reads(one)):
                    if guard is None:
                        holding -= one.writes
                else:
                    holding |= one.writes
            elif not holding.isdisjoint(one.reads) or (decided and not _is_harmless(one)):
                return None
            elif guard is None:
                holding -= one.writes
        if holding.isdisjoint(end_reads(block.end)):
            return frozenset(holding)
        if isinstance(block.end, Switch | Barrier) or not self._is_region_clean(
            number, word, guarded
        ):
            return None
        return frozenset(holding)

    def _is_guarded(self, one: LoweredInstruction, word: _Word) -> bool:
        instruction = one.instruction
        return (
            instruction.opcode[0] in _UPDATES
            and operation_of(one) in GUARDED
            and self._words.of(instruction) == word
        )

    def _is_region_clean(self, branch: int, word: _Word, guarded: set[str]) -> bool:
        """Return whether nothing happens between a branch and where its ways meet, but for what
        follows an update of the word. Adds the updates that are met."""
        meets = self._meets[branch]
        seen: set[int] = set()
        work = list(successors(self.blocks[branch].end))
        while work:
            number = work.pop()
            if number == meets or number in seen:
                continue
            seen.add(number)
            passed = True
            for one in self.blocks[number].body:
                if self._is_guarded(one, word):
                    guarded.add(operation_of(one))
                    passed = False
                    break
                if not _is_harmless(one):
                    return False
            if passed:
                if isinstance(self.blocks[number].end, Barrier):
                    return False
                work.extend(successors(self.blocks[number].end))
        return True


def _is_pure(one: LoweredInstruction) -> bool:
    return not any(isinstance(step, Act) for step in one.steps)


def _is_harmless(one: LoweredInstruction) -> bool:
    """Return whether other threads cannot notice the instruction."""
    opcode = one.instruction.opcode
    if is_collective(opcode):
        return False
    return _is_pure(one) or opcode[0] in _LOADS or opcode[0] in _FENCES


def _data_reads(one: LoweredInstruction) -> frozenset[str]:
    """Return the registers whose values an instruction computes with; not a selp's predicate."""
    operands = one.instruction.operands
    if one.instruction.opcode[0] == "selp":
        operands = operands[1:3]
        return frozenset(o.name for o in operands if isinstance(o, Reg))
    return frozenset(name for step in one.steps for name in step.reads)


def _compared(one: LoweredInstruction) -> frozenset[str]:
    """Return the register that a cas compares with."""
    return frozenset(o.name for o in one.instruction.operands[2:3] if isinstance(o, Reg))


def _stored(one: LoweredInstruction) -> frozenset[str]:
    """Return the registers that an update computes with."""
    first = 2 if one.instruction.opcode[0] == "atom" else 1
    return frozenset(o.name for o in one.instruction.operands[first:] if isinstance(o, Reg))


class _Words:
    """Addresses as they are computed: equal ones are the same word."""

    def __init__(self, blocks: Sequence[BlockInstructions]) -> None:
        self._makers: dict[str, list[Instruction]] = {}
        for block in blocks:
            for one in block.body:
                for register in one.writes:
                    self._makers.setdefault(register, []).append(one.instruction)
        self._known: dict[str, _Word] = {}

    def of(self, access: Instruction) -> _Word:
        """Return the word of a load or an update."""
        address = next(o for o in access.operands if isinstance(o, Address))
        base, offset = self._value(address.base)
        return base, offset + address.offset

    def _value(self, operand: object) -> _Word:
        if not isinstance(operand, Reg):
            return operand, 0
        if operand.name not in self._known:
            self._known[operand.name] = (operand.name, 0)
            self._known[operand.name] = self._computed(operand.name)
        return self._known[operand.name]

    def _computed(self, register: str) -> _Word:
        makers = self._makers.get(register, [])
        if len(makers) != 1 or makers[0].guard is not None:
            return register, 0
        instruction = makers[0]
        opcode, sources = instruction.opcode, instruction.operands[1:]
        if opcode[0] in {"mov", "cvta"} and len(sources) == 1:
            return self._value(sources[0])
        if opcode[0] == "add" and len(sources) == 2 and isinstance(sources[1], Imm):
            base, offset = self._value(sources[0])
            return base, offset + sources[1].value
        if opcode[0] in {"add", "mad", "mul", "shl", "cvt", "sub", "and", "or"}:
            return (opcode, *map(self._value, sources)), 0
        return register, 0


def _ways(end: BlockEnd) -> tuple[int, ...]:
    """Return where lanes may go, the kernel's end among it."""
    match end:
        case Jump(target) | Barrier(_, target):
            return (target,)
        case GuardedBranch(_, target, otherwise):
            return (target, otherwise)
        case Switch(_, targets):
            return tuple(targets)


def meeting_blocks(after: Sequence[Sequence[int]]) -> Mapping[int, int | None]:
    """Return for each block the first one that all ways from it lead through; None where they only
    meet at the kernel's end."""
    count = len(after)
    ends = [[count if way == LEAVE else way for way in ways] for ways in after]
    everyone = (1 << (count + 1)) - 1
    behind = [everyone] * count + [1 << count]
    order = list(range(count - 1, -1, -1))
    changed = True
    while changed:
        changed = False
        for block in order:
            common = everyone
            for following in ends[block]:
                common &= behind[following]
            common |= 1 << block
            if common != behind[block]:
                behind[block], changed = common, True
    return {block: _nearest(block, behind, count) for block in range(count)}


def _nearest(block: int, behind: Sequence[int], count: int) -> int | None:
    """Return the block behind `block` that all others behind it are behind, too."""
    others = behind[block] & ~(1 << block)
    for candidate in _bits(others):
        if behind[candidate] == others:
            return candidate if candidate < count else None
    return None


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
