"""Emits a kernel as C++: a function for each basic block, and a table of the functions.

Each block has its own function because many g++ passes take longer than in proportion to a
function's length; `run_blocks` (emu/generated.h) goes from block to block.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cuda_llm.tools.emulator.codegen.atomics import barrier_call
from cuda_llm.tools.emulator.codegen.flow import (
    LEAVE,
    Barrier,
    BlockEnd,
    GuardedBranch,
    Jump,
    Switch,
)
from cuda_llm.tools.emulator.codegen.kernel import Act, KernelDraft, SpellLanes, Use
from cuda_llm.tools.emulator.codegen.liveness import (
    LoweredBlock,
    crossing,
    end_reads,
    live_out,
    unset,
)
from cuda_llm.tools.emulator.codegen.loops import Arrays, write_segment
from cuda_llm.tools.emulator.codegen.segments import Item, Segment, schedule
from cuda_llm.tools.emulator.codegen.steering import outer_latches
from cuda_llm.tools.emulator.ptx.module import Guard, Instruction, Loc

_DISPATCH = "return emu::kDispatch;"


@dataclass(frozen=True)
class Emitted:
    """C++ source of a kernel."""

    function: str
    """Name of the C++ function that runs the kernel."""
    registers: str
    """Name of the register struct."""
    text: str


def emit(kernel: KernelDraft, blocks: Sequence[LoweredBlock], number: int) -> Emitted:
    """Write the function of a lowered kernel."""
    after = live_out(blocks)
    # What is unset in the first block is set to nothing where undefined values are tracked.
    shared = crossing(after) | (unset(blocks) if kernel.tracks else frozenset())
    struct, function = f"Registers{number}", f"run{number}"
    names = [f"block{number}_{index}" for index in range(len(blocks))]
    latches = outer_latches([block.end for block in blocks])
    lines = [f"struct {struct} {{"]
    lines += [_member(kernel, register) for register in sorted(shared)]
    if kernel.tracks:
        lines.append("alignas(64) uint8_t undefined;")
        lines += [line for r in sorted(shared) for line in _tracking_members(kernel, r)]
    lines += ["uint8_t unused;", "};"]
    for index, (name, block) in enumerate(zip(names, blocks, strict=True)):
        lines.append(f"static emu::Next {name}(emu::Warp* w, {struct}& g, emu::Mask m) {{")
        lines += _BlockWriter(kernel, index, shared, latches.get(index)).write(block, after[index])
        lines.append("}")
    lines.append(f"static constexpr emu::BlockCode<{struct}> blocks{number}[] = {{")
    lines += [f"{', '.join(names)}}};", f"static emu::Status {function}(emu::Warp* w) {{"]
    lines += [f"return emu::run_blocks(w, blocks{number});", "}"]
    return Emitted(function, struct, "\n".join(lines))


def _member(kernel: KernelDraft, register: str) -> str:
    name = kernel.name(register)
    if kernel.is_predicate(register):
        return f"emu::Mask {name};"
    return f"alignas(64) {kernel.raw(register)} {name}[emu::kLanes];"


def _tracking_members(kernel: KernelDraft, register: str) -> list[str]:
    bits, origin = kernel.bits_name(register), kernel.origin_name(register)
    members = [f"alignas(64) uint32_t {origin}[emu::kLanes];"]
    if kernel.is_predicate(register):
        return [*members, f"emu::Mask {bits};"]
    return [*members, f"alignas(64) {kernel.raw(register)} {bits}[emu::kLanes];"]


class _BlockWriter:
    def __init__(
        self, kernel: KernelDraft, index: int, crossing: frozenset[str], head: int | None
    ) -> None:
        """`head`: where an outermost loop goes on that this block repeats."""
        self._kernel = kernel
        self._index = index
        self._crossing = crossing
        self._head = head
        self._local: set[str] = set()

    def write(self, block: LoweredBlock, live: frozenset[str]) -> list[str]:
        self._kernel.block = self._index
        items = schedule(block.steps, live, end_reads(block.end))
        narrows = any(isinstance(item, Act) and item.narrows for item in items)
        count = f"emu::count(w, {self._index}, m);"
        body: list[str] = [] if narrows else [count]
        for item in items:
            body += self._item(item)
            if isinstance(item, Act) and item.narrows:
                body.append(count)
        body += self._end(block.end)
        declarations = [self._declaration(register) for register in sorted(self._local)]
        if self._kernel.tracks:
            for register in sorted(self._local):
                declarations += self._tracking_declarations(register)
        return [*declarations, *body]

    def _array(self, register: str) -> str:
        name = self._kernel.name(register)
        if register in self._crossing:
            return f"g.{name}"
        self._local.add(register)
        return f"{name}_"

    def _declaration(self, register: str) -> str:
        name = f"{self._kernel.name(register)}_"
        if self._kernel.is_predicate(register):
            return f"emu::Mask {name} = 0;"
        return f"alignas(64) {self._kernel.raw(register)} {name}[emu::kLanes];"

    def _bits(self, register: str) -> str:
        self._array(register)
        name = self._kernel.bits_name(register)
        return f"g.{name}" if register in self._crossing else f"{name}_"

    def _origin(self, register: str) -> str:
        self._array(register)
        name = self._kernel.origin_name(register)
        return f"g.{name}" if register in self._crossing else f"{name}_"

    def _tracking_declarations(self, register: str) -> list[str]:
        bits, origin = self._kernel.bits_name(register), self._kernel.origin_name(register)
        kind = self._kernel.raw(register)
        return [
            f"emu::Mask {bits}_ = 0;"
            if self._kernel.is_predicate(register)
            else f"alignas(64) {kind} {bits}_[emu::kLanes];",
            f"alignas(64) uint32_t {origin}_[emu::kLanes];",
        ]

    def _item(self, item: Item) -> list[str]:
        if isinstance(item, Segment):
            arrays = Arrays(self._array, self._bits, self._origin)
            lines = write_segment(self._kernel, item, arrays, self._crossing)
            return ["{", *lines, "}"]
        if self._kernel.tracks:
            return self._tracked(item)
        code = item.code(self._array)
        if item.narrows:
            return [item.enter(self._array), code] if item.enter else [code]
        if item.guard is None:
            return [f"{{ const emu::Mask q = m; {code} }}"]
        return [f"if (const emu::Mask q = {self._lanes(item.guard)}) {{ {code} }}"]

    def _tracked(self, act: Act) -> list[str]:
        """Write an act that moves undefined bits beside the values, or reports them."""
        lanes = "m" if act.narrows else "q"
        lines = [] if act.narrows else ["{ const emu::Mask q = m;"]
        if act.guard is not None:
            lines = [
                "{",
                *self._decide(act, "m", (act.guard.reg.name,), "access"),
                f"if (const emu::Mask q = {self._lanes(act.guard)}) {{",
            ]
        deciding = [r for r in dict.fromkeys(act.reads) if r not in act.data]
        lines += self._decide(act, lanes, deciding, act.use)
        if act.enter:
            lines.append(act.enter(self._array))
        moved = [r for r in act.data if r in act.writes]
        code, move = act.code(self._array), self._move(act, lanes)
        lines += [move, code] if moved else [code, move]
        lines += [
            f"emu::define({lanes}, {self._bits(r)});" for r in act.writes if r not in act.data
        ]
        if act.guard is not None:
            lines.append("}")
        return lines if act.narrows else [*lines, "}"]

    def _decide(self, act: Act, lanes: str, registers: Sequence[str], use: Use) -> list[str]:
        if act.site is None:
            return []
        return [
            f"emu::decide(w, {act.site}, {lanes}, {self._bits(r)}, {self._origin(r)}, "
            f"emu::Use::{use});"
            for r in registers
        ]

    def _move(self, act: Act, lanes: str) -> str:
        if act.moves is None:
            return ""

        def spelled(moving: SpellLanes) -> SpellLanes:
            return lambda register: (
                moving(register) if register in act.data else self._array(register)
            )

        reads = [r for r in act.data if r in act.reads]
        writes = [r for r in act.data if r in act.writes]
        lines = [f"{{ emu::MovesUndefined pass(w, {lanes});"]
        lines += [f"pass.give({self._bits(r)}, {self._origin(r)});" for r in reads]
        lines += ["pass.share();"] if act.origins == "group" else []
        lines.append(f"{{ {act.moves(spelled(self._bits))} }}")
        if act.origins == "moved":
            lines += ["pass.of_origins();", f"{{ {act.moves(spelled(self._origin))} }}"]
        else:
            lines += [f"pass.take({self._origin(r)});" for r in writes]
        return "\n".join([*lines, "}"])

    def _branches_on(self, register: str, loc: Loc | None) -> list[str]:
        """Write the check that lanes know where they go."""
        if not self._kernel.tracks:
            return []
        site = self._kernel.site(Instruction(("bra",), (), loc=loc), "use")
        bits, origin = self._bits(register), self._origin(register)
        return [f"emu::decide(w, {site}, m, {bits}, {origin}, emu::Use::branch);"]

    def _lanes(self, guard: Guard) -> str:
        return f"m & {'~' if guard.negated else ''}{self._array(guard.reg.name)}"

    def _end(self, end: BlockEnd) -> list[str]:
        match end:
            case Jump(target):
                return self._go(target)
            case GuardedBranch(guard, target, otherwise):
                return [
                    *self._branches_on(guard.reg.name, end.loc),
                    *self._branch(guard, target, otherwise),
                ]
            case Switch(index, targets):
                return [
                    *self._branches_on(index.name, end.loc),
                    *self._switch(self._array(index.name), targets),
                ]
            case Barrier(instruction, target):
                return [
                    *(
                        line
                        for register in end_reads(end)
                        for line in self._branches_on(register, instruction.loc)
                    ),
                    barrier_call(self._kernel, instruction, target, self._array),
                    _DISPATCH,
                ]

    def _go(self, target: int) -> list[str]:
        """Write a jump of all lanes of `m` to `target`."""
        if target == LEAVE:
            return ["emu::leave(w, m);", _DISPATCH]
        lines = []
        if target <= self._index:
            lines.append(
                f"if (emu::out_of_fuel(w)) {{ emu::send(w, m, {target}); return emu::kYield; }}"
            )
        # Lanes that wait elsewhere may have to join first: the scheduler decides.
        lines.append(f"if (m == w->alive) return {target};")
        return [*lines, f"emu::send(w, m, {target});", _DISPATCH]

    def _branch(self, guard: Guard, target: int, otherwise: int) -> list[str]:
        lines = [f"emu::Mask t = {self._lanes(guard)};"]
        if self._head is not None:
            stay = "0" if target == self._head else "m"
            lines.append(f"if (emu::cuts_loop(w, {self._index})) t = {stay};")
        if target == LEAVE:
            lines.append("if (t) { emu::leave(w, t); m &= ~t; if (!m) return emu::kDispatch; }")
            return [*lines, *self._go(otherwise)]
        lines += ["if (t == m) {", *self._go(target), "}"]
        if otherwise == LEAVE:
            lines += ["if (t) {", "emu::leave(w, m & ~t);", "m = t;", *self._go(target), "}"]
            return [*lines, *self._go(LEAVE)]
        lines += ["if (t) {", f"emu::send(w, t, {target});", f"emu::send(w, m & ~t, {otherwise});"]
        if target <= self._index:
            lines.append("if (emu::out_of_fuel(w)) return emu::kYield;")
        lines += [_DISPATCH, "}"]
        return [*lines, *self._go(otherwise)]

    def _switch(self, index: str, targets: tuple[int, ...]) -> list[str]:
        lines = []
        for number, target in enumerate(targets):
            put = "emu::leave(w, t);" if target == LEAVE else f"emu::send(w, t, {target});"
            lines.append(
                f"if (const emu::Mask t = emu::lanes_equal(m, {index}, {number})) {{ {put} }}"
            )
        if any(target <= self._index for target in targets):
            lines.append("if (emu::out_of_fuel(w)) return emu::kYield;")
        return [*lines, _DISPATCH]
