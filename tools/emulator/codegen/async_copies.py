"""cp.async: copies from global to shared memory that land at a wait."""

from cuda_llm.tools.emulator.codegen.kernel import KernelDraft
from cuda_llm.tools.emulator.codegen.memory import fitted, pointer
from cuda_llm.tools.emulator.codegen.steps import Act, SpellLanes, Step
from cuda_llm.tools.emulator.codegen.values import NotSupported
from cuda_llm.tools.emulator.ptx.module import Imm, Instruction


def lower_async_copy(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
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
