"""Lowers a PTX instruction to steps, by the rule of its kind or as a call into the runtime."""

from collections.abc import Callable
from dataclasses import replace

from cuda_llm.tools.emulator.codegen import moves
from cuda_llm.tools.emulator.codegen.arithmetic import lower_arithmetic
from cuda_llm.tools.emulator.codegen.atomics import lower_atomic, lower_barrier_result
from cuda_llm.tools.emulator.codegen.bulk_copies import (
    lower_async_store,
    lower_copy,
    lower_proxy_fence,
)
from cuda_llm.tools.emulator.codegen.flow import is_collective
from cuda_llm.tools.emulator.codegen.kernel import (
    Act,
    KernelDraft,
    Lane,
    RefusedInstruction,
    SpellLanes,
    Step,
)
from cuda_llm.tools.emulator.codegen.liveness import step_reads
from cuda_llm.tools.emulator.codegen.mbarriers import lower_cluster_barrier, lower_mbarrier
from cuda_llm.tools.emulator.codegen.memory import fitted, lower_load, lower_store
from cuda_llm.tools.emulator.codegen.tensor_ops import lower_tensor
from cuda_llm.tools.emulator.codegen.values import NotSupported
from cuda_llm.tools.emulator.codegen.warp_ops import lower_collective, lower_set_registers
from cuda_llm.tools.emulator.codegen.wgmma_ops import lower_wgmma
from cuda_llm.tools.emulator.ops.tensor import ALIGNED, is_tensor
from cuda_llm.tools.emulator.ptx.module import Imm, Instruction, Reg

LoweringRule = Callable[[KernelDraft, Instruction], list[Step]]


def _nothing(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower to no steps: hints change no result."""
    return []


def _fence(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower a fence, which matters to the search for races alone."""
    code = f"if (w->watched) emu::fence(w, q, {str('cta' in instruction.opcode).lower()});"
    return [Act(lambda array: code, guard=instruction.guard)]


def _yield(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    return [Act(lambda array: "emu::sleep(w);", guard=instruction.guard)]


def _call(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower what inlining left of a call: the choice of a function, and what the runtime provides
    (printf, assert, malloc, free); others are refused."""
    name = ".".join(instruction.opcode[1:])
    if name == "choose":
        return _choose(kernel, instruction)
    if name == "recursive.indirect":
        code = f"emu::refuse_recursion(w, {kernel.site(instruction, 'call')}, q);"
        return [Act(lambda array: code, guard=instruction.guard)]
    if name in {"malloc", "free"}:
        return _allocate(kernel, instruction)
    if name == "vprintf":
        return _print(kernel, instruction)
    if name == "__assertfail":
        return _assert(kernel, instruction)
    raise NotSupported


def _choose(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower `call.choose number, pointer, addresses...`: which of the addresses the pointer is."""
    number, pointer, *addresses = instruction.operands
    assert isinstance(number, Reg)
    assert isinstance(pointer, Reg)
    site = kernel.site(instruction, "call")
    known = ", ".join(f"{one.value:#x}" for one in addresses if isinstance(one, Imm))

    def code(array: SpellLanes) -> str:
        places = f"static constexpr uint64_t known[] = {{{known or 0}}};"
        call = f"emu::choose_function(w, {site}, q, {array(pointer.name)}, known, {len(addresses)}"
        return f"{places} {call}, {array(number.name)});"

    reads, writes = (pointer.name,), (number.name,)
    return [Act(code, reads=reads, writes=writes, guard=instruction.guard, use="branch")]


def _allocate(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower `call.malloc address, bytes` and `call.free address`."""
    *results, given = instruction.operands
    name = instruction.opcode[1]
    if len(results) != (name == "malloc") or not isinstance(given, Reg):
        raise NotSupported
    steps: list[Step] = []
    value = fitted(kernel, given, "u64", instruction.guard, steps)
    site = kernel.site(instruction, "call")
    writes = tuple(one.name for one in results if isinstance(one, Reg))
    for register in writes:
        kernel.registers.setdefault(register, "u64")

    def code(array: SpellLanes) -> str:
        places = "".join(f", {array(register)}" for register in (value, *writes))
        return f"emu::heap_{name}(w, {site}, q{places});"

    steps.append(Act(code, reads=(value,), writes=writes, guard=instruction.guard))
    return steps


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
    code = f'emu::trap(w, {kernel.site(instruction, "trap")}, q, "{instruction.opcode[0]}");'
    return [Act(lambda array: code, guard=instruction.guard)]


_RULES: dict[str, LoweringRule] = {
    "ld": lower_load,
    "ldu": lower_load,
    "st": lower_store,
    "atom": lower_atomic,
    "red": lower_atomic,
    "mov": moves.lower_move,
    "cvta": moves.lower_cvta,
    "isspacep": moves.lower_isspacep,
    "barrier_result": lower_barrier_result,
    "call": _call,
    "trap": _trap,
    "brkpt": _trap,
    "fence": _fence,
    "membar": _fence,
    "cp": lower_copy,
    "mbarrier": lower_mbarrier,
    "mapa": moves.lower_mapa,
    "getctarank": moves.lower_mapa,
    "setmaxnreg": lower_set_registers,
    "createpolicy": moves.lower_policy,
    "prefetch": _nothing,
    "prefetchu": _nothing,
    "applypriority": _nothing,
    "discard": _nothing,
    "pmevent": _nothing,
    "griddepcontrol": _nothing,
    "nanosleep": _yield,
}


def lower(kernel: KernelDraft, instruction: Instruction) -> list[Step] | RefusedInstruction:
    """Return the steps of an instruction, or a RefusedInstruction where the emulated device lacks
    it."""
    opcode = instruction.opcode
    rule = _RULES.get(opcode[0], lower_arithmetic)
    if opcode[0] == "wgmma":
        rule = lower_wgmma
    elif is_tensor(opcode) or opcode[0] == ALIGNED:
        rule = lower_tensor
    elif opcode[:2] == ("barrier", "cluster"):
        rule = lower_cluster_barrier
    elif is_collective(opcode):
        rule = lower_collective
    elif opcode[:2] == ("fence", "proxy"):
        rule = lower_proxy_fence
    elif opcode[:2] in {("st", "async"), ("red", "async")}:
        rule = lower_async_store
    sites = len(kernel.sites)
    try:
        steps = rule(kernel, instruction)
    except NotSupported:
        del kernel.sites[sites:]
        return RefusedInstruction(instruction.spelling)
    return _placed(kernel, instruction, steps, sites) if kernel.tracks else steps


def _placed(
    kernel: KernelDraft, instruction: Instruction, steps: list[Step], first: int
) -> list[Step]:
    """Return the steps with the site at which an act finds an undefined value."""
    if not any(isinstance(step, Act) and step_reads(step) for step in steps):
        return steps
    if len(kernel.sites) == first:
        kernel.site(instruction, "use")
    site = len(kernel.sites) - 1
    return [replace(step, site=site) if isinstance(step, Act) else step for step in steps]
