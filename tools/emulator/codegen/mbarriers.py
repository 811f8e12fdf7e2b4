"""mbarriers in shared memory, and the barrier of a cluster."""

from cuda_llm.tools.emulator.codegen.arithmetic import register, store
from cuda_llm.tools.emulator.codegen.kernel import Act, KernelDraft, Lane, SpellLanes, Step
from cuda_llm.tools.emulator.codegen.memory import fitted, shared_address
from cuda_llm.tools.emulator.codegen.values import NotSupported, OperandReader
from cuda_llm.tools.emulator.ptx.module import Address, Instruction, Vector

_MBARRIER_WORDS = frozenset(
    {
        *("b64", "shared", "shared::cta", "shared::cluster", "cta", "cluster"),
        *("acquire", "release", "relaxed", "expect_tx", "noComplete", "parity"),
    }
)


def lower_mbarrier(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower an operation of an mbarrier."""
    opcode = instruction.opcode
    operation = opcode[1]
    if not _MBARRIER_WORDS.issuperset(opcode[2:]):
        raise NotSupported
    operands = instruction.operands
    if operation == "pending_count":
        return _pending_count(kernel, instruction)
    if operation in {"test_wait", "try_wait"}:
        return _wait(kernel, instruction)
    if operation in {"arrive", "arrive_drop"}:
        return _arrive(kernel, instruction)
    functions = {
        "init": "mbarrier_init",
        "inval": "mbarrier_inval",
        "expect_tx": "mbarrier_expect",
        "complete_tx": "mbarrier_complete",
    }
    if operation not in functions:
        raise NotSupported
    steps: list[Step] = []
    guard = instruction.guard
    reads = [shared_address(kernel, operands[0], guard, steps)]
    if operation != "inval":
        reads.append(fitted(kernel, operands[1], "u32", guard, steps))
    site = kernel.site(instruction, "barrier")

    def code(array: SpellLanes) -> str:
        return f"emu::{functions[operation]}(w, {site}, q, {', '.join(map(array, reads))});"

    return [*steps, Act(code, reads=tuple(reads), guard=guard)]


def _pending_count(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    target, state = instruction.operands
    reader = OperandReader(kernel)
    value = f"emu::pending_count({reader.value(state, 'b64')})"
    result = (register(target), store(kernel, target, value, "u32"))
    return [Lane((result,), tuple(reader.reads), instruction.guard, tuple(reader.uniforms))]


def _wait(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower test_wait and try_wait; how long the latter may suspend the thread changes nothing."""
    opcode = instruction.opcode
    target, address, phase = instruction.operands[:3]
    guard = instruction.guard
    steps: list[Step] = []
    at = shared_address(kernel, address, guard, steps)
    by_parity = "parity" in opcode
    asked = fitted(kernel, phase, "u32" if by_parity else "b64", guard, steps)
    result = register(target)
    relaxed = str("relaxed" in opcode).lower()
    site = kernel.site(instruction, "barrier")

    def code(array: SpellLanes) -> str:
        given = f"nullptr, {array(asked)}" if by_parity else f"{array(asked)}, nullptr"
        call = f"emu::mbarrier_wait(w, {site}, q, {array(at)}, {given}, {relaxed})"
        return f"emu::put({array(result)}, q, {call});"

    return [*steps, Act(code, reads=(at, asked), writes=(result,), guard=guard)]


def _arrive(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    opcode = instruction.opcode
    operands = list(instruction.operands)
    # An arrival at another block's mbarrier returns no state, and needs no destination.
    state = None if isinstance(operands[0], Address) else operands.pop(0)
    is_kept = not (state is None or (isinstance(state, Vector) and state.items == (None,)))
    kept = register(state) if is_kept and state is not None else None
    guard = instruction.guard
    steps: list[Step] = []
    at = shared_address(kernel, operands[0], guard, steps)
    count = fitted(kernel, operands[1], "u32", guard, steps) if len(operands) > 1 else None
    flags = {
        "kArriveDrop": opcode[1] == "arrive_drop",
        "kArriveExpect": "expect_tx" in opcode,
        "kArriveNoComplete": "noComplete" in opcode,
        "kArriveRelaxed": "relaxed" in opcode,
    }
    spelled = " | ".join(f"emu::{name}" for name, is_set in flags.items() if is_set) or "0"
    site = kernel.site(instruction, "barrier")

    def code(array: SpellLanes) -> str:
        number = array(count) if count else "nullptr"
        result = array(kept) if kept else "nullptr"
        return f"emu::mbarrier_arrive(w, {site}, q, {array(at)}, {number}, {spelled}, {result});"

    reads = (at, *([count] if count else []))
    return [*steps, Act(code, reads=reads, writes=(kept,) if kept else (), guard=guard)]


def lower_async_arrive(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower cp.async.mbarrier.arrive, with or without `.noinc`."""
    steps: list[Step] = []
    at = shared_address(kernel, instruction.operands[0], instruction.guard, steps)
    counted = str("noinc" in instruction.opcode).lower()
    site = kernel.site(instruction, "barrier")

    def code(array: SpellLanes) -> str:
        return f"emu::async_arrive(w, {site}, q, {array(at)}, {counted});"

    return [*steps, Act(code, reads=(at,), guard=instruction.guard)]


def lower_cluster_barrier(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower barrier.cluster.arrive, and its wait, which stands first in its basic block."""
    relaxed = str("relaxed" in instruction.opcode).lower()
    site = kernel.site(instruction, "barrier")
    if "arrive" in instruction.opcode:
        call = f"emu::cluster_arrive(w, {site}, q, {relaxed});"
        return [Act(lambda array: call, guard=instruction.guard)]
    wait = f"m = emu::cluster_wait(w, {site}, m, {relaxed}, {kernel.block});"
    return [Act(lambda array: f"{wait} if (!m) return emu::kYield;", narrows=True)]
