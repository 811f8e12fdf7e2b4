"""A kernel's blocks as one resumable C++ function."""

from collections.abc import Sequence
from dataclasses import dataclass

from cuda_llm.tools.emulator.codegen.barriers import barrier_call
from cuda_llm.tools.emulator.codegen.flow import LEAVE, Barrier, Branch, End, Jump, Switch
from cuda_llm.tools.emulator.codegen.kernel import Kernel
from cuda_llm.tools.emulator.codegen.liveness import (
    LoweredBlock,
    crossing,
    end_reads,
    live_out,
)
from cuda_llm.tools.emulator.codegen.loops import write_segment
from cuda_llm.tools.emulator.codegen.segments import Item, Segment, schedule
from cuda_llm.tools.emulator.codegen.steps import Act
from cuda_llm.tools.emulator.ptx.module import Guard


@dataclass(frozen=True)
class Emitted:
    """C++ of one kernel."""

    function: str
    """Name of the function."""
    registers: str
    """Name of the register struct."""
    text: str


def emit(kernel: Kernel, blocks: Sequence[LoweredBlock], number: int) -> Emitted:
    """Write the function of a lowered kernel."""
    after = live_out(blocks)
    shared = crossing(after)
    struct, function = f"Registers{number}", f"run{number}"
    lines = [f"struct {struct} {{"]
    lines += [_member(kernel, register) for register in sorted(shared)]
    lines += ["uint8_t unused;", "};", f"static emu::Status {function}(emu::Warp* w) {{"]
    lines.append(f"{struct}& g = *reinterpret_cast<{struct}*>(w->regs);")
    lines += ["(void)g;", "emu::Mask m;", "uint32_t pc;", "dispatch:", "m = emu::pick(w, &pc);"]
    lines += ["if (!m) return emu::stalled(w);", "switch (pc) {"]
    lines += [f"case {index}: goto B{index};" for index in range(len(blocks))]
    lines += ["default: __builtin_unreachable();", "}"]
    for index, block in enumerate(blocks):
        writer = _BlockWriter(kernel, index, shared)
        lines += writer.write(block, after[index])
    lines.append("}")
    return Emitted(function, struct, "\n".join(lines))


def _member(kernel: Kernel, register: str) -> str:
    name = kernel.name(register)
    if kernel.is_predicate(register):
        return f"emu::Mask {name};"
    return f"alignas(64) {kernel.raw(register)} {name}[emu::kLanes];"


class _BlockWriter:
    def __init__(self, kernel: Kernel, index: int, crossing: frozenset[str]) -> None:
        self._kernel = kernel
        self._index = index
        self._crossing = crossing
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
        return [f"B{self._index}: {{", *declarations, *body, "}"]

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

    def _item(self, item: Item) -> list[str]:
        if isinstance(item, Segment):
            lines = write_segment(self._kernel, item, self._array, self._crossing)
            return ["{", *lines, "}"]
        code = item.code(self._array)
        if item.narrows:
            return [code]
        if item.guard is None:
            return [f"{{ const emu::Mask q = m; {code} }}"]
        return [f"if (const emu::Mask q = {self._lanes(item.guard)}) {{ {code} }}"]

    def _lanes(self, guard: Guard) -> str:
        return f"m & {'~' if guard.negated else ''}{self._array(guard.reg.name)}"

    def _end(self, end: End) -> list[str]:
        match end:
            case Jump(target):
                return self._go(target)
            case Branch(guard, target, otherwise):
                return self._branch(guard, target, otherwise)
            case Switch(index, targets):
                return self._switch(self._array(index.name), targets)
            case Barrier(instruction, target):
                return [
                    barrier_call(self._kernel, instruction, target, self._array),
                    "goto dispatch;",
                ]

    def _go(self, target: int) -> list[str]:
        """All lanes of `m` go on at `target`."""
        if target == LEAVE:
            return ["emu::leave(w, m);", "goto dispatch;"]
        lines = []
        if target <= self._index:
            lines.append(
                f"if (emu::out_of_fuel(w)) {{ emu::send(w, m, {target}); "
                "return emu::Status::yielded; }"
            )
        # Lanes that wait elsewhere may have to join first: the scheduler decides.
        lines.append(f"if (m == w->alive) goto B{target};")
        return [*lines, f"emu::send(w, m, {target});", "goto dispatch;"]

    def _branch(self, guard: Guard, target: int, otherwise: int) -> list[str]:
        lines = [f"const emu::Mask t = {self._lanes(guard)};"]
        if target == LEAVE:
            lines.append("if (t) { emu::leave(w, t); m &= ~t; if (!m) goto dispatch; }")
            return [*lines, *self._go(otherwise)]
        lines += ["if (t == m) {", *self._go(target), "}"]
        if otherwise == LEAVE:
            lines += ["if (t) {", "emu::leave(w, m & ~t);", "m = t;", *self._go(target), "}"]
            return [*lines, *self._go(LEAVE)]
        lines += ["if (t) {", f"emu::send(w, t, {target});", f"emu::send(w, m & ~t, {otherwise});"]
        if target <= self._index:
            lines.append("if (emu::out_of_fuel(w)) return emu::Status::yielded;")
        lines += ["goto dispatch;", "}"]
        return [*lines, *self._go(otherwise)]

    def _switch(self, index: str, targets: tuple[int, ...]) -> list[str]:
        lines = []
        for number, target in enumerate(targets):
            put = "emu::leave(w, t);" if target == LEAVE else f"emu::send(w, t, {target});"
            lines.append(
                f"if (const emu::Mask t = emu::lanes_equal(m, {index}, {number})) {{ {put} }}"
            )
        if any(target <= self._index for target in targets):
            lines.append("if (emu::out_of_fuel(w)) return emu::Status::yielded;")
        return [*lines, "goto dispatch;"]
