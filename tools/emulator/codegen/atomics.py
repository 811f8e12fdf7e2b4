"""Lowers the instructions by which warps of a block synchronise: atom, red and block barriers."""

from cuda_llm.tools.emulator.codegen.arithmetic import register, store
from cuda_llm.tools.emulator.codegen.kernel import Act, KernelDraft, Lane, SpellLanes, Step
from cuda_llm.tools.emulator.codegen.memory import apart, copy, fitted, pointer, space_of
from cuda_llm.tools.emulator.codegen.values import NotSupported, OperandReader
from cuda_llm.tools.emulator.ptx.literals import BYTES
from cuda_llm.tools.emulator.ptx.module import (
    Address,
    Imm,
    Instruction,
    Operand,
    Reg,
    Vector,
)

OPERATIONS = {
    "add": "add",
    "min": "min",
    "max": "max",
    "inc": "inc",
    "dec": "dec",
    "and": "and_",
    "or": "or_",
    "xor": "xor_",
    "exch": "exch",
    "cas": "cas",
}
"""PTX name to `emu::AtomOp`."""
_TYPES = frozenset(
    {
        *("b16", "b32", "u32", "s32", "b64", "u64", "s64"),
        *("f32", "f64", "f16", "f16x2", "bf16", "bf16x2"),
    }
)


def lower_atomic(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower an atomic to a read-modify-write for each lane. Lanes act in turn, so every memory
    ordering is kept."""
    opcode = instruction.opcode
    space = space_of(opcode)
    operation = next((part for part in opcode[1:] if part in OPERATIONS), None)
    kind = opcode[-1]
    if operation is None or kind not in _TYPES or space not in {"global", "shared", "generic"}:
        raise NotSupported
    operands = list(instruction.operands)
    target = operands.pop(0) if opcode[0] == "atom" else None
    if isinstance(target, Vector) and target.items == (None,):
        target = None
    if any(isinstance(operand, Vector) for operand in operands):
        raise NotSupported
    steps: list[Step] = []
    guard = instruction.guard
    address = operands[0]
    if not isinstance(address, Address):
        raise NotSupported
    # Shared addresses come zero-extended to 64 bits.
    if space == "generic":
        base = pointer(kernel, address, space, guard, steps).register
    elif isinstance(address.base, Reg) and kernel.bytes(address.base.name) == 8:
        base = address.base.name
    else:
        base = copy(kernel, address.base, "u64", guard, steps)
    values = [fitted(kernel, operand, kind, guard, steps) for operand in operands[1:3]]
    if len(values) != (2 if operation == "cas" else 1):
        if isinstance(operands[-1], Imm) or operation == "cas":
            raise NotSupported
        values = values[:1]
    out = None
    if target is not None:
        out = register(target)
        if kernel.bytes(out) != BYTES[kind]:
            raise NotSupported
    exchanges = operation == "exch" and BYTES[kind] >= 4
    if exchanges:
        base = apart(kernel, base, [*values, *([out] if out else [])], guard, steps)
    site = kernel.site(instruction, "atomic", space, BYTES[kind])
    head = (
        f"emu::atomic(w, {site}, q, emu::Space::{space}, emu::AtomOp::{OPERATIONS[operation]}, "
        f"emu::AtomType::{kind}"
    )

    def code(array: SpellLanes) -> str:
        second = array(values[1]) if len(values) > 1 else "nullptr"
        result = array(out) if out else "nullptr"
        return f"{head}, {array(base)}, {address.offset}, {array(values[0])}, {second}, {result});"

    def move(array: SpellLanes) -> str:
        result = array(out) if out else "nullptr"
        return (
            f"emu::exchange_undefined(w, {site}, q, emu::Space::{space}, {array(base)}, "
            f"{address.offset}, {array(values[0])}, {result});"
        )

    written = (out,) if out else ()
    steps.append(
        Act(
            code,
            reads=(base, *values),
            writes=written,
            guard=guard,
            moves=move if exchanges else None,
            data=(values[0], *written) if exchanges else (),
            use="atomic",
        )
    )
    return steps


def lower_barrier_result(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower the read of a reducing barrier's result, in the block behind it."""
    target = instruction.operands[0]
    name = register(target)
    reader = OperandReader(kernel)
    result = reader.uniform("w->barrier_result")
    kind = "pred" if kernel.is_predicate(name) else "u32"
    value = f"{result} != 0" if kind == "pred" else result
    return [Lane(((name, store(kernel, target, value, kind)),), (), None, tuple(reader.uniforms))]


def barrier_call(
    kernel: KernelDraft, instruction: Instruction, target: int, array: SpellLanes
) -> str:
    """Return C++ of a block barrier whose lanes go on at block `target`."""
    opcode = instruction.opcode
    operands = list(instruction.operands)
    reduce, predicate = "none", "0"
    if "red" in opcode:
        reduce = next(part for part in opcode if part in {"popc", "and", "or"})
        reduce = {"popc": "popc", "and": "all", "or": "any"}[reduce]
        negated = len(operands) - 1 in instruction.negated
        source = operands.pop()
        operands.pop(0)
        name = array(register(source))
        predicate = f"~{name}" if negated else name
    number = _first(operands[0], array)
    count = _first(operands[1], array) if len(operands) > 1 else "0u"
    aligned = opcode[0] == "bar" or "aligned" in opcode
    site = kernel.site(instruction, "barrier")
    return (
        f"emu::barrier(w, {site}, m, {number}, {count}, {str(aligned).lower()}, "
        f"{str('arrive' in opcode).lower()}, emu::Reduce::{reduce}, {predicate}, {target});"
    )


def _first(operand: Operand, array: SpellLanes) -> str:
    """Return a barrier's number or thread count: a constant, or the first lane's value."""
    if isinstance(operand, Imm):
        return f"{operand.value}u"
    return f"{array(register(operand))}[__builtin_ctz(m)]"
