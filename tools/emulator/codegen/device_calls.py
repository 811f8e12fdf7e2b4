"""Lowers calls that the runtime implements, and traps."""

from cuda_llm.tools.emulator.codegen.kernel import KernelDraft
from cuda_llm.tools.emulator.codegen.steps import Act, Lane, Step
from cuda_llm.tools.emulator.codegen.values import NotSupported
from cuda_llm.tools.emulator.ptx.module import Instruction, Reg


def lower_call(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
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


def lower_trap(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower trap and brkpt."""
    site = kernel.site(instruction, "trap")
    what = instruction.opcode[0]
    return [Act(lambda array: f'emu::trap(w, {site}, q, "{what}");', guard=instruction.guard)]
