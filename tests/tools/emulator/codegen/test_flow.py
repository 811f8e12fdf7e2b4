"""Calls inlined, arguments in registers, basic blocks where lanes can meet."""

from cuda_llm.tools.emulator.codegen.flow import (
    LEAVE,
    Barrier,
    GuardedBranch,
    Jump,
    Switch,
    blocks_of,
)
from cuda_llm.tools.emulator.codegen.functions import number_functions
from cuda_llm.tools.emulator.codegen.inline import inline_calls
from cuda_llm.tools.emulator.codegen.param_space import lower_param_space
from cuda_llm.tools.emulator.ptx.module import Function, Imm, Instruction
from cuda_llm.tools.emulator.ptx.parse import parse

CALLEE = """
.func (.param .b32 out) twice(.param .b32 in)
{
	.reg .b32 %r<3>; .reg .pred %p<2>; .local .b8 depot[4];
	ld.param.b32 %r1, [in];
	@%p1 bra done;
	add.s32 %r1, %r1, %r1;
done:
	st.param.b32 [out], %r1;
	ret;
}
"""


def entry(statements: str, others: str = "") -> Function:
    """The flattened kernel `k` with these statements."""
    registers = ".reg .b32 %r<9>; .reg .pred %p<9>; .reg .b64 %rd<9>;"
    module = parse(f"{others}.entry k() {{ {registers}\n{statements}\n}}")
    numbered = number_functions(module)
    kernel = next(function for function in numbered.module.functions if function.entry)
    return lower_param_space(inline_calls(numbered, kernel))


def call(name: str, argument: str, result: str) -> str:
    return (
        "{ .param .b32 param0; .param .b32 retval0;\n"
        f"st.param.b32 [param0], {argument}; call.uni (retval0), {name}, (param0);\n"
        f"ld.param.b32 {result}, [retval0]; }}\n"
    )


def spellings(function: Function) -> list[str]:
    return [s.spelling for s in function.body if isinstance(s, Instruction)]


def test_each_call_gets_its_own_copy_and_arguments_become_registers() -> None:
    flat = entry(call("twice", "%r1", "%r2") + call("twice", "%r2", "%r3") + "ret;", CALLEE)
    found = spellings(flat)
    assert found.count("add.s32") == 2
    assert not any("param" in spelling or "call" in spelling for spelling in found)
    assert [v.space for v in flat.variables] == ["local", "local"]
    adds = [s.operands[0] for s in flat.body if isinstance(s, Instruction) and "add" in s.opcode]
    assert adds[0] != adds[1]
    assert all(v.space != "param" for v in flat.variables)


def test_arguments_read_in_other_pieces_go_through_local_memory() -> None:
    callee = CALLEE.replace("ld.param.b32 %r1, [in];", "ld.param.u16 %r1, [in+2];")
    flat = entry(call("twice", "%r1", "%r2") + "ret;", callee)
    assert "ld.local.u16" in spellings(flat)
    assert "st.local.b32" in spellings(flat)


def test_recursion_and_unknown_functions_stay_calls() -> None:
    recursive = CALLEE.replace("add.s32 %r1, %r1, %r1;", call("twice", "%r1", "%r1"))
    assert "call.recursive" in spellings(entry(call("twice", "%r1", "%r2"), recursive))
    external = ".extern .func (.param .b32 o) malloc(.param .b32 i) ;\n"
    assert "call.malloc" in spellings(entry(call("malloc", "%r1", "%r2"), external))


def test_a_call_through_a_pointer_chooses_among_fitting_functions_with_an_address() -> None:
    narrow = CALLEE.replace("twice", "narrow").replace("b32 in", "b64 in")
    others = "".join(CALLEE.replace("twice", name) for name in ("first", "second", "never"))
    table = ".global .u64 table[3] = {first, narrow, 7};\n"
    through = call("twice", "%r1", "%r2").replace("twice", "%rd1").replace(");", "), proto;", 1)
    flat = entry("mov.u64 %rd1, second;\n" + through + "ret;", others + narrow + table)
    choices = [s for s in flat.body if isinstance(s, Instruction) and s.opcode[0] == "call"]
    assert [s.spelling for s in choices] == ["call.choose"]
    addresses = [one.value for one in choices[0].operands[2:] if isinstance(one, Imm)]
    assert len(set(addresses)) == 2
    moved = next(s for s in flat.body if isinstance(s, Instruction) and s.spelling == "mov.u64")
    assert moved.operands[1] == Imm(addresses[1])
    assert spellings(flat).count("add.s32") == 2
    assert isinstance(blocks_of(flat)[0].end, Switch)


def test_what_calls_itself_through_a_pointer_is_refused_where_that_happens() -> None:
    itself = CALLEE.replace(
        "add.s32 %r1, %r1, %r1;", ".reg .b64 %rd<2>;" + call("%rd1", "%r1", "%r1")
    )
    flat = entry("mov.u64 %rd1, twice;\n" + call("%rd1", "%r1", "%r2") + "ret;", itself)
    assert spellings(flat).count("call.choose") == 2
    assert spellings(flat).count("call.recursive.indirect") == 1


def test_collectives_start_blocks_and_barriers_end_them() -> None:
    blocks = blocks_of(
        entry(
            "mov.b32 %r1, 1;\nshfl.sync.idx.b32 %r2|%p1, %r1, 0, 31, -1;\nadd.s32 %r3, %r2, 1;\n"
            "bar.sync 0;\nmov.b32 %r4, 2;\nret;"
        )
    )
    assert [[i.opcode[0] for i in block.body] for block in blocks] == [
        ["mov"],
        ["shfl", "add"],
        ["mov"],
    ]
    assert blocks[0].end == Jump(1)
    assert isinstance(blocks[1].end, Barrier)
    assert blocks[1].end.target == 2
    assert blocks[2].end == Jump(LEAVE)


def test_branches_to_a_bare_return_leave_and_guards_split_blocks() -> None:
    blocks = blocks_of(
        entry("@%p1 bra out;\nmov.b32 %r1, 1;\n@!%p2 bar.sync 0;\nmov.b32 %r1, 2;\nout: ret;")
    )
    assert isinstance(blocks[0].end, GuardedBranch)
    assert blocks[0].end.target == LEAVE
    assert isinstance(blocks[1].end, GuardedBranch)
    assert not blocks[1].end.guard.negated
    assert isinstance(blocks[2].end, Barrier)


def test_the_block_behind_a_last_barrier_is_kept() -> None:
    blocks = blocks_of(entry("bar.sync 0;\nret;"))
    assert len(blocks) == 2
    assert isinstance(blocks[0].end, Barrier)
    assert blocks[0].end.target == 1


def test_tables_become_switches_and_unreachable_code_goes() -> None:
    blocks = blocks_of(
        entry(
            "t: .branchtargets a, b, c;\nbrx.idx %r1, t;\nmov.b32 %r8, 9;\n"
            "a: mov.b32 %r1, 1;\nb: mov.b32 %r1, 2;\nc: ret;"
        )
    )
    assert isinstance(blocks[0].end, Switch)
    assert blocks[0].end.targets == (1, 2, LEAVE)
    assert len(blocks) == 3


def test_a_guarded_jump_table_is_branched_around() -> None:
    flat = entry(
        "@%p1 brx.idx %r1, table;\nadd.s32 %r1, %r1, 1;\na: b:\nret;\ntable: .branchtargets a, b;"
    )
    first, second, _ = blocks_of(flat)
    assert isinstance(first.end, GuardedBranch)
    assert (first.end.guard.negated, first.end.target, first.end.otherwise) == (True, 2, 1)
    assert isinstance(second.end, Switch)
