"""Arguments and results of inlined calls: .param variables become registers.

A variable that is read in other pieces than it was written in, or whose address is taken, becomes
local memory instead, with the same results.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from cuda_llm.tools.emulator.ptx.literals import BYTES
from cuda_llm.tools.emulator.ptx.module import (
    Address,
    Function,
    Instruction,
    Operand,
    Reg,
    Statement,
    Symbol,
    Vector,
)


def lower_param_space(function: Function) -> Function:
    """Return `function` without .param variables of its own (the kernel's parameters stay)."""
    own = {v.name for v in function.variables if v.space == "param"}
    if not own:
        return function
    pieces: dict[str, dict[int, int]] = {name: {} for name in own}
    broken: set[str] = set()
    for statement in function.body:
        if isinstance(statement, Instruction):
            _note_accesses(statement, pieces, broken)
    broken |= {name for name, found in pieces.items() if _overlap(found)}
    registers = dict(function.registers)
    for name, found in pieces.items():
        if name not in broken:
            for offset, size in found.items():
                registers[_register(name, offset)] = f"b{8 * size}"
    body: list[Statement] = []
    for statement in function.body:
        if isinstance(statement, Instruction):
            body.extend(_rewrite(statement, own, broken))
        else:
            body.append(statement)
    variables = tuple(
        replace(v, space="local") if v.name in broken else v
        for v in function.variables
        if v.space != "param" or v.name in broken
    )
    return replace(function, registers=registers, variables=variables, body=tuple(body))


def _register(variable: str, offset: int) -> str:
    return f"{variable}+{offset}"


def _access(instruction: Instruction, own: set[str]) -> Address | None:
    """Return the .param address an instruction loads from or stores to."""
    if instruction.opcode[:2] not in {("ld", "param"), ("st", "param")}:
        return None
    operand = instruction.operands[1 if instruction.opcode[0] == "ld" else 0]
    if isinstance(operand, Address) and isinstance(operand.base, Symbol):
        return operand if operand.base.name in own else None
    return None


def _elements(instruction: Instruction) -> tuple[Operand | None, ...]:
    operand = instruction.operands[0 if instruction.opcode[0] == "ld" else 1]
    return operand.items if isinstance(operand, Vector) else (operand,)


def _note_accesses(
    instruction: Instruction, pieces: dict[str, dict[int, int]], broken: set[str]
) -> None:
    address = _access(instruction, set(pieces))
    if address is None:
        if instruction.opcode[0] != "call":
            broken.update(name for name in _symbols(instruction) if name in pieces)
        return
    assert isinstance(address.base, Symbol)
    size = BYTES[instruction.opcode[-1]]
    found = pieces[address.base.name]
    for index in range(len(_elements(instruction))):
        offset = address.offset + index * size
        if found.setdefault(offset, size) != size:
            broken.add(address.base.name)


def _symbols(instruction: Instruction) -> Iterator[str]:
    for operand in instruction.operands:
        base = operand.base if isinstance(operand, Address) else operand
        if isinstance(base, Symbol):
            yield base.name


def _overlap(pieces: dict[int, int]) -> bool:
    ordered = sorted(pieces.items())
    return any(a + size > b for (a, size), (b, _) in pairwise(ordered))


def _rewrite(instruction: Instruction, own: set[str], broken: set[str]) -> list[Instruction]:
    if instruction.opcode[0] == "call":
        operands = tuple(
            Reg(_register(o.name, 0)) if isinstance(o, Symbol) and o.name in own - broken else o
            for o in instruction.operands
        )
        return [replace(instruction, operands=operands)]
    address = _access(instruction, own)
    if address is None:
        return [instruction]
    assert isinstance(address.base, Symbol)
    name, kind = address.base.name, instruction.opcode[-1]
    if name in broken:
        opcode = (instruction.opcode[0], "local", *instruction.opcode[2:])
        return [replace(instruction, opcode=opcode)]
    moves: list[Instruction] = []
    for index, item in enumerate(_elements(instruction)):
        if item is None:
            continue
        piece = Reg(_register(name, address.offset + index * BYTES[kind]))
        operands = (item, piece) if instruction.opcode[0] == "ld" else (piece, item)
        moves.append(replace(instruction, opcode=("mov", kind), operands=operands))
    return moves
