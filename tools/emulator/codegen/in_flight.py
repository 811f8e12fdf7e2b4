"""Finds instructions that may touch registers of wgmma products in flight.

From a product until the wait for it, a register may hold a result in flight, or a part of A that is
being read; moves, which the compiler inserts, pass a result on. Before any other instruction that
may touch such a register, the kernel calls the runtime, which knows the products in flight. Results
may be the accumulator of the next product of the same kind without a fence; code that has changed a
register since the last `wgmma.fence` has to execute a fence first. The compiler moves arithmetic
past fences: values computed from fenced registers count as fenced. Kernels without wgmma are not
changed.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from cuda_llm.tools.emulator.codegen.kernel import Act, KernelDraft, Step
from cuda_llm.tools.emulator.codegen.liveness import successors
from cuda_llm.tools.emulator.codegen.waits import BlockInstructions, LoweredInstruction
from cuda_llm.tools.emulator.codegen.wgmma_ops import held_of, results_of, waits_for_all
from cuda_llm.tools.emulator.ops.wgmma import is_group_product
from cuda_llm.tools.emulator.ptx.module import Instruction

_NOTHING = sys.maxsize


@dataclass
class _Facts:
    """Registers that may be in flight or unfenced at a place of the kernel."""

    results: set[str] = field(default_factory=set)
    sources: set[str] = field(default_factory=set)
    open: set[str] = field(default_factory=set)
    """Registers among `results` and `sources` of a group that is not committed, which no wait
    covers."""
    raw: set[str] = field(default_factory=set)
    """Registers among `results` that no fence has followed."""
    changed: dict[str, int] = field(default_factory=dict)
    """Registers changed since the last fence, each with the number of the first instruction that
    changed it."""

    def copy(self) -> "_Facts":
        results, sources, unclosed, raw = map(set, self._sets())
        return _Facts(results, sources, unclosed, raw, dict(self.changed))

    def join(self, other: "_Facts") -> bool:
        """Add the facts of another path to this place; return whether any fact is new."""
        news = False
        for mine, its in zip(self._sets(), other._sets(), strict=True):
            news |= not its <= mine
            mine |= its
        for register, number in other.changed.items():
            if number < self.changed.get(register, _NOTHING):
                self.changed[register] = number
                news = True
        return news

    def _sets(self) -> tuple[set[str], ...]:
        return self.results, self.sources, self.open, self.raw

    def changer(self, registers: Iterable[str]) -> int:
        """Return the number of the first instruction that changed a register of `registers`;
        `_NOTHING` if none did."""
        return min((self.changed.get(one, _NOTHING) for one in registers), default=_NOTHING)

    def change(self, registers: frozenset[str], number: int) -> None:
        if number != _NOTHING:
            self.changed |= {one: min(number, self.changer({one})) for one in registers}

    def forget(self, registers: frozenset[str]) -> None:
        for one in self._sets():
            one -= registers
        for register in registers:
            self.changed.pop(register, None)


def watch_registers(
    kernel: KernelDraft, blocks: Sequence[BlockInstructions]
) -> list[tuple[Step, ...]]:
    """Return the steps of each block, with questions to the runtime where they are needed."""
    if not any(is_group_product(one.instruction.opcode) for block in blocks for one in block.body):
        return [tuple(step for one in block.body for step in one.steps) for block in blocks]
    return _Watch(kernel, blocks).run()


class _Watch:
    def __init__(self, kernel: KernelDraft, blocks: Sequence[BlockInstructions]) -> None:
        self._kernel = kernel
        self._blocks = blocks
        self._every = [one for block in blocks for one in block.body]
        self._numbers = {id(one): number for number, one in enumerate(self._every)}
        self._homes = [index for index, block in enumerate(blocks) for _ in block.body]
        self._sites: dict[int, int] = {}

    def run(self) -> list[tuple[Step, ...]]:
        before = [_Facts() for _ in self._blocks]
        work = list(range(len(self._blocks)))
        while work:
            index = work.pop()
            facts = before[index].copy()
            for one in self._blocks[index].body:
                self._go_past(one, facts)
            for target in successors(self._blocks[index].end):
                if before[target].join(facts) and target not in work:
                    work.append(target)
        return [
            self._steps(block, facts) for block, facts in zip(self._blocks, before, strict=True)
        ]

    def _go_past(self, one: LoweredInstruction, facts: _Facts) -> None:
        instruction = one.instruction
        if instruction.opcode[:2] == ("wgmma", "fence"):
            facts.raw.clear()
            facts.changed.clear()
        elif instruction.opcode[:2] == ("wgmma", "commit_group"):
            facts.open.clear()
        elif waits_for_all(instruction):
            facts.results &= facts.open
            facts.sources &= facts.open
        elif is_group_product(instruction.opcode):
            results = frozenset(results_of(instruction))
            facts.forget(results)
            facts.results |= results
            facts.raw |= results
            facts.sources.update(held_of(instruction))
            facts.open.update(results, held_of(instruction))
        elif instruction.opcode[0] == "mov":
            self._move(one, facts)
        elif one.writes:
            self._change(one, facts)

    def _move(self, one: LoweredInstruction, facts: _Facts) -> None:
        moved = not facts.results.isdisjoint(one.reads)
        is_open = not (facts.results & facts.open).isdisjoint(one.reads)
        raw = not facts.raw.isdisjoint(one.reads)
        changer = facts.changer(one.reads)
        if one.instruction.guard is None:
            facts.forget(one.writes)
        facts.results |= one.writes if moved else set()
        facts.open |= one.writes if is_open else set()
        facts.raw |= one.writes if raw else set()
        facts.change(one.writes, changer)

    def _change(self, one: LoweredInstruction, facts: _Facts) -> None:
        fixed = _is_fixed(one)
        fresh = fixed or not facts.raw.isdisjoint(one.reads)
        changer = self._numbers[id(one)] if fresh else facts.changer(one.reads)
        if one.instruction.guard is None:
            facts.forget(one.writes)
        facts.change(one.writes, changer)

    def _steps(self, block: BlockInstructions, facts: _Facts) -> tuple[Step, ...]:
        steps: list[Step] = []
        moves: list[str] = []
        for one in block.body:
            is_move = one.instruction.opcode[0] == "mov"
            if moves and not (is_move and one.instruction.guard is None):
                steps.append(_moving(moves))
                moves = []
            if is_group_product(one.instruction.opcode):
                self._ask_for_fence(one, facts)
            elif is_move:
                found = self._moves(one, facts)
                if one.instruction.guard is None:
                    moves += found
                elif found:
                    steps.append(_moving(found, one.instruction))
            else:
                steps += self._touches(one, facts)
            steps += one.steps
            self._go_past(one, facts)
        return (*steps, *([_moving(moves)] if moves else []))

    def _ask_for_fence(self, one: LoweredInstruction, facts: _Facts) -> None:
        used = frozenset((*results_of(one.instruction), *held_of(one.instruction)))
        changer = facts.changer(used)
        if changer != _NOTHING:
            self._kernel.unfenced[one.sites[-1]] = self._site(changer)

    def _moves(self, one: LoweredInstruction, facts: _Facts) -> list[str]:
        from_results = sorted(facts.results & one.reads)
        concerned = one.writes & (facts.results | facts.sources)
        if not from_results and not concerned:
            return []
        number = self._kernel.number
        sources = [str(number(name)) for name in from_results] or ["emu::kNoRegister"]
        return [
            f"{{{number(to)}, {source}, {str(place > 0).lower()}}}"
            for to in sorted(one.writes)
            for place, source in enumerate(sources)
        ]

    def _touches(self, one: LoweredInstruction, facts: _Facts) -> list[Step]:
        reads = sorted(facts.results & one.reads)
        writes = sorted((facts.results | facts.sources) & one.writes)
        if not reads and not writes:
            return []
        numbers = ", ".join(str(self._kernel.number(name)) for name in (*reads, *writes))
        site = self._site(self._numbers[id(one)])
        code = (
            f"static constexpr uint16_t n[] = {{{numbers}}}; "
            f"emu::touch_registers(w, {site}, q, n, {len(reads)}, {len(writes)});"
        )
        return [Act(lambda array: code, guard=one.instruction.guard)]

    def _site(self, number: int) -> int:
        """Return a site of an instruction that may have none."""
        if number not in self._sites:
            one = self._every[number]
            self._kernel.block = self._homes[number]
            sites = one.sites
            site = sites[0] if len(sites) else self._kernel.site(one.instruction, "registers")
            self._sites[number] = site
        return self._sites[number]


def _is_fixed(one: LoweredInstruction) -> bool:
    """Return whether the compiler leaves it where it stands, before or after a fence."""
    opcode = one.instruction.opcode
    if opcode[0] == "ld" and ("nc" in opcode or "param" in opcode or "const" in opcode):
        return False
    return any(isinstance(step, Act) for step in one.steps)


def _moving(moves: Sequence[str], instruction: Instruction | None = None) -> Act:
    code = (
        f"static constexpr emu::RegisterMove n[] = {{{', '.join(moves)}}}; "
        f"emu::move_registers(w, q, n, {len(moves)});"
    )
    return Act(lambda array: code, guard=instruction.guard if instruction else None)
