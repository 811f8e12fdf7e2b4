"""Meanings of PTX words: literals, and names by the block that declares them."""

import struct
from dataclasses import dataclass, field

from cuda_llm.tools.emulator.ptx.module import Imm, Operand, Reg, Symbol

BYTES = {
    "pred": 1,
    "b8": 1,
    "u8": 1,
    "s8": 1,
    "b16": 2,
    "u16": 2,
    "s16": 2,
    "f16": 2,
    "bf16": 2,
    "b32": 4,
    "u32": 4,
    "s32": 4,
    "f32": 4,
    "f16x2": 4,
    "bf16x2": 4,
    "b64": 8,
    "u64": 8,
    "s64": 8,
    "f64": 8,
    "f32x2": 8,
    "b128": 16,
}
"""Size of a value of each type."""


def literal(text: str) -> Imm | None:
    """Return the value a token spells; None where it is not a number."""
    if not text[0].isdigit():
        return None
    kind = text[1:2]
    if kind in "fF" and kind:
        return Imm(int(text[2:], 16), 32)
    if kind in "dD" and kind:
        return Imm(int(text[2:], 16), 64)
    if "." in text:
        return Imm(struct.unpack("<Q", struct.pack("<d", float(text)))[0], 64)
    digits = text.rstrip("U")
    if len(digits) > 1 and digits[0] == "0" and digits.isdigit():
        return Imm(int(digits, 8))
    return Imm(int(digits, 0))


def minus(value: Imm) -> Imm:
    """Return the literal with a minus sign before it."""
    if value.float_bits:
        return Imm(value.value ^ 1 << (value.float_bits - 1), value.float_bits)
    return Imm(-value.value)


def data_bytes(value: Imm, size: int) -> bytes:
    """Return a literal as it is stored in a variable of element size `size`."""
    bits = value.value
    if value.float_bits == 64 and size == 4:
        bits = struct.unpack("<I", struct.pack("<f", as_float(value)))[0]
    return (bits & (1 << 8 * size) - 1).to_bytes(size, "little")


def as_float(value: Imm) -> float:
    """Return the value of a float literal."""
    code, integer = ("<f", "<I") if value.float_bits == 32 else ("<d", "<Q")
    return float(struct.unpack(code, struct.pack(integer, value.value))[0])


@dataclass
class Scope:
    """Names of a block. Names declared in a nested block get a suffix that no source can spell."""

    number: int
    parent: "Scope | None" = None
    names: dict[str, Operand] = field(default_factory=dict)
    labels: set[str] = field(default_factory=set)

    def unique(self, name: str) -> str:
        """Return the name of a declaration of this block that is unique in the whole function."""
        return name if self.parent is None else f"{name}'{self.number}"

    def declare_register(self, name: str) -> str:
        unique = self.unique(name)
        self.names[name] = Reg(unique)
        return unique

    def declare_variable(self, name: str) -> str:
        unique = self.unique(name)
        self.names[name] = Symbol(unique)
        return unique

    def find(self, name: str) -> Operand | None:
        """Return the operand that a name stands for; None where no block declares the name."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.names.get(name)
            if found is not None:
                return found
            scope = scope.parent
        return None

    def label(self, name: str) -> str:
        """Return the unique name of a label, as seen from here once the whole function is read."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.labels:
                return scope.unique(name)
            scope = scope.parent
        return name
