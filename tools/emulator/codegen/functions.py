"""Addresses of device functions, as numbers in the place of their names.

No memory is at such an address, so reading it is out of bounds. It is the same in every kernel of a
module: it may go through memory and through the host.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from cuda_llm.tools.emulator.ptx.module import (
    Function,
    Imm,
    Instruction,
    Module,
    Operand,
    Statement,
    Symbol,
    Variable,
    Vector,
)

FIRST_ADDRESS = 0xFC0DE << 36
"""Above all memory, and below the windows of shared and local memory."""
_STEP = 16


@dataclass(frozen=True)
class NumberedFunctions:
    """A module in which no operand and no initial value names one of its functions."""

    module: Module
    addresses: Mapping[str, int]
    """Address of each function whose address the module takes, in the module's order."""


def number_functions(module: Module) -> NumberedFunctions:
    """Return `module` with numbers for the functions it takes the address of.

    Names of kernels, and of functions without a body, stay.
    """
    bodies = [function.name for function in module.functions if not function.entry]
    taken = {name for name in _named(module) if name in set(bodies)}
    addresses = {name: FIRST_ADDRESS + _STEP * n for n, name in enumerate(bodies) if name in taken}
    if not addresses:
        return NumberedFunctions(module, {})
    numbered = replace(
        module,
        functions=tuple(_function(one, addresses) for one in module.functions),
        variables=tuple(_variable(one, addresses) for one in module.variables),
    )
    return NumberedFunctions(numbered, addresses)


def _named(module: Module) -> Iterator[str]:
    """Yield the names of variables and functions that operands and initial values give."""
    for variable in module.variables:
        for _, symbol in variable.pointers:
            yield symbol.name
    for function in module.functions:
        for statement in function.body:
            if isinstance(statement, Instruction):
                for operand in statement.operands:
                    for item in operand.items if isinstance(operand, Vector) else (operand,):
                        if isinstance(item, Symbol):
                            yield item.name


def _function(function: Function, addresses: Mapping[str, int]) -> Function:
    return replace(function, body=tuple(_statement(one, addresses) for one in function.body))


def _statement(statement: Statement, addresses: Mapping[str, int]) -> Statement:
    if not isinstance(statement, Instruction):
        return statement
    operands = tuple(_operand(one, addresses) for one in statement.operands)
    return statement if operands == statement.operands else replace(statement, operands=operands)


def _operand(operand: Operand, addresses: Mapping[str, int]) -> Operand:
    match operand:
        case Symbol(name, offset) if name in addresses:
            return Imm(addresses[name] + offset)
        case Vector(items):
            return Vector(tuple(item and _operand(item, addresses) for item in items))
        case _:
            return operand


def _variable(variable: Variable, addresses: Mapping[str, int]) -> Variable:
    found = [(at, one) for at, one in variable.pointers if one.name in addresses]
    if not found:
        return variable
    content = bytearray(variable.initial or b"")
    for at, symbol in found:
        content[at : at + 8] = (addresses[symbol.name] + symbol.offset).to_bytes(8, "little")
    rest = tuple(pair for pair in variable.pointers if pair not in found)
    return replace(variable, initial=bytes(content), pointers=rest)
