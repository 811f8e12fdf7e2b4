"""One PTX instruction to steps: by the rule of its kind, or as a call into the runtime."""

from collections.abc import Callable

from cuda_llm.tools.emulator.codegen.arithmetic import lower_arithmetic, register
from cuda_llm.tools.emulator.codegen.atomics import lower_atomic
from cuda_llm.tools.emulator.codegen.barriers import (
    lower_async_arrive,
    lower_barrier_result,
    lower_cluster_barrier,
    lower_mbarrier,
)
from cuda_llm.tools.emulator.codegen.bulk_copies import (
    lower_async_copy,
    lower_async_store,
    lower_bulk_copy,
)
from cuda_llm.tools.emulator.codegen.flow import is_collective
from cuda_llm.tools.emulator.codegen.kernel import Act, KernelDraft, Lane, RefusedInstruction, Step
from cuda_llm.tools.emulator.codegen.memory import lower_load, lower_store
from cuda_llm.tools.emulator.codegen.moves import (
    lower_cvta,
    lower_isspacep,
    lower_mapa,
    lower_move,
)
from cuda_llm.tools.emulator.codegen.values import NotSupported
from cuda_llm.tools.emulator.codegen.warp_ops import lower_collective
from cuda_llm.tools.emulator.ptx.module import Imm, Instruction, Reg

LoweringRule = Callable[[KernelDraft, Instruction], list[Step]]


def _nothing(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower to no steps: hints change no result."""
    return []


def _fence(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower a fence, which matters to the search for races alone."""
    opcode = instruction.opcode
    if opcode[:2] == ("fence", "proxy"):
        if opcode[2] not in {"async", "async::generic", "alias"}:
            raise NotSupported
        code = "emu::fence_for_copies(w, q);"
        return [Act(lambda array: code, guard=instruction.guard)]
    block_scope = str("cta" in instruction.opcode).lower()
    code = f"if (w->watched) emu::fence(w, q, {block_scope});"
    return [Act(lambda array: code, guard=instruction.guard)]


def _yield(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    return [Act(lambda array: "emu::sleep(w);", guard=instruction.guard)]


def _call(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower a call that was not inlined: printf and assert; others are refused."""
    name = ".".join(instruction.opcode[1:])
    if name == "vprintf":
        return _print(kernel, instruction)
    if name == "__assertfail":
        return _assert(kernel, instruction)
    raise NotSupported


def _print(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    if len(instruction.operands) != 3:
        raise NotSupported
    result, text, arguments = instruction.operands
    if not (isinstance(result, Reg) and isinstance(text, Reg) and isinstance(arguments, Reg)):
        raise NotSupported
    formats, values = text.name, arguments.name
    site = kernel.site(instruction, "print")
    return [
        Act(
            lambda array: f"emu::print(w, {site}, q, {array(formats)}, {array(values)});",
            reads=(formats, values),
            guard=instruction.guard,
        ),
        *(
            [Lane(((result.name, "0u"),), (), instruction.guard)]
            if result.name in kernel.registers
            else []
        ),
    ]


def _assert(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower `__assertfail(message, file, line, function, size of a character)`."""
    texts = [operand.name for operand in instruction.operands[:3] if isinstance(operand, Reg)]
    if len(texts) != 3:
        raise NotSupported
    site = kernel.site(instruction, "trap")
    return [
        Act(
            lambda array: f"emu::assert_failed(w, {site}, q, {', '.join(map(array, texts))});",
            reads=tuple(texts),
            guard=instruction.guard,
        )
    ]


def _trap(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower trap and brkpt."""
    site = kernel.site(instruction, "trap")
    what = instruction.opcode[0]
    return [Act(lambda array: f'emu::trap(w, {site}, q, "{what}");', guard=instruction.guard)]


def _set_registers(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower setmaxnreg, which changes no result; ptxas checks how many registers it asks for."""
    count = instruction.operands[0]
    if not isinstance(count, Imm) or count.value % 8 or not 24 <= count.value <= 256:
        raise NotSupported
    return []


def _policy(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower createpolicy: what a hint is made of changes nothing."""
    target = register(instruction.operands[0])
    return [Lane(((target, "0ull"),), (), instruction.guard)]


_RULES: dict[str, LoweringRule] = {
    "ld": lower_load,
    "ldu": lower_load,
    "st": lower_store,
    "atom": lower_atomic,
    "red": lower_atomic,
    "mov": lower_move,
    "cvta": lower_cvta,
    "isspacep": lower_isspacep,
    "barrier_result": lower_barrier_result,
    "call": _call,
    "trap": _trap,
    "brkpt": _trap,
    "fence": _fence,
    "membar": _fence,
    "mbarrier": lower_mbarrier,
    "mapa": lower_mapa,
    "getctarank": lower_mapa,
    "setmaxnreg": _set_registers,
    "createpolicy": _policy,
    "prefetch": _nothing,
    "prefetchu": _nothing,
    "applypriority": _nothing,
    "discard": _nothing,
    "pmevent": _nothing,
    # Without a dependent launch there is nothing to wait for.
    "griddepcontrol": _nothing,
    "nanosleep": _yield,
}


def lower(kernel: KernelDraft, instruction: Instruction) -> list[Step] | RefusedInstruction:
    """Return the steps of one instruction of a block's body."""
    opcode = instruction.opcode
    rule = _RULES.get(opcode[0], lower_arithmetic)
    if opcode[:2] == ("barrier", "cluster"):
        rule = lower_cluster_barrier
    elif is_collective(opcode):
        rule = lower_collective
    elif opcode[:3] == ("cp", "async", "mbarrier"):
        rule = lower_async_arrive
    elif opcode[0] == "cp":
        rule = lower_bulk_copy if "bulk" in opcode else lower_async_copy
    elif opcode[:2] in {("st", "async"), ("red", "async")}:
        rule = lower_async_store
    sites = len(kernel.sites)
    try:
        return rule(kernel, instruction)
    except NotSupported:
        del kernel.sites[sites:]
        return RefusedInstruction(instruction.spelling)
