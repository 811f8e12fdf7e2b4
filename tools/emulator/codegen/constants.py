"""Replaces registers that hold only a single literal by the literal.

nvcc moves a literal into a register where an instruction takes none, as shfl takes no literal for a
member mask. A mask that is known as a constant needs no lane array, and g++ folds it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from cuda_llm.tools.emulator.ptx.module import (
    Function,
    Imm,
    Instruction,
    Operand,
    OperandPair,
    Reg,
    Statement,
    Vector,
)


def propagate_constants(function: Function) -> Function:
    """Return a flattened `function` that reads literals in the place of constant registers.

    The moves stay, as they are part of what the kernel executes; nothing needs their results.
    """
    constants = _constants(function)
    if not constants:
        return function
    return replace(function, body=tuple(_rewrite(s, constants) for s in function.body))


def _constants(function: Function) -> dict[str, Imm]:
    """Return the literal of each register with a single write, an unconditional move of the
    literal."""
    writes: Counter[str] = Counter()
    values: dict[str, Imm] = {}
    for statement in function.body:
        if not isinstance(statement, Instruction) or not statement.operands:
            continue
        writes.update(_registers(statement.operands[0]))
        target, *sources = statement.operands
        if (
            statement.opcode[0] == "mov"
            and statement.guard is None
            and isinstance(target, Reg)
            and function.registers[target.name] != "pred"
            and isinstance(sources[0], Imm)
        ):
            values[target.name] = sources[0]
    return {name: value for name, value in values.items() if writes[name] == 1}


def _registers(operand: Operand | None) -> Iterator[str]:
    """Return the registers that an instruction's first operand may write; too many do no harm."""
    match operand:
        case Reg(name):
            yield name
        case Vector(items):
            for item in items:
                yield from _registers(item)
        case OperandPair(first, second):
            yield from _registers(first)
            yield from _registers(second)
        case _:
            pass


def _rewrite(statement: Statement, constants: Mapping[str, Imm]) -> Statement:
    if not isinstance(statement, Instruction) or statement.opcode[0] == "call":
        # Functions of the runtime take registers.
        return statement
    sources = tuple(_read(operand, constants) for operand in statement.operands[1:])
    if sources == statement.operands[1:]:
        return statement
    return replace(statement, operands=(statement.operands[0], *sources))


def _read(operand: Operand, constants: Mapping[str, Imm]) -> Operand:
    match operand:
        case Reg(name):
            return constants.get(name, operand)
        case Vector(items):
            return Vector(tuple(item and _read(item, constants) for item in items))
        case _:
            return operand
