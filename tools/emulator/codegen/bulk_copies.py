"""Copies beside the warps: cp.async, cp.async.bulk with its tiles and reductions, st.async."""

from collections.abc import Sequence

from cuda_llm.tools.emulator.codegen.atomics import OPERATIONS
from cuda_llm.tools.emulator.codegen.kernel import Act, KernelDraft, SpellLanes, Step
from cuda_llm.tools.emulator.codegen.mbarriers import lower_async_arrive
from cuda_llm.tools.emulator.codegen.memory import fitted, pointer, shared_address
from cuda_llm.tools.emulator.codegen.values import NotSupported
from cuda_llm.tools.emulator.ptx.literals import BYTES
from cuda_llm.tools.emulator.ptx.module import Address, Imm, Instruction, Operand, Vector

_TO_SHARED = ("shared::cluster", "global")
_TO_OWN = ("shared::cta", "global")
_TO_CLUSTER = ("shared::cluster", "shared::cta")
_TO_GLOBAL = ("global", "shared::cta")
_HINTS = frozenset({"L2::cache_hint", "noftz"})
_TRANSACTION = "mbarrier::complete_tx::bytes"
_REDUCTIONS = frozenset({"add", "min", "max", "inc", "dec", "and", "or", "xor"})
_ELEMENTS = frozenset({"u32", "s32", "u64", "s64", "b32", "b64", "f16", "bf16", "f32", "f64"})
_RANKS = {f"{rank}d": rank for rank in range(1, 6)}


def _async_copy(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower the copy itself, and the instructions that group and await copies."""
    opcode = instruction.opcode
    operands = instruction.operands
    guard = instruction.guard
    if opcode[2:] == ("commit_group",):
        return [Act(lambda array: "emu::async_commit(w, q);", guard=guard)]
    if opcode[2:] == ("wait_all",):
        return [Act(lambda array: "emu::async_wait_all(w, q);", guard=guard)]
    if opcode[2:] == ("wait_group",) and isinstance(operands[0], Imm):
        groups = operands[0].value
        return [Act(lambda array: f"emu::async_wait(w, q, {groups});", guard=guard)]
    if opcode[2] not in {"ca", "cg"} or not isinstance(operands[2], Imm):
        raise NotSupported
    if "shared::cluster" in opcode:
        raise NotSupported
    steps: list[Step] = []
    to = pointer(kernel, operands[0], "shared", guard, steps)
    source = pointer(kernel, operands[1], "global", guard, steps)
    size = operands[2].value
    # A fourth operand is the bytes to read, unless it is the cache policy.
    hint = any("cache_hint" in part for part in opcode)
    counted = len(operands) > (4 if hint else 3)
    some = fitted(kernel, operands[3], "u32", guard, steps) if counted else None
    site = kernel.site(instruction, "async_copy", "global", size)

    def code(array: SpellLanes) -> str:
        count = array(some) if some else "nullptr"
        return (
            f"emu::async_copy(w, {site}, q, {array(to.register)}, {to.offset}, "
            f"{array(source.register)}, {source.offset}, {size}, {count});"
        )

    reads = (to.register, source.register, *([some] if some else []))
    steps.append(Act(code, reads=reads, guard=guard))
    return steps


def lower_copy(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower what begins with `cp`."""
    if instruction.opcode[:3] == ("cp", "async", "mbarrier"):
        return lower_async_arrive(kernel, instruction)
    rule = _bulk_copy if "bulk" in instruction.opcode else _async_copy
    return rule(kernel, instruction)


def _bulk_copy(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower `cp.async.bulk` and `cp.reduce.async.bulk`, whole runs and tiles, and their groups."""
    opcode = instruction.opcode
    parts = opcode[opcode.index("bulk") + 1 :]
    guard = instruction.guard
    match parts:
        case ("commit_group",):
            return [Act(lambda array: "emu::bulk_commit(w, q);", guard=guard)]
        case ("wait_group", *read) if isinstance(instruction.operands[0], Imm):
            groups = instruction.operands[0].value
            only_read = str(bool(read)).lower()
            return [Act(lambda array: f"emu::bulk_wait(w, q, {groups}, {only_read});", guard=guard)]
        case ("prefetch", *_) if not {"im2col", "im2col::w", "im2col::w::128"} & set(parts):
            return []
        case ("tensor", rank, to, source, *rest) if rank in _RANKS:
            return _tile(kernel, instruction, _RANKS[rank], (to, source), rest)
        case (to, source, *rest):
            return _run(kernel, instruction, (to, source), rest)
    raise NotSupported


def _reduction(instruction: Instruction, parts: list[str], element: str = "") -> str:
    """Return the C++ of a bulk copy's reduction, removing its words from `parts`."""
    if instruction.opcode[1] != "reduce":
        return "{}"
    operation = next((part for part in parts if part in _REDUCTIONS), None)
    if operation is None:
        raise NotSupported
    parts.remove(operation)
    if not element:
        element = parts.pop()
        if element not in _ELEMENTS:
            raise NotSupported
    name = OPERATIONS[operation]
    return f"{{true, emu::AtomOp::{name}, emu::AtomType::{element}}}"


def _run(
    kernel: KernelDraft, instruction: Instruction, way: tuple[str, str], rest: Sequence[str]
) -> list[Step]:
    """Lower a copy of consecutive bytes."""
    parts = [part for part in rest if part not in _HINTS]
    reduction = _reduction(instruction, parts)
    operands = instruction.operands
    guard = instruction.guard
    steps: list[Step] = []
    size = fitted(kernel, operands[2], "u32", guard, steps)
    if way == _TO_GLOBAL and parts == ["bulk_group"]:
        target = _global(kernel, operands[0], instruction, steps)
        source = shared_address(kernel, operands[1], guard, steps)
        arguments: tuple[str, ...] = (target, source, size)
        return _act(kernel, instruction, steps, "bulk_store", arguments, f", {reduction}")
    multicast = "multicast::cluster" in parts
    if [part for part in parts if part != "multicast::cluster"] != [_TRANSACTION]:
        raise NotSupported
    target = shared_address(kernel, operands[0], guard, steps)
    barrier = shared_address(kernel, operands[3], guard, steps)
    if way == _TO_CLUSTER and not multicast:
        source = shared_address(kernel, operands[1], guard, steps)
        arguments = (target, source, size, barrier)
        return _act(kernel, instruction, steps, "bulk_send", arguments, f", {reduction}")
    if way not in {_TO_SHARED, _TO_OWN} or reduction != "{}":
        raise NotSupported
    source = _global(kernel, operands[1], instruction, steps)
    arguments = (target, source, size, barrier)
    if multicast:
        arguments = (*arguments, fitted(kernel, operands[4], "u32", guard, steps))
    return _act(
        kernel, instruction, steps, "bulk_load", arguments, "" if multicast else ", nullptr"
    )


def _tile(
    kernel: KernelDraft,
    instruction: Instruction,
    rank: int,
    way: tuple[str, str],
    rest: Sequence[str],
) -> list[Step]:
    """Lower a copy of a tile that a tensor map describes."""
    parts = [part for part in rest if part not in _HINTS and part != "tile"]
    # The tensor map holds the type of the elements.
    reduction = _reduction(instruction, parts, "f32")
    guard = instruction.guard
    operands = instruction.operands
    loads = way in {_TO_SHARED, _TO_OWN}
    tensor = operands[1 if loads else 0]
    if not isinstance(tensor, Address) or len(tensor.coordinates) != rank:
        raise NotSupported
    steps: list[Step] = []
    table = _global(kernel, tensor, instruction, steps)
    at = [fitted(kernel, one, "u32", guard, steps) for one in tensor.coordinates]
    if way == _TO_GLOBAL and parts == ["bulk_group"]:
        source = shared_address(kernel, operands[1], guard, steps)
        return _tile_act(
            kernel, instruction, steps, "tensor_store", (table,), at, (source,), reduction
        )
    multicast = "multicast::cluster" in parts
    others = [part for part in parts if part != "multicast::cluster"]
    if not loads or others != [_TRANSACTION] or reduction != "{}":
        raise NotSupported
    target = shared_address(kernel, operands[0], guard, steps)
    after = [shared_address(kernel, operands[2], guard, steps)]
    if multicast:
        after.append(fitted(kernel, operands[3], "u32", guard, steps))
    last = "" if multicast else "nullptr"
    return _tile_act(kernel, instruction, steps, "tensor_load", (target, table), at, after, last)


def _global(
    kernel: KernelDraft, operand: Operand, instruction: Instruction, steps: list[Step]
) -> str:
    """Return a register with an address of global memory, its offset added."""
    if not isinstance(operand, Address) or operand.offset:
        raise NotSupported
    return pointer(kernel, Address(operand.base), "global", instruction.guard, steps).register


def _act(
    kernel: KernelDraft,
    instruction: Instruction,
    steps: list[Step],
    function: str,
    arguments: Sequence[str],
    more: str,
) -> list[Step]:
    kind = "bulk_store" if function == "bulk_store" else "bulk_load"
    space = "shared" if function == "bulk_send" else "global"
    site = kernel.site(instruction, kind, space, 1)

    def code(array: SpellLanes) -> str:
        spelled = ", ".join(map(array, arguments))
        return f"emu::{function}(w, {site}, q, {spelled}{more});"

    return [*steps, Act(code, reads=tuple(arguments), guard=instruction.guard)]


def _tile_act(
    kernel: KernelDraft,
    instruction: Instruction,
    steps: list[Step],
    function: str,
    before: Sequence[str],
    at: Sequence[str],
    after: Sequence[str],
    last: str,
) -> list[Step]:
    kind = "bulk_store" if function == "tensor_store" else "bulk_load"
    site = kernel.site(instruction, kind, "global", 1)

    def code(array: SpellLanes) -> str:
        places = ", ".join(map(array, at))
        spelled = [*map(array, before), str(len(at)), "at", *map(array, after)]
        arguments = ", ".join([*spelled, *([last] if last else [])])
        return f"const uint32_t* at[] = {{{places}}}; emu::{function}(w, {site}, q, {arguments});"

    reads = (*before, *at, *after)
    return [*steps, Act(code, reads=reads, guard=instruction.guard)]


def lower_async_store(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower `st.async` and `red.async`: values for a block of the cluster and its mbarrier."""
    opcode = instruction.opcode
    if _TRANSACTION not in opcode or "shared::cluster" not in opcode:
        raise NotSupported
    kind = opcode[-1]
    if BYTES.get(kind, 16) not in {4, 8}:
        raise NotSupported
    guard = instruction.guard
    steps: list[Step] = []
    target = shared_address(kernel, instruction.operands[0], guard, steps)
    source = instruction.operands[1]
    items = source.items if isinstance(source, Vector) else (source,)
    values = [fitted(kernel, item, kind, guard, steps) for item in items]
    barrier = shared_address(kernel, instruction.operands[2], guard, steps)
    reduction = "{}"
    if opcode[0] == "red":
        operation = next((part for part in opcode if part in _REDUCTIONS), None)
        if operation is None:
            raise NotSupported
        reduction = f"{{true, emu::AtomOp::{OPERATIONS[operation]}, emu::AtomType::{kind}}}"
    site = kernel.site(instruction, "bulk_load", "shared", 1)

    def code(array: SpellLanes) -> str:
        return (
            f"const void* values[] = {{{', '.join(map(array, values))}}}; "
            f"emu::send_values(w, {site}, q, {array(target)}, {array(barrier)}, "
            f"{BYTES[kind]}, {len(values)}, values, {reduction});"
        )

    return [*steps, Act(code, reads=(target, barrier, *values), guard=guard)]


def lower_proxy_fence(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower the fence between plain accesses and those of bulk copies."""
    if instruction.opcode[2] not in {"async", "async::generic", "alias"}:
        raise NotSupported
    return [Act(lambda array: "emu::fence_for_copies(w, q);", guard=instruction.guard)]
