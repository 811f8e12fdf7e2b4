"""Places of variables: numbers of module variables, offsets of shared and local variables."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from cuda_llm.tools.emulator.ptx.module import (
    Address,
    Function,
    Instruction,
    Module,
    Operand,
    OperandPair,
    Symbol,
    Variable,
    Vector,
)
from cuda_llm.tools.profiler.tables import SharedVariable


@dataclass(frozen=True)
class StoragePlace:
    """Space of a symbol, and its number (global, const) or offset (shared, local, param)."""

    space: str
    value: int


@dataclass(frozen=True)
class Layout:
    """Places and sizes of a kernel's variables in shared, local and parameter memory."""

    places: dict[str, StoragePlace]
    shared_bytes: int
    """Static shared memory, rounded up so that the dynamic part follows aligned."""
    local_bytes: int
    param_bytes: int
    params: tuple[tuple[int, int], ...]
    """Offset and size of each kernel parameter."""
    shared: tuple[SharedVariable, ...] = ()
    """Arrays in shared memory, under their names in the source."""

    def has_param(self, offset: int, begin: int, end: int) -> bool:
        """Return whether bytes `begin` to `end` lie inside the parameter at `offset`."""
        return begin >= 0 and any(at == offset and end <= size for at, size in self.params)


def module_variables(module: Module) -> tuple[Variable, ...]:
    """Return variables that live in device memory, in the order of their numbers."""
    return tuple(v for v in module.variables if v.space in {"global", "const"} and not v.external)


def lay_out(module: Module, kernel: Function) -> Layout:
    """Decide the storage of a flattened kernel. Only shared variables it names take room.

    They stand in ptxas's order, on which bank conflicts and merged accesses depend.
    """
    variables = module_variables(module)
    names = {v.name for v in variables}
    places = {
        v.name: StoragePlace(v.space, i)
        for i, v in enumerate(variables)
        # Kernels, and functions without a body, have no address: tables of them are refused.
        if all(symbol.name in names for _, symbol in v.pointers)
    }
    used = symbols_of(kernel)
    shared = [
        v for v in (*kernel.variables, *module.variables) if v.space == "shared" and v.name in used
    ]
    static = [v for v in shared if not v.external]
    dynamic = [v for v in shared if v.external]
    shared_bytes = _stack(static, places)
    dynamic_align = max((v.align for v in dynamic), default=1)
    shared_bytes = _round_up(shared_bytes, dynamic_align)
    places.update((v.name, StoragePlace("shared", shared_bytes)) for v in dynamic)
    local_bytes = _stack((v for v in kernel.variables if v.space == "local"), places)
    param_bytes = _stack(kernel.params, places)
    return Layout(
        places=places,
        shared_bytes=shared_bytes,
        local_bytes=_round_up(local_bytes, 16),
        param_bytes=param_bytes,
        params=tuple((places[v.name].value, v.size) for v in kernel.params),
        shared=tuple(
            SharedVariable(
                name=source_name(v.name),
                offset_bytes=places[v.name].value,
                size_bytes=None if v.external else v.size,
            )
            for v in (*static, *dynamic[:1])
        ),
    )


def source_name(symbol: str) -> str:
    """Return the name of a variable in the source: `tile` of `_ZZ3sumPfE4tile_0`."""
    for match in re.finditer(r"(?:E|L|_Z)(\d+)(?=[A-Za-z_])", symbol):
        name = symbol[match.end() : match.end() + int(match[1])]
        if re.fullmatch(r"(?:_\d+|__\d+_|E)?", symbol[match.end() + len(name) :]):
            return name
    return symbol


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _stack(variables: Iterable[Variable], places: dict[str, StoragePlace]) -> int:
    offset = 0
    for variable in variables:
        offset = _round_up(offset, max(variable.align, 1))
        places[variable.name] = StoragePlace(variable.space, offset)
        offset += variable.size
    return offset


def symbols_of(function: Function) -> set[str]:
    """Return the names of variables and functions that a body mentions."""
    found: set[str] = set()

    def visit(operand: Operand | None) -> None:
        match operand:
            case Symbol(name):
                found.add(name)
            case Address(base):
                visit(base)
            case Vector(items):
                for item in items:
                    visit(item)
            case OperandPair(first, second):
                visit(first)
                visit(second)
            case _:
                pass

    for statement in function.body:
        if isinstance(statement, Instruction):
            for operand in statement.operands:
                visit(operand)
    return found
