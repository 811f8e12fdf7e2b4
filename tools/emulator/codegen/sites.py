"""Static tables of a kernel: what each basic block is made of, and where its sites stand."""

from collections import Counter
from collections.abc import Sequence

from cuda_llm.facts import SourceSpot
from cuda_llm.tools.emulator.codegen.flow import (
    Barrier,
    FlowBlock,
    GuardedBranch,
    Switch,
    is_collective,
)
from cuda_llm.tools.emulator.codegen.kernel import SiteDraft
from cuda_llm.tools.emulator.codegen.liveness import step_reads
from cuda_llm.tools.emulator.codegen.memory import space_of
from cuda_llm.tools.emulator.codegen.steps import Step
from cuda_llm.tools.emulator.ops.table import lane_op
from cuda_llm.tools.emulator.ptx.module import Instruction, Loc
from cuda_llm.tools.emulator.tables import BasicBlock, InstructionClass, InstructionSite

_FREE = frozenset({"mov", "cvta", "call", "barrier_result", "activemask"})
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
    )


def pipe(instruction: Instruction) -> InstructionClass:
    """Return which pipe of an SM executes an instruction."""
    opcode = instruction.opcode
    if opcode[0] in _FREE or opcode[:2] == ("ld", "param"):
        return InstructionClass.FREE
    if opcode[0] in _MEMORY:
        return InstructionClass.LOAD_STORE
    if is_collective(opcode):
        return InstructionClass.SHUFFLE
    operation = lane_op(opcode, max(len(instruction.operands) - 1, 0))
    if operation is not None:
        return operation.pipe
    return InstructionClass.INT if opcode[0] == "isspacep" else InstructionClass.CONTROL


def basic_block(
    block: FlowBlock, lowered: Sequence[tuple[Instruction, Sequence[Step]]], spots: Spots
) -> BasicBlock:
    """Return the composition of a block. `lowered` pairs its instructions with their steps."""
    mix = Counter(pipe(instruction) for instruction in block.body)
    if isinstance(block.end, GuardedBranch | Switch | Barrier):
        mix[InstructionClass.CONTROL] += 1
    loads, batches = _batches(lowered)
    first = next((i.loc for i in block.body if i.loc is not None), None)
    return BasicBlock(
        mix=dict(mix),
        spot=spots.at(first),
        memory_batches=batches,
        global_loads=loads,
        dependent_chain=_longest_chain(lowered),
    )


def _longest_chain(lowered: Sequence[tuple[Instruction, Sequence[Step]]]) -> int:
    """Return arithmetic instructions on the longest path of data through a block."""
    depths: dict[str, int] = {}
    for instruction, steps in lowered:
        waits = pipe(instruction) not in (InstructionClass.FREE, InstructionClass.LOAD_STORE)
        ready = max(
            (depths.get(register, 0) for s in steps for register in step_reads(s)), default=0
        )
        for step in steps:
            depths.update(dict.fromkeys(step.writes, ready + waits))
    return max(depths.values(), default=0)


def _batches(lowered: Sequence[tuple[Instruction, Sequence[Step]]]) -> tuple[int, int]:
    """Return global loads, and groups of them that are in flight together."""
    loads = batches = 0
    waited: set[str] = set()
    for instruction, steps in lowered:
        is_load = instruction.opcode[0] in {"ld", "ldu"} and space_of(instruction.opcode) in {
            "global",
            "generic",
        }
        if not is_load and any(waited.intersection(step_reads(step)) for step in steps):
            waited.clear()
        if is_load:
            loads += 1
            address = steps[0]
            if waited.intersection(step_reads(address)):
                waited.clear()
            batches += not waited
            waited.update(register for step in steps for register in step.writes)
    return loads, batches
