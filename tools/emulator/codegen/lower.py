"""One PTX instruction to steps: by the rule of its kind, or as a call into the runtime."""

from collections.abc import Callable

from cuda_llm.tools.emulator.codegen.arithmetic import lower_arithmetic
from cuda_llm.tools.emulator.codegen.atomics import lower_atomic
from cuda_llm.tools.emulator.codegen.barriers import lower_barrier_result
from cuda_llm.tools.emulator.codegen.flow import is_collective
from cuda_llm.tools.emulator.codegen.kernel import Act, KernelDraft, Lane, RefusedInstruction, Step
from cuda_llm.tools.emulator.codegen.memory import lower_async_copy, lower_load, lower_store
from cuda_llm.tools.emulator.codegen.moves import lower_cvta, lower_isspacep, lower_move
from cuda_llm.tools.emulator.codegen.tensor_ops import lower_tensor
from cuda_llm.tools.emulator.codegen.values import NotSupported
from cuda_llm.tools.emulator.codegen.warp_ops import lower_collective
from cuda_llm.tools.emulator.ops.tensor import ALIGNED, is_tensor
from cuda_llm.tools.emulator.ptx.module import Instruction, Reg

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
    if is_tensor(opcode) or opcode[0] == ALIGNED:
        rule = lower_tensor
    elif is_collective(opcode):
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
