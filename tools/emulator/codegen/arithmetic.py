"""Operations of the tables in `ops`, applied to registers."""

from cuda_llm.tools.emulator.codegen.kernel import KernelDraft, Lane, Step
from cuda_llm.tools.emulator.codegen.values import NotSupported, OperandReader, unsigned_type
from cuda_llm.tools.emulator.ops.lane_op import C_TYPES
from cuda_llm.tools.emulator.ops.table import lane_op
from cuda_llm.tools.emulator.ops.undefined import undefined_rule
from cuda_llm.tools.emulator.ptx.module import Instruction, Operand, OperandPair, Reg, Vector

_BITS = {"f32": "b32", "f64": "b64"}

CARRY = "%cc"
"""Name of the condition-code register, which is treated as a predicate."""


def lower_arithmetic(kernel: KernelDraft, instruction: Instruction) -> list[Step]:
    """Apply a lane operation. Raises NotSupported where the tables have none."""
    sources = _sources(instruction.operands)
    operation = lane_op(instruction.opcode, len(sources))
    if operation is None:
        raise NotSupported
    kinds = operation.arguments[:-1] if operation.reads_carry else operation.arguments
    if len(kinds) != len(sources):
        raise NotSupported
    reader = OperandReader(kernel)
    arguments = [
        reader.value(operand, kind, negated=index in instruction.negated)
        for (index, operand), kind in zip(sources, kinds, strict=True)
    ]
    rule: tuple[str, ...] = ()
    if kernel.tracks and not (operation.reads_carry or operation.writes_carry):
        rule = undefined_rule(
            operation,
            [
                reader.value(operand, _BITS.get(kind, kind), negated=index in instruction.negated)
                for (index, operand), kind in zip(sources, kinds, strict=True)
            ],
            [
                reader.undefined(operand, kind)
                for (_, operand), kind in zip(sources, kinds, strict=True)
            ],
        )
    if operation.reads_carry or operation.writes_carry:
        kernel.registers[CARRY] = "pred"
    if operation.reads_carry:
        arguments.append(reader.value(Reg(CARRY), "pred"))
    targets: list[Operand | None] = list(_items(instruction.operands[0]))
    if operation.writes_carry:
        targets.append(Reg(CARRY))
    joined = ", ".join(arguments)
    results = []
    undefined = []
    for target, function, kind in zip(
        targets, operation.functions, operation.results, strict=False
    ):
        if target is None:
            continue
        results.append((register(target), store(kernel, target, f"{function}({joined})", kind)))
        undefined += [store(kernel, target, f"{bits_type(kind)}({one})", kind) for one in rule]
    return [
        Lane(
            results=tuple(results),
            reads=tuple(reader.reads),
            guard=instruction.guard,
            uniforms=tuple(reader.uniforms),
            vectorises=operation.vectorises,
            undefined=tuple(undefined),
        )
    ]


def bits_type(kind: str) -> str:
    """Return the C type in which undefined bits of a PTX type widen as its values do."""
    return unsigned_type(kind) if kind in _BITS else C_TYPES[kind]


def register(operand: Operand | None) -> str:
    """Name of the register an operand is. Raises NotSupported for anything else."""
    if not isinstance(operand, Reg):
        raise NotSupported
    return operand.name


def store(kernel: KernelDraft, target: Operand | None, expression: str, kind: str) -> str:
    """Return a value of PTX type `kind` as the raw bits of register `target`."""
    name = register(target)
    if kind == "pred":
        if not kernel.is_predicate(name):
            raise NotSupported
        return expression
    if kernel.is_predicate(name):
        raise NotSupported
    return f"emu::to_register<{kernel.raw(name)}>({expression})"


def undefined_copy(
    kernel: KernelDraft,
    reader: OperandReader,
    target: Operand | None,
    source: Operand | None,
    kind: str,
) -> str:
    """Return C++ of the undefined bits of `target` after `source` is copied to it as `kind`."""
    return store(kernel, target, f"{bits_type(kind)}({reader.undefined(source, kind)})", kind)


def _items(operand: Operand) -> tuple[Operand | None, ...]:
    match operand:
        case OperandPair(first, second):
            return (first, second)
        case Vector(items):
            return items
        case _:
            return (operand,)


def _sources(operands: tuple[Operand, ...]) -> list[tuple[int, Operand | None]]:
    return [
        (index, item)
        for index, operand in enumerate(operands)
        if index > 0
        for item in (operand.items if isinstance(operand, Vector) else (operand,))
    ]
