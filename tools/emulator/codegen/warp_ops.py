"""Operations of a whole warp: shfl, vote, match, redux, elect, bar.warp.sync, activemask."""

from collections.abc import Callable
from typing import TypeAlias

from cuda_llm.tools.emulator.codegen.arithmetic import register
from cuda_llm.tools.emulator.codegen.kernel import (
    Act,
    KernelDraft,
    Lane,
    Origins,
    SpellLanes,
    Step,
)
from cuda_llm.tools.emulator.codegen.memory import apart, fitted
from cuda_llm.tools.emulator.codegen.values import NotSupported, OperandReader
from cuda_llm.tools.emulator.ptx.module import Imm, Instruction, Operand, OperandPair, Reg

WriteCollective: TypeAlias = Callable[[SpellLanes, str, int], str]
"""C++ of an operation, from the array speller, the spelled member masks and the site."""

_SHUFFLES = frozenset({"up", "down", "bfly", "idx"})
_REDUCTIONS = frozenset({"add", "min", "max", "and", "or", "xor"})


def lower_collective(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower a collective of a warp (shfl, vote, match, redux ...) after joining the lanes of its
    member mask."""
    match instruction.opcode[0]:
        case "shfl":
            return _shuffle(kernel, instruction)
        case "vote":
            return _vote(kernel, instruction)
        case "match":
            return _match(kernel, instruction)
        case "redux":
            return _redux(kernel, instruction)
        case "elect":
            return _elect(kernel, instruction)
        case "activemask":
            return _activemask(kernel, instruction)
        case _:
            return _collective(kernel, instruction, instruction.operands[0], [], (), (), None)


def _collective(
    kernel: KernelDraft,
    instruction: Instruction,
    members: Operand,
    steps: list[Step],
    reads: tuple[str, ...],
    writes: tuple[str, ...],
    body: WriteCollective | None,
    moves: WriteCollective | None = None,
    data: tuple[str, ...] = (),
    origins: Origins = "group",
) -> list[Step]:
    """Return `steps`, then the join of `members`, then `body`.

    `moves` does to the undefined bits of the registers `data` what `body` does to their values.
    """
    site = kernel.site(instruction, "collective")
    block = kernel.block
    constant = f"{members.value & 0xFFFFFFFF:#x}u" if isinstance(members, Imm) else None
    mask = None if constant else fitted(kernel, members, "u32", None, steps)
    if mask:
        mask = apart(kernel, mask, data, None, steps)

    def enter(array: SpellLanes) -> str:
        spelled = constant or array(mask or "")
        return f"if (!(m = emu::meet(w, {site}, m, {spelled}, {block}))) return emu::kDispatch;"

    def written(write: WriteCollective) -> Callable[[SpellLanes], str]:
        lanes = f"emu::Same{{{constant}}}" if constant else ""
        return lambda array: write(array, lanes or array(mask or ""), site)

    steps.append(
        Act(
            written(body) if body else lambda array: "",
            reads=(*reads, *([mask] if mask else [])),
            writes=writes,
            narrows=True,
            enter=enter,
            moves=written(moves) if moves else None,
            data=data,
            origins=origins,
            use="collective",
        )
    )
    return steps


def _targets(operand: Operand) -> tuple[str | None, str | None]:
    """Return value and predicate destinations of `d|p`, `d` or `_`."""
    if isinstance(operand, OperandPair):
        first, second = operand.first, operand.second
        return (register(first) if first else None, register(second) if second else None)
    return (operand.name if isinstance(operand, Reg) else None, None)


def _written(*targets: str | None) -> tuple[str, ...]:
    return tuple(target for target in targets if target)


def _spell(kernel: KernelDraft, operand: Operand, steps: list[Step]) -> tuple[str, str | None]:
    """Return a 32-bit operand: C++ of a constant, or the register it is in."""
    if isinstance(operand, Imm):
        return f"emu::Same{{{operand.value & 0xFFFFFFFF:#x}u}}", None
    name = fitted(kernel, operand, "u32", None, steps)
    return "", name


def _mode(instruction: Instruction) -> str:
    """Return what a collective does: CUB writes `vote.ballot.sync` for `vote.sync.ballot`."""
    return next(part for part in instruction.opcode[1:] if part != "sync")


def _shuffle(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    mode = _mode(instruction)
    if mode not in _SHUFFLES or instruction.opcode[-1] != "b32":
        raise NotSupported
    result, predicate = _targets(instruction.operands[0])
    steps: list[Step] = []
    value = fitted(kernel, instruction.operands[1], "b32", None, steps)
    by, by_register = _spell(kernel, instruction.operands[2], steps)
    clamp, clamp_register = _spell(kernel, instruction.operands[3], steps)
    moved = [value, *_written(result)]
    if by_register:
        by_register = apart(kernel, by_register, moved, None, steps)
    if clamp_register:
        clamp_register = apart(kernel, clamp_register, moved, None, steps)

    def body(array: SpellLanes, members: str, site: int) -> str:
        spelled_by = array(by_register) if by_register else by
        spelled_clamp = array(clamp_register) if clamp_register else clamp
        out = array(result) if result else "nullptr"
        call = (
            f"emu::shuffle_{mode}(w, {site}, m, {array(value)}, {spelled_by}, "
            f"{spelled_clamp}, {members}, {out})"
        )
        return f"emu::put({array(predicate)}, m, {call});" if predicate else f"{call};"

    def move(array: SpellLanes, members: str, site: int) -> str:
        spelled_by = array(by_register) if by_register else by
        spelled_clamp = array(clamp_register) if clamp_register else clamp
        return (
            f"emu::shuffle_{mode}(w, {site}, m, {array(value)}, {spelled_by}, "
            f"{spelled_clamp}, {members}, {array(result)});"
            if result
            else ""
        )

    reads = (value, *_written(by_register, clamp_register))
    return _collective(
        kernel,
        instruction,
        instruction.operands[4],
        steps,
        reads,
        _written(result, predicate),
        body,
        move,
        (value, *_written(result)),
        "moved",
    )


def _predicate(kernel: KernelDraft, instruction: Instruction, index: int, steps: list[Step]) -> str:
    """Return the register holding a predicate operand, `!` applied."""
    operand = instruction.operands[index]
    if isinstance(operand, Reg) and index not in instruction.negated:
        return operand.name
    reader = OperandReader(kernel)
    value = reader.value(operand, "pred", negated=index in instruction.negated)
    name = kernel.temporary("pred")
    undefined = (reader.undefined(operand, "pred"),)
    steps.append(Lane(((name, value),), tuple(reader.reads), undefined=undefined))
    return name


def _vote(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    mode = _mode(instruction)
    if mode not in {"all", "any", "uni", "ballot"}:
        raise NotSupported
    target = register(instruction.operands[0])
    steps: list[Step] = []
    source = _predicate(kernel, instruction, 1, steps)

    def body(array: SpellLanes, members: str, site: int) -> str:
        if mode == "ballot":
            return f"emu::ballot(m, {array(source)}, {members}, {array(target)});"
        return f"emu::put({array(target)}, m, emu::vote_{mode}(m, {array(source)}, {members}));"

    def move(array: SpellLanes, members: str, site: int) -> str:
        if mode == "ballot":
            return body(array, members, site)
        return f"emu::put({array(target)}, m, emu::vote_any(m, {array(source)}, {members}));"

    return _collective(
        kernel,
        instruction,
        instruction.operands[2],
        steps,
        (source,),
        (target,),
        body,
        move,
        (source, target),
    )


def _match(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    mode, kind = instruction.opcode[1], instruction.opcode[-1]
    result, predicate = _targets(instruction.operands[0])
    steps: list[Step] = []
    value = fitted(kernel, instruction.operands[1], kind, None, steps)

    def body(array: SpellLanes, members: str, site: int) -> str:
        out = array(result) if result else "nullptr"
        call = f"emu::match_{mode}(m, {array(value)}, {members}, {out})"
        return f"emu::put({array(predicate)}, m, {call});" if predicate else f"{call};"

    return _collective(
        kernel,
        instruction,
        instruction.operands[2],
        steps,
        (value,),
        _written(result, predicate),
        body,
        lambda array, members, site: _spoil(array, value, members, result, predicate),
        (value, *_written(result, predicate)),
    )


def _spoil(
    array: SpellLanes, value: str, members: str, result: str | None, predicate: str | None
) -> str:
    """Return C++ that makes a result undefined where a value of the group is."""
    call = f"emu::spoil(m, {array(value)}, {members}, {array(result) if result else 'nullptr'})"
    return f"emu::put({array(predicate)}, m, {call});" if predicate else f"{call};"


def _redux(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    operation, kind = instruction.opcode[2], instruction.opcode[-1]
    if operation not in _REDUCTIONS or kind not in {"b32", "u32", "s32"}:
        raise NotSupported
    target = register(instruction.operands[0])
    steps: list[Step] = []
    value = fitted(kernel, instruction.operands[1], kind, None, steps)
    c_type = "int32_t" if kind == "s32" else "uint32_t"

    def body(array: SpellLanes, members: str, site: int) -> str:
        return (
            f"emu::redux<{c_type}, emu::Combine::{operation}_>"
            f"(m, {array(value)}, {members}, {array(target)});"
        )

    return _collective(
        kernel,
        instruction,
        instruction.operands[2],
        steps,
        (value,),
        (target,),
        body,
        lambda array, members, site: _spoil(array, value, members, target, None),
        (value, target),
    )


def _elect(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    result, predicate = _targets(instruction.operands[0])

    def body(array: SpellLanes, members: str, site: int) -> str:
        out = array(result) if result else "nullptr"
        call = f"emu::elect(m, {members}, {out})"
        return f"emu::put({array(predicate)}, m, {call});" if predicate else f"{call};"

    return _collective(
        kernel,
        instruction,
        instruction.operands[1],
        [],
        (),
        _written(result, predicate),
        body,
    )


def _activemask(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Return the lanes that execute it together, which may be fewer than those that came."""
    target = register(instruction.operands[0])
    block = kernel.block
    return [
        Act(
            lambda array: f"m = emu::together(w, m, {block}); emu::fill({array(target)}, m, m);",
            writes=(target,),
            narrows=True,
        )
    ]


def lower_set_registers(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower setmaxnreg, which changes no result; a count that no warp can have is refused."""
    count = instruction.operands[0]
    if not isinstance(count, Imm) or count.value % 8 or not 24 <= count.value <= 256:
        raise NotSupported
    return []
