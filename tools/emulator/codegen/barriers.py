"""Block barriers: the call that ends a block, and the result read behind it."""

from cuda_llm.tools.emulator.codegen.arithmetic import register, store
from cuda_llm.tools.emulator.codegen.kernel import KernelDraft, Lane, SpellLanes, Step
from cuda_llm.tools.emulator.codegen.values import Reader
from cuda_llm.tools.emulator.ptx.module import Imm, Instruction, Operand


def lower_barrier_result(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower the read of a reducing barrier's result, in the block behind it."""
    target = instruction.operands[0]
    name = register(target)
    reader = Reader(kernel)
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
