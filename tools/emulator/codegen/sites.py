"""Static tables of a kernel: what each basic block is made of, and where its sites stand."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cuda_llm.source_file import SourceSpot
from cuda_llm.tools.emulator.codegen.flow import (
    Barrier,
    FlowBlock,
    GuardedBranch,
    Switch,
    is_collective,
)
from cuda_llm.tools.emulator.codegen.kernel import SiteDraft
from cuda_llm.tools.emulator.codegen.waits import (
    LoweredInstruction,
    arithmetic_chain,
    batches,
    cached_chain,
    shared_chain,
)
from cuda_llm.tools.emulator.ops.machine_code import machine_code
from cuda_llm.tools.emulator.ops.table import lane_op
from cuda_llm.tools.emulator.ops.tensor import (
    ALIGNED,
    Product,
    instructions_of,
    is_product,
    is_tensor,
    product_of,
)
from cuda_llm.tools.emulator.ops.wgmma import GroupProduct, group_product_of, is_group_product
from cuda_llm.tools.emulator.ptx.module import Instruction, Loc
from cuda_llm.tools.profiler.tables import BasicBlock, InstructionClass, InstructionSite

_FREE = frozenset({"mov", "cvta", "call", "barrier_result", "activemask", ALIGNED})
_FLOATING = frozenset({InstructionClass.FP32, InstructionClass.FP64, InstructionClass.FP16})
_MEMORY = frozenset({"ld", "ldu", "st", "atom", "red", "cp"})


class Spots:
    """Lines of the user's file."""

    def __init__(self, name: str, source: str) -> None:
        self._name = name
        self._lines = source.splitlines()

    def at(self, loc: Loc | None) -> SourceSpot | None:
        """Return the spot of a location, with its text where the line is at hand."""
        if loc is None:
            return None
        return replace(self._spot(loc), inlined_at=tuple(map(self._spot, loc.callers)))

    def _spot(self, loc: Loc) -> SourceSpot:
        inside = loc.file == self._name and 0 < loc.line <= len(self._lines)
        text = self._lines[loc.line - 1].strip() if inside else ""
        return SourceSpot(file=loc.file, line=loc.line, text=text)


def site(draft: SiteDraft, spots: Spots) -> InstructionSite:
    """Return a site as reports show it."""
    return InstructionSite(
        opcode=draft.opcode,
        space=draft.space,
        kind=draft.kind,
        bytes=draft.bytes,
        block=draft.block,
        spot=spots.at(draft.loc),
        width=draft.bytes if draft.width is None else draft.width,
    )


def pipe(instruction: Instruction) -> InstructionClass:
    """Return which pipe of an SM executes an instruction."""
    opcode = instruction.opcode
    if opcode[0] in _FREE or opcode[:2] == ("ld", "param"):
        return InstructionClass.FREE
    if is_product(opcode) or is_group_product(opcode):
        return InstructionClass.TENSOR
    if opcode[0] == "wgmma":
        return InstructionClass.CONTROL
    if opcode[0] == "movmatrix":
        return InstructionClass.SHUFFLE
    if opcode[0] in _MEMORY or is_tensor(opcode):
        return InstructionClass.LOAD_STORE
    if is_collective(opcode) and opcode[0] not in {"activemask", "barrier"}:
        return InstructionClass.SHUFFLE
    operation = lane_op(opcode, max(len(instruction.operands) - 1, 0))
    if operation is not None:
        return operation.pipe
    return InstructionClass.INT if opcode[0] == "isspacep" else InstructionClass.CONTROL


def basic_block(
    block: FlowBlock,
    body: Sequence[LoweredInstruction],
    sites: Sequence[SiteDraft],
    loaded: frozenset[str],
    spots: Spots,
) -> BasicBlock:
    """Return the composition of a block. `loaded` are the registers that depend on memory."""
    mix: Counter[InstructionClass] = Counter()
    tensor: Counter[str] = Counter()
    operations: Counter[InstructionClass] = Counter()
    for one in body:
        instruction = one.instruction
        merged = any(sites[site].width == 0 for site in one.sites)
        kind = pipe(instruction)
        mix.update({InstructionClass.FREE: 1} if merged else mix_of(instruction))
        if kind in _FLOATING:
            operations[kind] += _operations(instruction.opcode)
        product = _product(instruction)
        if product is not None:
            tensor[product.peak] += product.operations
    if isinstance(block.end, GuardedBranch | Switch | Barrier):
        mix[InstructionClass.CONTROL] += 1
    loads, groups = batches(body)
    return BasicBlock(
        mix=dict(mix),
        spot=spots.at(_costliest(body, block)),
        memory_batches=groups,
        global_loads=loads,
        dependent_chain=arithmetic_chain(body, pipe),
        shared_waits=shared_chain(body),
        cached_waits=cached_chain(body, loaded),
        tensor=dict(tensor),
        operations=dict(operations),
    )


def _operations(opcode: Sequence[str]) -> int:
    """Return how many floating-point operations a lane does: a multiply-add is two."""
    fused = 2 if opcode[0] in ("fma", "mad") else 1
    pairs = 2 if any(part.endswith("x2") for part in opcode) else 1
    return fused * pairs


def _costliest(body: Sequence[LoweredInstruction], block: FlowBlock) -> Loc | None:
    """Return the location of most instructions, among instructions that access memory where there
    are any: the head of a loop rarely takes its time."""
    issued = [one for one in body if one.instruction.loc is not None]
    counts = Counter(
        one.instruction.loc for one in issued if pipe(one.instruction) is not InstructionClass.FREE
    )
    accesses = {one.instruction.loc for one in issued if one.sites}
    found = {loc: count for loc, count in counts.items() if loc in accesses} or counts
    if found:
        return max(found, key=found.__getitem__)
    return next((one.loc for one in block.body if one.loc is not None), None)


def _product(instruction: Instruction) -> Product | GroupProduct | None:
    opcode = instruction.opcode
    return product_of(opcode) if is_product(opcode) else group_product_of(opcode)


def mix_of(instruction: Instruction) -> Mapping[InstructionClass, int]:
    """Return the machine instructions that an instruction is worth, by pipe."""
    parts = machine_code(instruction.opcode)
    return parts.mix if parts else {pipe(instruction): _issues(instruction)}


def _issues(instruction: Instruction) -> int:
    """Return how many instructions of its pipe it is worth."""
    if is_tensor(instruction.opcode):
        return instructions_of(instruction.opcode)
    operation = lane_op(instruction.opcode, max(len(instruction.operands) - 1, 0))
    return operation.issues if operation is not None else 1
