"""Reading PTX: both NVVM dialects, scopes, lines, data, and what cannot be read."""

import time

import pytest

from cuda_llm.tools.emulator.ptx.module import (
    Address,
    Function,
    FunctionCall,
    Guard,
    Imm,
    Instruction,
    Label,
    Loc,
    OperandPair,
    Reg,
    Special,
    Symbol,
    Target,
    Vector,
)
from cuda_llm.tools.emulator.ptx.parse import parse
from cuda_llm.tools.emulator.ptx.tokens import PtxError

OLD = """
.version 9.0
.target sm_86
.address_size 64
.visible .entry axpy(
	.param .u64 axpy_param_0,
	.param .f32 axpy_param_1
)
.maxntid 16, 16, 1
.minnctapersm 2
{
	.reg .pred 	%p<3>;
	.reg .f32 	%f<4>;
	.reg .b64 	%rd<3>;
	ld.param.u64 	%rd1, [axpy_param_0];
	ld.param.f32 	%f1, [axpy_param_1];
	@!%p1 bra 	$L__BB0_2;
	ld.global.v2.f32 	{%f2, _}, [%rd1+-8];
	setp.lt.and.f32 	%p1|%p2, %f1, 0f3F800000, !%p2;
$L__BB0_2:
	ret;
}
"""
NEW = OLD.replace("sm_86", "sm_120").replace(".u64 axpy", ".u64 .ptr .global .align 16 axpy")
NEW = NEW.replace(".reg .f32", ".reg .b32")


def body(statements: str, head: str = "") -> Function:
    """The function `f` with these statements."""
    return parse(f"{head}\n.entry f()\n{{\n{statements}\n}}\n", "user.cu").functions[0]


def only(statements: str) -> Instruction:
    """The last instruction of a body."""
    found = body(statements).body[-1]
    assert isinstance(found, Instruction)
    return found


@pytest.mark.parametrize(("text", "kind"), [(OLD, "f32"), (NEW, "b32")])
def test_both_dialects_give_the_same_instructions(text: str, kind: str) -> None:
    function = parse(text).functions[0]
    assert [(p.name, p.size) for p in function.params] == [
        ("axpy_param_0", 8),
        ("axpy_param_1", 4),
    ]
    assert function.max_threads == 256
    assert function.registers["%f3"] == kind
    assert [type(s).__name__ for s in function.body].count("Instruction") == 6
    branch, load, compare = (s for s in function.body[2:5] if isinstance(s, Instruction))
    assert branch.guard == Guard(Reg("%p1"), negated=True)
    assert branch.operands == (Label("$L__BB0_2"),)
    assert load.operands == (Vector((Reg("%f2"), None)), Address(Reg("%rd1"), -8))
    assert compare.operands[0] == OperandPair(Reg("%p1"), Reg("%p2"))
    assert compare.operands[2] == Imm(0x3F800000, 32)
    assert compare.negated == (3,)


def test_registers_of_nested_scopes_are_renamed_apart() -> None:
    function = body(
        ".reg .b32 %r<3>; .reg .b32 low;\n"
        "{ .reg .b16 low; cvt.u16.u32 low, %r1; cvt.u32.u16 %r2, low; }\n"
        "{ .reg .b16 low; mov.b16 low, 1; }\n"
        "mov.b32 low, %r2;"
    )
    inner, back, other, outer = (s for s in function.body if isinstance(s, Instruction))
    names = [inner.operands[0], other.operands[0], outer.operands[0]]
    assert len(set(names)) == 3
    assert back.operands[1] == inner.operands[0]
    kinds = [function.registers[reg.name] for reg in names if isinstance(reg, Reg)]
    assert kinds == ["b16", "b16", "b32"]


def test_labels_of_nested_scopes_do_not_clash() -> None:
    loop = "{ .reg .pred p; again: mov.pred p, 0; @p bra again; }\n"
    function = body(loop + loop)
    branches = [s.operands[0] for s in function.body if isinstance(s, Instruction) and s.guard]
    targets = [s.name for s in function.body if isinstance(s, Target)]
    assert [b.name for b in branches if isinstance(b, Label)] == targets
    assert len(set(targets)) == 2


def test_lines_inside_headers_are_reported_as_the_users_line() -> None:
    function = body(
        ".loc 1 7 3\nmov.b32 %a, 1;\n"
        ".loc 2 90 1, function_name $L__info_string0, inlined_at 1 12 5\nmov.b32 %a, 2;\n"
        ".loc 3 66 1, function_name $L__info_string1, inlined_at 2 90 1\nmov.b32 %a, 3;\n"
        ".loc 1 20 1, function_name $L__info_string2, inlined_at 1 30 1\nmov.b32 %a, 4;\n"
        ".loc 1 0 2\nmov.b32 %a, 5;\n",
        '.file 1 "/tmp/private/user.cu"\n.file 2 "/x/include/a.h"\n.file 3 "/x/include/b.h"\n',
    )
    lines = [s.loc for s in function.body if isinstance(s, Instruction)]
    assert lines == [Loc("user.cu", line) for line in (7, 12, 12, 20, 20)]


def test_initial_values_and_addresses_of_other_variables() -> None:
    module = parse(
        ".global .align 4 .u32 counter = 7;\n"
        ".global .align 8 .u64 table[3] = {generic(counter), 5, generic(counter)+4};\n"
        ".const .align 4 .f32 half[2] = {0f3F000000, 0d4000000000000000};\n"
        ".const .align 1 .s8 minus[2] = {-1, -2};\n"
        ".extern .shared .align 16 .b8 dynamic[];\n"
    )
    counter, table, half, minus, dynamic = module.variables
    assert counter.initial == b"\7\0\0\0"
    assert table.initial == bytes(8) + b"\5" + bytes(15)
    assert table.pointers == ((0, Symbol("counter")), (16, Symbol("counter", 4)))
    assert half.initial == bytes.fromhex("0000003f00000040")
    assert minus.initial == b"\xff\xfe"
    assert (dynamic.external, dynamic.size, dynamic.align) == (True, 0, 16)


def test_calls_tables_and_special_registers() -> None:
    function = body(
        ".reg .b32 %r<3>;\n"
        "{ .param .b32 param0; .param .b32 retval0; call.uni (retval0), g, (param0); }\n"
        "table: .branchtargets one, two;\n"
        "mov.u32 %r1, %tid.x;\n"
        "brx.idx %r1, table;\n"
        "one: ret;\ntwo: ret;",
        ".func (.param .b32 r) g(.param .b32 a) ;\n",
    )
    call = function.body[0]
    assert isinstance(call, FunctionCall)
    assert (call.target, len(call.results), len(call.arguments)) == ("g", 1, 1)
    move, jump = (s for s in function.body[1:3] if isinstance(s, Instruction))
    assert move.operands[1] == Special("%tid.x")
    assert jump.operands == (Reg("%r1"), Vector((Label("one"), Label("two"))))


def test_comments_and_debug_sections_are_skipped() -> None:
    text = OLD + '\t.file\t1 "/a//b.cu"\n\t.section\t.debug_str\n\t{\n$x:\n.b8 80 // P\n\t}\n'
    assert len(parse("/* a\n { */ // {\n" + text).functions) == 1


@pytest.mark.parametrize(
    "statement",
    ["mov.b32 %r1, ?;", "ld.global.u32 %r1, [];", "mov.b32 %r1, -x;", "@%r9x mov.b32 %r1, 1;", "}"],
)
def test_unreadable_ptx_is_an_error_with_its_line(statement: str) -> None:
    with pytest.raises(PtxError) as caught:
        body(f".reg .b32 %r<3>;\n{statement}")
    assert caught.value.line >= 5
    assert f"PTX line {caught.value.line}" in str(caught.value)


def test_the_time_of_a_long_text_does_not_grow_with_its_square() -> None:
    lines = "\tfma.rn.f32 \t%f1, %f2, 0f3F800000, %f3;\n.loc\t1 5 3\n" * 2500
    text = OLD.replace("$L__BB0_2:", lines + "$L__BB0_2:")
    began_s = time.process_time()
    parse(text)
    assert time.process_time() - began_s < 5, "5,000 lines take a fifth of a second of an idle core"


def test_a_file_may_end_with_a_comment_or_hold_nothing_else() -> None:
    for end in ("// end", "/* end */", "// end\n\n"):
        assert parse(f".entry k() {{ ret; }} {end}").functions[0].name == "k"
        assert parse(end).functions == ()
