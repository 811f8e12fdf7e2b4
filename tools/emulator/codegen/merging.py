"""Finds loads and stores of shared memory that ptxas merges into a wider instruction.

nvcc leaves neighbouring scalar accesses separate; ptxas merges them to 8 or 16 bytes where it knows
the alignment. Results and checks remain those of each access; only the count is that of the merged
instruction. The rules were found by disassembling (docs/time-model.md).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from cuda_llm.tools.emulator.codegen.addresses import Addresses, Sum, combine, targets
from cuda_llm.tools.emulator.codegen.kernel import KernelDraft, SiteDraft
from cuda_llm.tools.emulator.codegen.memory import space_of
from cuda_llm.tools.emulator.codegen.waits import BlockInstructions, LoweredInstruction
from cuda_llm.tools.emulator.ptx.literals import BYTES
from cuda_llm.tools.emulator.ptx.module import (
    Address,
    Guard,
    Imm,
    Instruction,
    Operand,
    Reg,
    Vector,
)

WIDEST = 16
"""Largest number of bytes that an instruction moves per lane."""
MOST_ELEMENTS = 4

_PLAIN = frozenset({"ld", "st", "weak", "shared", "shared::cta", "v2", "v4", *BYTES})
_READS = frozenset({"ld", "ldu", "ldmatrix"})
_WRITES = frozenset({"st", "red", "atom", "stmatrix"})
_ORDERS = frozenset({"membar", "fence", "bar", "barrier", "cp", "mbarrier"})


@dataclass(frozen=True)
class _Access:
    """A load or store that may be merged with others."""

    site: int
    address: Sum
    element: int
    """Bytes of an element that can be merged. A stored vector is a single element."""
    elements: int
    guard: Guard | None
    loads: bool

    @property
    def offset(self) -> int:
        """Return the access's distance in bytes from the varying part of the address."""
        constant = self.address.constant
        return constant - (1 << 32) if constant >> 31 else constant

    @property
    def kind(self) -> tuple[object, ...]:
        """Return the properties in which accesses agree that may be merged into an instruction."""
        return self.address.terms, self.address.varying_bits, self.element, self.guard

    @property
    def offsets(self) -> range:
        """Return the offsets in bytes of the access's elements."""
        return range(self.offset, self.offset + self.element * self.elements, self.element)


@dataclass(frozen=True)
class _Stop:
    """Something that accesses are not moved past."""

    for_loads: bool
    """And for stores in any case."""


def merge_accesses(
    kernel: KernelDraft, blocks: Sequence[BlockInstructions], target: str
) -> tuple[SiteDraft, ...]:
    """Return the kernel's sites with the widths of merged instructions: the first access of a
    merged group has the whole width, the others have width 0."""
    placed = list(kernel.sites)
    if not any(one.space == "shared" for one in placed):
        return tuple(placed)
    body = [one.instruction for block in blocks for one in block.body]
    addresses = Addresses(body, kernel.layout)
    begins_at_zero = int("".join(filter(str.isdigit, target))) < 90
    for block in blocks:
        values = _Values(addresses, begins_at_zero=begins_at_zero)
        found = list(_accesses(kernel, block.body, values))
        chunks = _Chunks(found)
        for run in (*_load_runs(found, chunks), *_store_runs(found, chunks)):
            for start, width, members in _merge(run, chunks):
                for site in members[1:]:
                    placed[site.site] = replace(placed[site.site], width=0)
                first = members[0]
                placed[first.site] = replace(
                    placed[first.site], width=width, shift=start - first.offset
                )
    return tuple(placed)


class _Values:
    """Values of the registers at a place of a basic block, as sums."""

    def __init__(self, addresses: Addresses, *, begins_at_zero: bool) -> None:
        """With `begins_at_zero`, ptxas knows the address of shared memory; on later chips the
        hardware sets the address."""
        self._addresses = addresses
        self._begins_at_zero = begins_at_zero
        self._sums: dict[str, Sum] = {}
        self._written: dict[str, int] = {}
        self._folded: dict[str, Sum] = {}

    def read(self, operand: Operand) -> Sum | None:
        """Return an operand as a sum; None for an operand that is neither register nor literal."""
        found = self._addresses.lasting(operand)
        if not isinstance(operand, Reg):
            return found
        return self._sums.get(operand.name) or found or self._addresses.of_register(operand.name)

    def address(self, base: Operand) -> Sum | None:
        """Return an address as a sum; None where it is neither register nor literal.

        The offset of a shared variable is part of the constant where ptxas sees the offset: alone,
        or added last.
        """
        if isinstance(base, Reg) and base.name in self._folded:
            return self._folded[base.name]
        return self._fold(base)

    def _fold(self, operand: Operand) -> Sum | None:
        found = self.read(operand)
        if found is None or found.variable is None:
            return found
        return Sum(found.variable).plus(Sum(found.constant))

    def _last_added(self, instruction: Instruction) -> Sum | None:
        """Return what an instruction computes where the place of a variable is a constant."""
        if instruction.opcode[0] not in {"add", "mad"}:
            return None
        further = instruction.opcode[0] == "add" and isinstance(instruction.operands[2], Imm)
        return combine(instruction, self.address if further else self._fold)

    def follow(self, instruction: Instruction) -> None:
        """Go past an instruction."""
        computed = combine(instruction, self.read)
        folded = self._last_added(instruction) if self._begins_at_zero else None
        for register in targets(instruction):
            self._written[register] = self._written.get(register, 0) + 1
            self._folded.pop(register, None)
            if folded is not None:
                self._folded[register] = folded
            if computed is not None:
                self._sums[register] = computed
            elif self._addresses.lasting(Reg(register)) is None:
                self._sums[register] = self._addresses.of_register(
                    register, self._written[register]
                )


def _accesses(
    kernel: KernelDraft, body: Sequence[LoweredInstruction], values: _Values
) -> Iterator[_Access | _Stop]:
    """Yield the accesses of a basic block to shared memory, in order."""
    for one in body:
        if (access := _access(kernel, one, values)) is not None:
            yield access
        elif (stop := _stop(one)) is not None:
            yield stop
        values.follow(one.instruction)


def _access(kernel: KernelDraft, one: LoweredInstruction, values: _Values) -> _Access | None:
    """Return the access that an instruction is; None for what ptxas leaves as it is."""
    opcode, guard = one.instruction.opcode, one.instruction.guard
    if opcode[0] not in {"ld", "st"} or not _PLAIN.issuperset(opcode):
        return None
    loads = opcode[0] == "ld"
    data, place = one.instruction.operands[:: 1 if loads else -1]
    element = BYTES[opcode[-1]]
    if space_of(opcode) != "shared" or element not in {2, 4, 8} or (guard and not loads):
        return None
    items = data.items if isinstance(data, Vector) else (data,)
    registers = [item.name for item in items if isinstance(item, Reg)]
    if loads and any(kernel.bytes(register) != element for register in registers):
        return None
    base = values.address(place.base) if isinstance(place, Address) else None
    if base is None or not isinstance(place, Address):
        return None
    return _Access(
        site=one.sites[0],
        address=base.plus(Sum(place.offset)),
        element=element if loads else element * len(items),
        elements=len(items) if loads else 1,
        guard=guard,
        loads=loads,
    )


def _stop(one: LoweredInstruction) -> _Stop | None:
    opcode = one.instruction.opcode
    if opcode[0] in _ORDERS:
        return _Stop(for_loads=True)
    writes = opcode[0] in _WRITES or opcode[:2] == ("wmma", "store")
    if writes or opcode[0] in _READS or opcode[:2] == ("wmma", "load"):
        return _Stop(for_loads=writes) if space_of(opcode) in {"shared", "generic"} else None
    return None


class _Chunks:
    """Aligned chunks of memory within which accesses of a basic block may be merged."""

    def __init__(self, found: Iterable[_Access | _Stop]) -> None:
        # A vector is aligned, and so is the varying part of its address.
        self._vectors: dict[object, int] = {}
        for one in found:
            if isinstance(one, _Access):
                width = one.element * one.elements
                if one.offset % width == 0:
                    known = self._vectors.get(one.address.terms, 1)
                    self._vectors[one.address.terms] = max(known, width)

    def size(self, access: _Access) -> int:
        """Return the bytes of the chunk in which an access may be merged, at most WIDEST."""
        known = max(1 << access.address.varying_bits, self._vectors.get(access.address.terms, 1))
        return min(WIDEST, MOST_ELEMENTS * access.element, known)

    def of(self, access: _Access) -> int:
        """Return the number of an access's chunk."""
        return access.offset // self.size(access)


def _load_runs(found: Iterable[_Access | _Stop], chunks: _Chunks) -> Iterator[list[_Access]]:
    """Yield groups of loads from the same chunk without a store between them."""
    runs: dict[object, list[_Access]] = {}
    for one in found:
        if isinstance(one, _Access) and one.loads:
            runs.setdefault((one.kind, chunks.of(one)), []).append(one)
        elif isinstance(one, _Access) or one.for_loads:
            yield from runs.values()
            runs = {}
    yield from runs.values()


def _store_runs(found: Iterable[_Access | _Stop], chunks: _Chunks) -> Iterator[list[_Access]]:
    """Yield groups of consecutive stores to the same chunk."""
    run: list[_Access] = []
    for one in found:
        if isinstance(one, _Stop) or one.loads:
            yield run
            run = []
        elif run and _goes_on(run, one, chunks):
            run.append(one)
        else:
            yield run
            run = [one]
    yield run


def _goes_on(run: Sequence[_Access], one: _Access, chunks: _Chunks) -> bool:
    same = one.kind == run[0].kind and chunks.of(one) == chunks.of(run[0])
    return same and all(one.offset != other.offset for other in run)


def _merge(run: Sequence[_Access], chunks: _Chunks) -> Iterator[tuple[int, int, Sequence[_Access]]]:
    """Yield start, bytes and members of the instructions that a chunk's accesses become.

    Of four elements, three are enough for a load. Two that are no aligned pair stay apart.
    """
    if len(run) < 2 or chunks.size(run[0]) < 2 * run[0].element:
        return
    size, element = chunks.size(run[0]), run[0].element
    enough = 3 if run[0].loads and size == MOST_ELEMENTS * element else size // element
    if len(_touched(run)) >= enough:
        yield min(one.offset for one in run) // size * size, size, run
        return
    parts: dict[int, list[_Access]] = {}
    for one in run:
        parts.setdefault(one.offset // (2 * element) * 2 * element, []).append(one)
    for start, members in parts.items():
        if len(members) > 1 and len(_touched(members)) == 2:
            yield start, 2 * element, members


def _touched(accesses: Iterable[_Access]) -> set[int]:
    return {offset for one in accesses for offset in one.offsets}
