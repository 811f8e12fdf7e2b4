"""wgmma: products of a warpgroup, their fence and their groups, as calls of `emu/wgmma.h`."""

from collections.abc import Sequence
from functools import partial

from cuda_llm.tools.emulator.codegen.kernel import Act, KernelDraft, SpellLanes, Step
from cuda_llm.tools.emulator.codegen.memory import fitted
from cuda_llm.tools.emulator.codegen.values import NotSupported
from cuda_llm.tools.emulator.ops.wgmma import GroupProduct, group_product_of
from cuda_llm.tools.emulator.ptx.module import Imm, Instruction, Operand, Reg, Vector

_HELD = 4
"""Registers per lane that hold A."""


def lower_wgmma(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower a wgmma instruction: a product, fence, commit or wait."""
    opcode = instruction.opcode
    if opcode[2:] != ("sync", "aligned"):
        return _product(kernel, instruction)
    match opcode[1]:
        case "fence":
            call = "group_fence(w, {site})"
        case "commit_group":
            call = "group_commit(w, {site})"
        case "wait_group" if isinstance(left := instruction.operands[0], Imm):
            call = f"group_wait(w, {{site}}, {left.value})"
        case _:
            raise NotSupported
    spelled = call.format(site=kernel.site(instruction, "collective"))
    return [Act(lambda array: f"emu::{spelled};")]


def waits_for_all(instruction: Instruction) -> bool:
    """Return whether no product is under way after it."""
    first = instruction.operands[0] if instruction.operands else None
    is_wait = instruction.opcode[:2] == ("wgmma", "wait_group")
    return is_wait and isinstance(first, Imm) and first.value == 0


def results_of(instruction: Instruction) -> tuple[str, ...]:
    """Return the registers of D."""
    return _registers(instruction.operands[0])


def held_of(instruction: Instruction) -> tuple[str, ...]:
    """Return the registers of A; none where it is in shared memory."""
    a = instruction.operands[1]
    return _registers(a) if isinstance(a, Vector) else ()


def _registers(operand: Operand) -> tuple[str, ...]:
    items = operand.items if isinstance(operand, Vector) else ()
    return tuple(item.name for item in items if isinstance(item, Reg))


def _product(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    found = group_product_of(instruction.opcode)
    if found is None or len(instruction.operands) < 4:
        raise NotSupported
    d, first = results_of(instruction), instruction.operands[1]
    if len(d) != found.results or {kernel.bytes(name) for name in d} != {4}:
        raise NotSupported
    steps: list[Step] = []
    in_registers = isinstance(first, Vector)
    if isinstance(first, Vector):
        a = held = tuple(fitted(kernel, item, "b32", None, steps) for item in first.items)
    else:
        a, held = (_descriptor(kernel, first, steps),), ()
    if len(held) not in {0, _HELD}:
        raise NotSupported
    b = _descriptor(kernel, instruction.operands[2], steps)
    adds, adds_register = _scale(kernel, instruction.operands[3], steps)
    flags = _flags(found, instruction.operands[4:], in_registers)
    site = kernel.site(instruction, "wgmma", "shared", 1)
    kinds = ", ".join(f"emu::Element::{kind}" for kind in (found.a, found.b, found.d))
    spelled = ", ".join(str(flag).lower() for flag in (*flags, found.saturates))
    product = f"{{{found.n}, {found.k}, {kinds}, {spelled}}}"
    numbers = ", ".join(str(kernel.number(name)) for name in (*d, *held))

    def call(function: str, array: SpellLanes) -> str:
        held_list = f"const uint32_t* const a[] = {{{', '.join(map(array, a))}}}; "
        operands = "a, nullptr" if in_registers else f"nullptr, {array(a[0])}"
        writer = kernel.unfenced.get(site)
        return (
            f"static constexpr emu::GroupProduct p = {product}; "
            f"static constexpr uint16_t n[] = {{{numbers}}}; "
            f"{held_list if in_registers else ''}"
            f"uint32_t* const d[] = {{{', '.join(map(array, d))}}}; "
            f"emu::{function}(w, {site}, p, {{n, {operands}, {array(b)}, "
            f"{array(adds_register) if adds_register else adds}, d, "
            f"{'emu::kNoWriter' if writer is None else writer}}});"
        )

    reads = (*d, *a, b, *((adds_register,) if adds_register else ()))
    return [
        *steps,
        Act(
            partial(call, "multiply_group"),
            reads=reads,
            writes=d,
            moves=partial(call, "multiply_group_undefined"),
            data=(*d, *held),
        ),
    ]


def _descriptor(kernel: KernelDraft, operand: Operand, steps: list[Step]) -> str:
    if isinstance(operand, Vector):
        raise NotSupported
    return fitted(kernel, operand, "u64", None, steps)


def _scale(kernel: KernelDraft, operand: Operand, steps: list[Step]) -> tuple[str, str | None]:
    """Return whether D is added: C++ of a constant, or the predicate it is in."""
    if isinstance(operand, Imm):
        return ("~emu::Mask{0}" if operand.value else "0"), None
    if isinstance(operand, Reg) and kernel.is_predicate(operand.name):
        return "", operand.name
    raise NotSupported


def _flags(
    found: GroupProduct, operands: Sequence[Operand], in_registers: bool
) -> tuple[bool, bool, bool, bool]:
    """Return whether A and B are negated, and whether they lie across K."""
    values = [operand.value for operand in operands if isinstance(operand, Imm)]
    turns = (1 if in_registers else 2) if found.halves else 0
    if len(values) != len(operands) or len(values) != 2 * found.scales + turns:
        raise NotSupported
    if any(value not in {1, -1} for value in values[: 2 * found.scales]):
        raise NotSupported
    turned = [value == 1 for value in values[2 * found.scales :]]
    across = [False] * (2 - len(turned)) + turned
    negative = [value != 1 for value in values[: 2 * found.scales]] or [False, False]
    return negative[0], negative[1], across[0], across[1]
