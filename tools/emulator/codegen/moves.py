"""mov, cvta, isspacep: values that change their place, not their bits."""

from collections.abc import Callable

from cuda_llm.tools.emulator.codegen.arithmetic import register, store, undefined_copy
from cuda_llm.tools.emulator.codegen.kernel import KernelDraft, Lane, Step
from cuda_llm.tools.emulator.codegen.values import NotSupported, OperandReader
from cuda_llm.tools.emulator.ptx.literals import BYTES
from cuda_llm.tools.emulator.ptx.module import Instruction, Operand, Symbol, Vector

_WINDOWS = {
    "shared": "emu::kSharedWindow",
    "local": "emu::kLocalWindow",
    "param": "emu::kParamWindow",
}


def lower_move(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower `mov`, also between a register and the pieces of a vector."""
    target, source = instruction.operands
    kind = instruction.opcode[-1]
    if BYTES.get(kind, 16) > 8:
        raise NotSupported
    reader = OperandReader(kernel)
    if isinstance(target, Vector):
        value = reader.value(source, f"b{8 * BYTES[kind]}")
        results = _unpack(kernel, target, value, kind)
        bits = reader.undefined(source, f"b{8 * BYTES[kind]}")
        undefined = tuple(text for _, text in _unpack(kernel, target, bits, kind))
    elif isinstance(source, Vector):
        results = ((register(target), _pack(kernel, reader.value, target, source, kind)),)
        undefined = (_pack(kernel, reader.undefined, target, source, kind),)
    else:
        value = reader.value(source, kind, negated=1 in instruction.negated)
        results = ((register(target), store(kernel, target, value, kind)),)
        undefined = (undefined_copy(kernel, reader, target, source, kind),)
    return [_lane(instruction, reader, results, undefined)]


def _lane(
    instruction: Instruction,
    reader: OperandReader,
    results: tuple[tuple[str, str], ...],
    undefined: tuple[str, ...] = (),
) -> Lane:
    return Lane(
        results=results,
        reads=tuple(reader.reads),
        guard=instruction.guard,
        uniforms=tuple(reader.uniforms),
        undefined=undefined,
    )


def _unpack(
    kernel: KernelDraft, target: Vector, value: str, kind: str
) -> tuple[tuple[str, str], ...]:
    bits = 8 * BYTES[kind] // len(target.items)
    pieces = [
        (item, f"uint{bits}_t({value} >> {index * bits})")
        for index, item in enumerate(target.items)
    ]
    return tuple(
        (register(item), store(kernel, item, piece, f"b{bits}"))
        for item, piece in pieces
        if item is not None
    )


def _pack(
    kernel: KernelDraft,
    read: Callable[[Operand | None, str], str],
    target: Operand,
    source: Vector,
    kind: str,
) -> str:
    size = 8 * BYTES[kind]
    bits = size // len(source.items)
    pieces = [
        f"uint{size}_t({read(item, f'b{bits}')}) << {index * bits}"
        for index, item in enumerate(source.items)
    ]
    return store(kernel, target, f"uint{size}_t({' | '.join(pieces)})", f"b{size}")


def lower_cvta(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower a conversion between an address of a space and a generic address."""
    target, source = instruction.operands
    inward = instruction.opcode[1] == "to"
    space = instruction.opcode[2 if inward else 1].split("::")[0]
    reader = OperandReader(kernel)
    value = reader.value(source, "u64")
    undefined = undefined_copy(kernel, reader, target, source, "u64")
    if space in _WINDOWS:
        value = f"({value} & ~emu::kWindowMask)" if inward else f"({value} | {_WINDOWS[space]})"
    elif space not in {"global", "const"}:
        raise NotSupported
    result = (register(target), store(kernel, target, value, "u64"))
    return [_lane(instruction, reader, (result,), (undefined,))]


def lower_mapa(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower mapa, a place in another block's shared memory, and getctarank, whose a place is."""
    target, source = instruction.operands[:2]
    kind = (
        "u32" if "u32" in instruction.opcode and "shared::cluster" in instruction.opcode else "u64"
    )
    reader = OperandReader(kernel)
    address = f"uint64_t({reader.value(source, kind)})"
    if instruction.opcode[0] == "mapa":
        rank = reader.value(instruction.operands[2], "u32")
        value, made = f"emu::map_shared({address}, {rank})", kind
    else:
        value, made = f"emu::rank_at(w, {address})", "u32"
    typed = f"{'uint64_t' if made == 'u64' else 'uint32_t'}({value})"
    return [_lane(instruction, reader, ((register(target), store(kernel, target, typed, made)),))]


def lower_policy(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower createpolicy: cache hints change no result."""
    return [Lane(((register(instruction.operands[0]), "0ull"),), (), instruction.guard)]


def lower_isspacep(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower isspacep, the test whether a generic address lies in a space."""
    target, source = instruction.operands
    space = instruction.opcode[1].split("::")[0]
    reader = OperandReader(kernel)
    window = "0"
    if space in _WINDOWS:
        window = _WINDOWS[space]
    elif space != "global" or isinstance(source, Symbol):
        raise NotSupported
    test = f"(({reader.value(source, 'u64')}) & emu::kWindowMask) == {window}"
    return [_lane(instruction, reader, ((register(target), store(kernel, target, test, "pred")),))]
