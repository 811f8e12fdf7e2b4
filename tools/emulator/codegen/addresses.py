"""Addresses as sums, with the alignment of them that ptxas knows.

An address is a constant plus registers times factors. Two accesses with the same registers and
factors lie at a constant distance; the number of zero low bits of the common part tells where
chunks of 8 or 16 bytes begin. The operations that ptxas 13.0 follows were found by disassembling
its output.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from cuda_llm.tools.emulator.codegen.layout import Layout
from cuda_llm.tools.emulator.ptx.literals import BYTES
from cuda_llm.tools.emulator.ptx.module import (
    Imm,
    Instruction,
    Operand,
    OperandPair,
    Reg,
    Symbol,
    Vector,
)

ALL_BITS = 32
"""Zero bits of a zero."""
MOST_TERMS = 12
"""Largest number of registers of a sum; a value with more registers is no address."""
_MODULUS = 1 << ALL_BITS
_INTEGERS = frozenset({f"{kind}{size}" for kind in "bus" for size in (8, 16, 32, 64)})

Name = tuple[str, int]
"""A register, with the number of its value in a basic block: 0 is the value at the block's start.
Or `_VARIABLE`, with the offset of a shared variable."""
_VARIABLE = "="


def zero_bits(value: int) -> int:
    """Return how many low bits of a constant are zero."""
    value %= _MODULUS
    return (value & -value).bit_length() - 1 if value else ALL_BITS


@dataclass(frozen=True)
class Sum:
    """A value, modulo 2^32: a constant, and registers times factors."""

    constant: int = 0
    terms: tuple[tuple[Name, int], ...] = ()
    varying_bits: int = ALL_BITS
    """Number of low bits that are zero in all terms but the constant. ptxas looks at each term: of
    140 x + 4 x it knows two bits, of 144 x four."""

    @property
    def bits(self) -> int:
        """Return the number of low bits of the value that are zero."""
        return min(self.varying_bits, zero_bits(self.constant))

    @property
    def variable(self) -> int | None:
        """Return the offset of a shared variable where the sum has no other term; else None."""
        match self.terms:
            case (((name, place), 1),) if name == _VARIABLE:
                return place
        return None

    def plus(self, other: "Sum") -> "Sum":
        """Return the sum of both."""
        factors = dict(self.terms)
        for name, factor in other.terms:
            factors[name] = (factors.get(name, 0) + factor) % _MODULUS
        return Sum(
            (self.constant + other.constant) % _MODULUS,
            tuple(sorted((name, factor) for name, factor in factors.items() if factor)),
            min(self.varying_bits, other.varying_bits),
        )

    def times(self, factor: int) -> "Sum":
        """Return the product with a constant."""
        terms = ((name, one * factor % _MODULUS) for name, one in self.terms)
        return Sum(
            self.constant * factor % _MODULUS,
            tuple(term for term in terms if term[1]),
            min(self.varying_bits + zero_bits(factor), ALL_BITS),
        )


ReadSum = Callable[[Operand], Sum | None]
"""Function from an operand to its value; None where nothing is known of the operand."""


@dataclass(frozen=True)
class Known:
    """Known properties of an operand: its zero bits, and its value where it is a constant."""

    bits: int
    value: int | None = None


def result_bits(opcode: Sequence[str], operands: Sequence[Known]) -> int:
    """Return how many low bits of an instruction's result ptxas knows to be zero.

    It does not follow neg, min, max, abs, shifts to the right, lop3, prmt, shfl, nor differences of
    two registers.
    """
    if opcode[-1] not in _INTEGERS or "hi" in opcode:
        return 0
    match opcode[0], operands:
        case ("mov" | "cvta", [one]):
            found = one.bits
        case "cvt", [one] if opcode[-2] in _INTEGERS:
            found = one.bits
        case (("or" | "xor" | "add" | "selp"), [one, other, *_]):
            found = min(one.bits, other.bits)
        case "and", [one, other]:
            found = max(one.bits, other.bits)
        case "sub", [one, other] if one.value is not None or other.value is not None:
            found = min(one.bits, other.bits)
        case "shl", [one, Known(value=count)]:
            found = one.bits + (count or 0)
        case (("mul" | "mul24"), [one, other]):
            found = one.bits + other.bits
        case (("mad" | "mad24"), [one, other, more]):
            found = min(one.bits + other.bits, more.bits)
        case "bfi", [one, other, Known(value=int() as at), _]:
            found = min(one.bits + at, other.bits)
        case _:
            found = 0
    return min(found, ALL_BITS)


class Addresses:
    """Values of the registers of a kernel, as sums, where addresses are made of registers."""

    def __init__(self, body: Sequence[Instruction], layout: Layout) -> None:
        self._layout = layout
        self._writers: dict[str, list[Instruction]] = {}
        for instruction in body:
            for register in targets(instruction):
                self._writers.setdefault(register, []).append(instruction)
        self._bits: dict[str, int] = {}
        self._lasting: dict[str, Sum] = {}
        for instruction in body:
            self._follow(instruction)

    def _follow(self, instruction: Instruction) -> None:
        for register in targets(instruction):
            if len(self._writers[register]) == 1:
                found = combine(instruction, self.lasting)
                self._lasting[register] = found or self.of_register(register)

    def lasting(self, operand: Operand) -> Sum | None:
        """Return an operand as a sum of registers that are written once, so that the sum holds
        everywhere; else None."""
        match operand:
            case Reg(name):
                return self._lasting.get(name)
            case Imm(value, 0):
                return Sum(value % _MODULUS)
            case Symbol(name, offset):
                place = self._layout.places.get(name)
                if place is not None and place.space == "shared":
                    terms = (((_VARIABLE, place.value), 1),)
                    return Sum(offset % _MODULUS, terms, zero_bits(place.value))
        return None

    def of_register(self, register: str, value: int = 0) -> Sum:
        """Return a register as itself, or as its n-th value in a basic block."""
        return Sum(0, (((register, value), 1),), self.bits_of(register))

    def bits_of(self, register: str) -> int:
        """Return how many low bits of a register are zero, whichever instruction wrote it last."""
        if register not in self._bits:
            self._settle(register)
        return self._bits[register]

    def _settle(self, register: str) -> None:
        """Find the zero bits of a register and of all that it is made of: the most that agree."""
        reached: dict[str, list[Instruction]] = {}
        work = [register]
        while work:
            name = work.pop()
            if name in reached or name in self._bits:
                continue
            reached[name] = self._writers.get(name, [])
            for writer in reached[name]:
                work.extend(o.name for o in writer.operands[1:] if isinstance(o, Reg))
        self._bits.update(dict.fromkeys(reached, ALL_BITS))
        changed = True
        while changed:
            changed = False
            for name, writers in reached.items():
                bits = min((self._written_bits(writer) for writer in writers), default=0)
                changed |= bits < self._bits[name]
                self._bits[name] = bits

    def _written_bits(self, writer: Instruction) -> int:
        if not isinstance(writer.operands[0], Reg):
            return 0
        return result_bits(writer.opcode, [self._known(o) for o in writer.operands[1:]])

    def _known(self, operand: Operand) -> Known:
        if isinstance(operand, Reg):
            return Known(self._bits[operand.name])
        found = self.lasting(operand)
        if found is None:
            return Known(0)
        return Known(found.bits, None if found.terms else found.constant)


def targets(instruction: Instruction) -> Iterator[str]:
    """Yield the registers that an instruction's first operand may write; some that it reads."""
    work: list[Operand | None] = list(instruction.operands[:1])
    while work:
        match work.pop():
            case Reg(name):
                yield name
            case Vector(items):
                work.extend(items)
            case OperandPair(first, second):
                work.extend((first, second))


def combine(instruction: Instruction, read: ReadSum) -> Sum | None:
    """Return what an instruction computes, as a sum; None where it is none."""
    if instruction.guard is not None or not _keeps_words(instruction.opcode):
        return None
    found = _combine(instruction, read)
    return found if found is not None and len(found.terms) <= MOST_TERMS else None


def _combine(instruction: Instruction, read: ReadSum) -> Sum | None:
    match instruction.opcode[0], [read(operand) for operand in instruction.operands[1:]]:
        case (("mov" | "cvt" | "cvta"), [Sum() as one]):
            return one
        case "add", [Sum() as one, Sum() as other]:
            return one.plus(other)
        case "sub", [Sum() as one, Sum() as other] if not (one.terms and other.terms):
            return one.plus(other.times(-1))
        case "shl", [Sum() as one, Sum(constant=count, terms=())]:
            return one.times(1 << min(count, ALL_BITS))
        case "or", [Sum() as one, Sum(constant=low, terms=())] if low < 1 << one.bits:
            return one.plus(Sum(low))
        case "mul", [Sum() as one, Sum() as other]:
            return _product(one, other)
        case "mad", [Sum() as one, Sum() as other, Sum() as more]:
            product = _product(one, other)
            return product and product.plus(more)
    return None


def _product(one: Sum, other: Sum) -> Sum | None:
    if one.terms and other.terms:
        return None
    return other.times(one.constant) if not one.terms else one.times(other.constant)


def _keeps_words(opcode: Sequence[str]) -> bool:
    """Return whether an instruction is an integer instruction that computes its low 32 bits
    exactly."""
    kinds = [part for part in opcode[1:] if part in BYTES]
    whole = all(kind in _INTEGERS and BYTES[kind] >= 4 for kind in kinds)
    return whole and bool(kinds) and "hi" not in opcode and "sat" not in opcode
