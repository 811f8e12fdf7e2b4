"""Operands as C++ expressions of one lane."""

import struct
from dataclasses import dataclass, field

from cuda_llm.tools.emulator.codegen.kernel import KernelDraft
from cuda_llm.tools.emulator.codegen.specials import special
from cuda_llm.tools.emulator.ops.lane_op import C_TYPES
from cuda_llm.tools.emulator.ptx.literals import BYTES, as_float
from cuda_llm.tools.emulator.ptx.module import Imm, Operand, Reg, Special, Symbol


class NotSupported(Exception):
    """Raised while lowering one instruction, and caught there: the kernel is refused."""


@dataclass
class Reader:
    """Collects what the expressions of one instruction read."""

    kernel: KernelDraft
    reads: list[str] = field(default_factory=list)
    uniforms: list[tuple[str, str]] = field(default_factory=list)

    def value(self, operand: Operand | None, kind: str, *, negated: bool = False) -> str:
        """Return the C++ expression of an operand as PTX type `kind`."""
        match operand:
            case Reg(name):
                return self._register(name, kind, negated)
            case Imm():
                return immediate(operand, kind)
            case Special(name):
                return f"{C_TYPES[kind]}({self._special(name)})"
            case Symbol():
                return f"{C_TYPES[kind]}({self.address(operand)})"
            case _:
                raise NotSupported

    def uniform(self, expression: str) -> str:
        """Name of a value computed once for all lanes."""
        name = self.kernel.uniform()
        self.uniforms.append((name, expression))
        return name

    def address(self, symbol: Symbol) -> str:
        """Return the address of a variable in its own space."""
        place = self.kernel.layout.places.get(symbol.name)
        if place is None:
            raise NotSupported
        if place.space in {"global", "const"}:
            base = self.uniform(f"w->launch->variables[{place.value}]")
            return f"({base} + {symbol.offset})" if symbol.offset else base
        return f"{place.value + symbol.offset}"

    def _register(self, name: str, kind: str, negated: bool) -> str:
        self.reads.append(name)
        spelled = self.kernel.name(name)
        if kind == "pred":
            return f"!{spelled}" if negated else spelled
        return f"emu::from_bits<{C_TYPES[kind]}>({spelled})"

    def _special(self, name: str) -> str:
        found = special(name)
        if found is None:
            raise NotSupported
        return found.expression if found.per_lane else self.uniform(found.expression)


def immediate(value: Imm, kind: str) -> str:
    """Return a literal as PTX type `kind`."""
    if kind == "pred":
        return "true" if value.value else "false"
    bits = value.value
    size = BYTES[kind]
    if value.float_bits and value.float_bits != 8 * size and size in {4, 8}:
        code, integer = ("<f", "<I") if size == 4 else ("<d", "<Q")
        bits = struct.unpack(integer, struct.pack(code, as_float(value)))[0]
    bits &= (1 << 8 * size) - 1
    suffix = "ull" if size == 8 else "u"
    if kind in {"f32", "f64"}:
        return f"emu::from_bits<{C_TYPES[kind]}>({bits:#x}{suffix})"
    return f"{C_TYPES[kind]}({bits:#x}{suffix})"
