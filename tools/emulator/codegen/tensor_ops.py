"""Tensor cores: mma, wmma, ldmatrix, stmatrix, movmatrix, as calls of `emu/tensor.h`."""

from collections.abc import Callable

from cuda_llm.tools.emulator.codegen.arithmetic import register
from cuda_llm.tools.emulator.codegen.kernel import Act, KernelDraft, SpellLanes, Step
from cuda_llm.tools.emulator.codegen.memory import apart, fitted, pointer, space_of
from cuda_llm.tools.emulator.codegen.values import NotSupported
from cuda_llm.tools.emulator.ops.tensor import ALIGNED, Tile, held, is_product, product_of, tile_of
from cuda_llm.tools.emulator.ptx.literals import BYTES
from cuda_llm.tools.emulator.ptx.module import Imm, Instruction, Operand, Vector


def lower_tensor(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower an mma, wmma, ldmatrix, stmatrix or movmatrix instruction, or the synchronisation of
    the warp before it."""
    opcode = instruction.opcode
    if opcode[0] == ALIGNED:
        return [_whole_warp(kernel, instruction)]
    if is_product(opcode):
        return _product(kernel, instruction)
    match opcode[0]:
        case "wmma":
            return _tile(kernel, instruction)
        case "movmatrix":
            return _turn(kernel, instruction)
        case _:
            return _matrices(kernel, instruction)


def _whole_warp(kernel: KernelDraft, instruction: Instruction) -> Act:
    original = Instruction(instruction.opcode[1:], (), loc=instruction.loc)
    site = kernel.site(original, "collective")
    block = kernel.block
    code = (
        f"if (!(m = emu::meet(w, {site}, m, 0xffffffffu, {block}))) return emu::kDispatch;\n"
        f"emu::whole_warp(w, {site}, m);"
    )
    return Act(lambda array: code, narrows=True)


def _registers(operand: Operand, count: int) -> tuple[Operand | None, ...]:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if len(items) != count:
        raise NotSupported
    return items


def _targets(kernel: KernelDraft, operand: Operand, count: int, kind: str) -> tuple[str, ...]:
    """Return the registers of a result, each exactly as wide as `kind`."""
    found = tuple(register(item) for item in _registers(operand, count) if item is not None)
    fits = all(
        not kernel.is_predicate(name) and kernel.bytes(name) == BYTES[kind] for name in found
    )
    if len(found) != count or not fits:
        raise NotSupported
    return found


def _sources(
    kernel: KernelDraft, operand: Operand, count: int, kind: str, steps: list[Step]
) -> tuple[str, ...]:
    return tuple(fitted(kernel, item, kind, None, steps) for item in _registers(operand, count))


def _bits(kind: str) -> str:
    return "b64" if kind == "f64" else "b32"


def _list(array: SpellLanes, names: tuple[str, ...], type_: str, name: str) -> str:
    return f"{type_} {name}[] = {{{', '.join(map(array, names))}}};"


def _product(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    found = product_of(instruction.opcode)
    if found is None or len(instruction.operands) != 4:
        raise NotSupported
    m, n, k = found.shape
    widened = found.wmma and found.a == "f16"
    steps: list[Step] = []
    d = _targets(kernel, instruction.operands[0], held(m * n, found.d), _bits(found.d))
    counts = (8, 8) if widened else (held(m * k, found.a), held(k * n, found.b))
    kinds = (found.a, found.b, found.c)
    a, b, c = (
        _sources(kernel, operand, count, _bits(kind), steps)
        for operand, count, kind in zip(
            instruction.operands[1:], (*counts, held(m * n, found.c)), kinds, strict=True
        )
    )
    # ptxas cuts wmma on tf32 into instructions of four products, on every architecture.
    step = 4 if found.wmma and found.a == "tf32" else k
    elements = ", ".join(f"emu::Element::{kind}" for kind in (*kinds, found.d))
    product = f"{{{m}, {n}, {k}, {elements}, {step}, {str(found.saturates).lower()}}}"

    def code(array: SpellLanes) -> str:
        source = "const void* const"
        factors = zip((a, b, c), "abc", strict=True)
        lists = " ".join(_list(array, names, source, name) for names, name in factors)
        target = _list(array, d, "void* const", "d")
        return (
            f"static constexpr emu::Product p = {product}; {lists} {target} "
            "if (w->watched) emu::met(w, q); emu::multiply(p, a, b, c, d);"
        )

    def move(array: SpellLanes) -> str:
        source = "const void* const"
        factors = zip((a, b, c), "abc", strict=True)
        lists = " ".join(_list(array, names, source, name) for names, name in factors)
        target = _list(array, d, "void* const", "d")
        return (
            f"static constexpr emu::Product p = {product}; {lists} {target} "
            "emu::multiply_undefined(w, p, a, b, c, d);"
        )

    held_registers = tuple(dict.fromkeys((*a, *b, *c, *d)))
    return [*steps, Act(code, reads=(*a, *b, *c), writes=d, moves=move, data=held_registers)]


def _tile(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    tile = tile_of(instruction.opcode, space_of(instruction.opcode))
    loads = instruction.opcode[1] == "load"
    if tile is None or tile.space not in {"global", "shared", "generic"}:
        raise NotSupported
    operands = list(instruction.operands)
    stride = operands.pop() if len(operands) == 3 else None
    fragment, address = operands if loads else reversed(operands)
    steps: list[Step] = []
    at = pointer(kernel, address, tile.space, None, steps)
    kind = _bits(tile.element)
    if loads:
        held = _targets(kernel, fragment, tile.registers, kind)
    else:
        held = _sources(kernel, fragment, tile.registers, kind, steps)
    step, packed = _stride(kernel, tile, stride, steps)
    base = apart(kernel, at.register, held, None, steps)
    if step:
        step = apart(kernel, step, held, None, steps)
    site = kernel.site(instruction, "load" if loads else "store", tile.space, tile.access_bytes)
    m, n, k = tile.shape
    spelled = (
        f"{{{m}, {n}, {k}, emu::Role::{tile.role}, emu::Element::{tile.element}, "
        f"{str(tile.along_rows).lower()}, {tile.registers}}}"
    )

    def code(array: SpellLanes) -> str:
        listed = _list(array, held, "void* const" if loads else "const void* const", "held")
        return (
            f"static constexpr emu::Tile t = {spelled}; {listed} "
            f"emu::{'load' if loads else 'store'}_tile(w, {site}, t, emu::Space::{tile.space}, "
            f"{array(base)}, {at.offset}, {array(step) if step else 'nullptr'}, {packed}, "
            "held);"
        )

    return [*steps, _moving(code, (base, *((step,) if step else ())), held, loads=loads)]


def _moving(
    code: Callable[[SpellLanes], str], reads: tuple[str, ...], held: tuple[str, ...], *, loads: bool
) -> Act:
    """Return a load or a store of a matrix whose pieces are in the registers `held`."""
    return Act(
        code,
        reads=reads if loads else (*reads, *held),
        writes=held if loads else (),
        moves=code,
        data=held,
        origins="group",
        use="address",
    )


def _stride(
    kernel: KernelDraft, tile: Tile, operand: Operand | None, steps: list[Step]
) -> tuple[str | None, int]:
    """Return the elements from line to line: a register, or the number."""
    if operand is None:
        rows, columns = tile.elements
        return None, columns if tile.along_rows else rows
    if isinstance(operand, Imm):
        return None, operand.value & 0xFFFFFFFF
    return fitted(kernel, operand, "u32", None, steps), 0


def _matrices(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Lower ldmatrix and stmatrix of 16-bit elements."""
    opcode = instruction.opcode
    loads = opcode[0] == "ldmatrix"
    counts = {"x1": 1, "x2": 2, "x4": 4}
    count = next((counts[part] for part in opcode if part in counts), 0)
    if not count or opcode[-1] != "b16" or "m8n8" not in opcode:
        raise NotSupported
    space = space_of(opcode)
    if space not in {"shared", "generic"}:
        raise NotSupported
    fragment, address = instruction.operands if loads else reversed(instruction.operands)
    steps: list[Step] = []
    at = pointer(kernel, address, space, None, steps)
    if loads:
        held = _targets(kernel, fragment, count, "b32")
    else:
        held = _sources(kernel, fragment, count, "b32", steps)
    base = apart(kernel, at.register, held, None, steps)
    site = kernel.site(instruction, "load" if loads else "store", "shared", 16)
    call = "load" if loads else "store"
    turned = str("trans" in opcode).lower()

    def code(array: SpellLanes) -> str:
        type_ = "uint32_t* const" if loads else "const uint32_t* const"
        return (
            f"{_list(array, held, type_, 'held')} emu::{call}_matrices(w, {site}, {count}, "
            f"{turned}, {array(base)}, {at.offset}, held);"
        )

    return [*steps, _moving(code, (base,), held, loads=loads)]


def _turn(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    if instruction.opcode[-3:] != ("m8n8", "trans", "b16"):
        raise NotSupported
    steps: list[Step] = []
    (target,) = _targets(kernel, instruction.operands[0], 1, "b32")
    (source,) = _sources(kernel, instruction.operands[1], 1, "b32", steps)

    def code(array: SpellLanes) -> str:
        return f"emu::transpose_matrix({array(source)}, {array(target)});"

    return [
        *steps,
        Act(
            code,
            reads=(source,),
            writes=(target,),
            moves=code,
            data=tuple(dict.fromkeys((source, target))),
            origins="group",
        ),
    ]
