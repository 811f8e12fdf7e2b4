"""One PTX instruction to steps."""

from collections.abc import Callable

from cuda_llm.tools.emulator.codegen.arithmetic import lower_arithmetic
from cuda_llm.tools.emulator.codegen.async_copies import lower_async_copy
from cuda_llm.tools.emulator.codegen.atomics import lower_atomic
from cuda_llm.tools.emulator.codegen.barriers import lower_barrier_result
from cuda_llm.tools.emulator.codegen.device_calls import lower_call, lower_trap
from cuda_llm.tools.emulator.codegen.flow import is_collective
from cuda_llm.tools.emulator.codegen.kernel import KernelDraft
from cuda_llm.tools.emulator.codegen.memory import lower_load, lower_store
from cuda_llm.tools.emulator.codegen.moves import lower_cvta, lower_isspacep, lower_move
from cuda_llm.tools.emulator.codegen.steps import Act, RefusedInstruction, Step
from cuda_llm.tools.emulator.codegen.values import NotSupported
from cuda_llm.tools.emulator.codegen.warp_ops import lower_collective
from cuda_llm.tools.emulator.ptx.module import Instruction

LoweringRule = Callable[[KernelDraft, Instruction], list[Step]]


def _nothing(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower to no steps: hints change no result."""
    return []


def _fence(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower a fence, which matters to the search for races alone."""
    block_scope = str("cta" in instruction.opcode).lower()
    code = f"if (w->watched) emu::fence(w, q, {block_scope});"
    return [Act(lambda array: code, guard=instruction.guard)]


def _yield(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    return [Act(lambda array: "w->fuel = 0;", guard=instruction.guard)]


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
    "call": lower_call,
    "trap": lower_trap,
    "brkpt": lower_trap,
    "fence": _fence,
    "membar": _fence,
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
    if is_collective(opcode):
        rule = lower_collective
    elif opcode[:2] == ("cp", "async"):
        rule = lower_async_copy
    elif opcode[:2] == ("fence", "proxy"):
        return RefusedInstruction(instruction.spelling)
    sites = len(kernel.sites)
    try:
        return rule(kernel, instruction)
    except NotSupported:
        del kernel.sites[sites:]
        return RefusedInstruction(instruction.spelling)
