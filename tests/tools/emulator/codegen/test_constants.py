"""A register that holds one literal is that literal; any other stays a register."""

import pytest

from cuda_llm.tools.emulator.codegen.constants import propagate_constants
from cuda_llm.tools.emulator.ptx.module import Function, Imm, Instruction, Operand
from cuda_llm.tools.emulator.ptx.parse import parse


def sources(statements: str) -> list[tuple[Operand, ...]]:
    """What the instructions behind the first `mov`s read, once constants are known."""
    registers = ".reg .b32 %r<9>; .reg .f32 %f<9>; .reg .pred %p<9>; .reg .b64 %rd<9>;"
    module = parse(f".entry k() {{ {registers}\n{statements}\nret; }}")
    (kernel,) = module.functions
    return [i.operands[1:] for i in body(propagate_constants(kernel)) if i.opcode[0] != "mov"]


def body(function: Function) -> list[Instruction]:
    return [s for s in function.body if isinstance(s, Instruction)]


def test_masks_and_values_are_read_as_literals() -> None:
    found = sources(
        "mov.b32 %r1, -1; mov.b32 %r2, 31; mov.f32 %f1, 0f3F800000;\n"
        "shfl.sync.bfly.b32 %r3|%p1, %r4, 1, %r2, %r1; st.global.v2.f32 [%rd1], {%f1, %f2};"
    )
    assert found[0][1:] == (Imm(1), Imm(31), Imm(-1))
    assert "Imm(value=1065353216, float_bits=32)" in repr(found[1])


@pytest.mark.parametrize(
    "statements",
    [
        "mov.b32 %r1, 1; add.s32 %r1, %r1, %r2;",
        "mov.b32 %r1, 1; mov.b32 %r1, 2; add.s32 %r3, %r1, %r2;",
        "@%p1 mov.b32 %r1, 1; add.s32 %r3, %r1, %r2;",
        "mov.b32 %r1, 1; ld.global.v2.b32 {%r1, %r2}, [%rd1]; add.s32 %r3, %r1, %r2;",
        "mov.b32 %r1, 1; shfl.sync.bfly.b32 %r1|%p1, %r4, 1, 31, -1; add.s32 %r3, %r1, %r2;",
        "mov.pred %p1, 1; selp.b32 %r3, %r1, %r2, %p1;",
    ],
)
def test_a_register_that_may_change_is_left_alone(statements: str) -> None:
    assert not any(isinstance(operand, Imm) for operand in sources(statements)[-2])


def test_addresses_and_calls_keep_their_registers() -> None:
    found = sources("mov.b32 %r1, 1; ld.shared.b32 %r2, [%r1]; st.shared.b32 [%r1], %r2;")
    assert not any(isinstance(operand, Imm) for operand in (*found[0], *found[1]))
