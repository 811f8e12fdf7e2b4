"""ld and st: calls of the functions of `emu/memory.h`, with registers made to fit them."""

from collections.abc import Sequence
from dataclasses import dataclass

from cuda_llm.tools.emulator.codegen.arithmetic import register, store, undefined_copy
from cuda_llm.tools.emulator.codegen.kernel import Act, KernelDraft, Lane, SpellLanes, Step
from cuda_llm.tools.emulator.codegen.values import NotSupported, OperandReader
from cuda_llm.tools.emulator.ops.lane_op import C_TYPES
from cuda_llm.tools.emulator.ptx.literals import BYTES
from cuda_llm.tools.emulator.ptx.module import (
    Address,
    Guard,
    Instruction,
    Operand,
    Reg,
    Symbol,
    Vector,
)

_SPACES = ("global", "shared", "local", "const", "param")


def space_of(opcode: tuple[str, ...]) -> str:
    """Return the state space an opcode names, `generic` when none."""
    for part in opcode:
        name, _, scope = part.partition("::")
        if name in _SPACES:
            if scope == "func":
                raise NotSupported
            # An address that may belong to another block is resolved by the rank of the block.
            return "generic" if scope == "cluster" else name
    return "generic"


@dataclass(frozen=True)
class Pointer:
    """A lane array of addresses and a constant added to each."""

    register: str
    offset: int


def pointer(
    kernel: KernelDraft, operand: Operand, space: str, guard: Guard | None, steps: list[Step]
) -> Pointer:
    """Return the address operand of a memory instruction as a register of its space's width.

    Steps that compute the address first are appended to `steps`.
    """
    if not isinstance(operand, Address):
        raise NotSupported
    kind = "u32" if space in {"shared", "local"} else "u64"
    base = operand.base
    if space == "generic" and (narrow := _in_cluster(kernel, base, guard, steps)) is not None:
        return Pointer(narrow, operand.offset)
    if isinstance(base, Reg) and kernel.bytes(base.name) == BYTES[kind]:
        return Pointer(base.name, operand.offset)
    if isinstance(base, Symbol):
        place = kernel.layout.places.get(base.name)
        home = place.space if place else "?"
        if home != space and not {home, space} <= {"global", "const", "generic"}:
            raise NotSupported
    return Pointer(copy(kernel, base, kind, guard, steps), operand.offset)


def _in_cluster(
    kernel: KernelDraft, base: Operand, guard: Guard | None, steps: list[Step]
) -> str | None:
    """Return the generic address of a 32-bit address in the shared memory of the cluster; None for
    other operands."""
    is_narrow = isinstance(base, Reg) and kernel.bytes(base.name) == BYTES["u32"]
    place = kernel.layout.places.get(base.name) if isinstance(base, Symbol) else None
    if not is_narrow and (place is None or place.space != "shared"):
        return None
    reader = OperandReader(kernel)
    value = f"(uint64_t({reader.value(base, 'u32')}) | emu::kSharedWindow)"
    name = kernel.temporary("u64")
    steps.append(Lane(((name, value),), tuple(reader.reads), guard, tuple(reader.uniforms)))
    return name


def shared_address(
    kernel: KernelDraft, operand: Operand, guard: Guard | None, steps: list[Step]
) -> str:
    """Return a 32-bit register with an address of shared memory, however it is given."""
    if not isinstance(operand, Address):
        raise NotSupported
    reader = OperandReader(kernel)
    base = operand.base
    if isinstance(base, Reg) and kernel.bytes(base.name) == 4 and not operand.offset:
        return base.name
    kind = "u64" if isinstance(base, Reg) and kernel.bytes(base.name) == 8 else "u32"
    value = f"uint32_t({reader.value(base, kind)} + {operand.offset}ll)"
    name = kernel.temporary("u32")
    steps.append(Lane(((name, value),), tuple(reader.reads), guard, tuple(reader.uniforms)))
    return name


def copy(
    kernel: KernelDraft, operand: Operand | None, kind: str, guard: Guard | None, steps: list[Step]
) -> str:
    """Return a new register holding an operand as type `kind`."""
    reader = OperandReader(kernel)
    value = reader.value(operand, kind)
    name = kernel.temporary(kind)
    result = (name, store(kernel, Reg(name), value, kind))
    undefined = undefined_copy(kernel, reader, Reg(name), operand, kind)
    steps.append(
        Lane(
            (result,),
            tuple(reader.reads),
            guard,
            tuple(reader.uniforms),
            undefined=(undefined,),
        )
    )
    return name


def apart(
    kernel: KernelDraft, name: str, others: Sequence[str], guard: Guard | None, steps: list[Step]
) -> str:
    """Return a register with the value of `name` that is not one of `others`.

    Where undefined values are tracked, an act has no register both as data and as an address.
    """
    if not kernel.tracks or name not in others:
        return name
    return copy(kernel, Reg(name), f"b{8 * kernel.bytes(name)}", guard, steps)


def _elements(operand: Operand) -> tuple[Operand | None, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def lower_load(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower ld, from any space."""
    space = space_of(instruction.opcode)
    if space == "param":
        return _load_param(kernel, instruction)
    kind = instruction.opcode[-1]
    items = _elements(instruction.operands[0])
    size = BYTES.get(kind, 16)
    if size > 8:
        raise NotSupported
    steps: list[Step] = []
    at = pointer(kernel, instruction.operands[1], space, instruction.guard, steps)
    after: list[Step] = []
    outs = [_landing(kernel, item, kind, instruction.guard, after) for item in items]
    written = tuple(out for out in outs if out)
    base = apart(kernel, at.register, written, instruction.guard, steps)
    site = kernel.site(instruction, "load", space, size * len(items))
    call = f"emu::load_{space}<uint{8 * size}_t, {len(items)}>(w, {site}, q"

    def code(array: SpellLanes) -> str:
        spelled = ", ".join(array(out) if out else "nullptr" for out in outs)
        return f"{call}, {array(base)}, {at.offset}, {{{spelled}}});"

    steps.append(
        Act(
            code,
            reads=(base,),
            writes=written,
            guard=instruction.guard,
            moves=code,
            data=written,
            use="address",
        )
    )
    return steps + after


def _landing(
    kernel: KernelDraft, item: Operand | None, kind: str, guard: Guard | None, after: list[Step]
) -> str | None:
    """Return the register that receives a loaded element: the target, or a temporary that is then
    widened into the target."""
    if item is None:
        return None
    target = register(item)
    if kernel.bytes(target) == BYTES[kind] and not kernel.is_predicate(target):
        return target
    name = kernel.temporary(kind)
    reader = OperandReader(kernel)
    value = store(kernel, item, reader.value(Reg(name), kind), kind)
    undefined = undefined_copy(kernel, reader, item, Reg(name), kind)
    after.append(Lane(((target, value),), tuple(reader.reads), guard, undefined=(undefined,)))
    return name


def _load_param(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Load a kernel parameter: the same in every lane, unless its address is computed."""
    kind = instruction.opcode[-1]
    address = instruction.operands[1]
    if BYTES.get(kind, 16) > 8 or not isinstance(address, Address):
        raise NotSupported
    size = BYTES[kind]
    items = _elements(instruction.operands[0])
    outside = _outside_param(kernel, instruction, address, size * len(items))
    if outside is not None:
        return outside
    uniform = isinstance(address.base, Symbol)
    steps: list[Step] = []
    site = 0
    if not uniform:
        site = kernel.site(instruction, "load", "param", size * len(items))
        at = copy(kernel, address.base, "u64", instruction.guard, steps)
        steps.append(
            Act(
                lambda array: f"emu::param_read(w, {site}, q, {array(at)});",
                reads=(at,),
                guard=instruction.guard,
            )
        )
    reader = OperandReader(kernel)
    results = []
    for index, item in enumerate(items):
        if item is None:
            continue
        offset = address.offset + index * size
        if isinstance(address.base, Symbol):
            place = kernel.layout.places.get(address.base.name)
            if place is None or place.space != "param":
                raise NotSupported
            value = reader.uniform(f"emu::param<{C_TYPES[kind]}>(w, {place.value + offset})")
        else:
            base = reader.value(address.base, "u64")
            value = f"emu::param_at<{C_TYPES[kind]}>(w, {site}, i, {base} + {offset})"
        results.append((register(item), store(kernel, item, value, kind)))
    return [
        *steps,
        Lane(
            tuple(results),
            tuple(reader.reads),
            instruction.guard,
            tuple(reader.uniforms),
            vectorises=uniform,
        ),
    ]


def _outside_param(
    kernel: KernelDraft, instruction: Instruction, address: Address, size: int
) -> list[Step] | None:
    """Return a fault in the place of a load that leaves the parameter it names, else None."""
    place = (
        kernel.layout.places.get(address.base.name) if isinstance(address.base, Symbol) else None
    )
    if place is None or place.space != "param":
        return None
    begin = address.offset
    if kernel.layout.has_param(place.value, begin, begin + size):
        return None
    site = kernel.site(instruction, "load", "param", size)
    offset = (place.value + begin) % (1 << 64)

    def code(array: SpellLanes) -> str:
        return f"emu::param_outside(w, {site}, __builtin_ctz(q), {offset}ull, {size});"

    return [Act(code, guard=instruction.guard)]


def lower_store(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower st, to any space."""
    space = space_of(instruction.opcode)
    kind = instruction.opcode[-1]
    size = BYTES.get(kind, 16)
    if size > 8 or space in {"const", "param"}:
        raise NotSupported
    items = _elements(instruction.operands[1])
    steps: list[Step] = []
    at = pointer(kernel, instruction.operands[0], space, instruction.guard, steps)
    values = [fitted(kernel, item, kind, instruction.guard, steps) for item in items]
    base = apart(kernel, at.register, values, instruction.guard, steps)
    site = kernel.site(instruction, "store", space, size * len(items))
    call = f"emu::store_{space}<uint{8 * size}_t, {len(items)}>(w, {site}, q"

    def code(array: SpellLanes) -> str:
        return f"{call}, {array(base)}, {at.offset}, {{{', '.join(map(array, values))}}});"

    steps.append(
        Act(
            code,
            reads=(base, *values),
            guard=instruction.guard,
            moves=code,
            data=tuple(values),
            use="address",
        )
    )
    return steps


def fitted(
    kernel: KernelDraft, item: Operand | None, kind: str, guard: Guard | None, steps: list[Step]
) -> str:
    """Return a register of exactly the width of `kind` that holds an operand."""
    if (
        isinstance(item, Reg)
        and not kernel.is_predicate(item.name)
        and kernel.bytes(item.name) == BYTES[kind]
    ):
        return item.name
    return copy(kernel, item, kind, guard, steps)
