"""From PTX to a library and its tables."""

import asyncio
import json
from dataclasses import asdict
from pathlib import Path

import pytest
from corpus_sample import sample
from kernel_runs import compiled, translated

from cuda_llm.data_file import read_as
from cuda_llm.outcomes import CompileFailed, CompilerStop, InfraFailed
from cuda_llm.source_file import SourceSpot
from cuda_llm.tools.emulator.codegen.libraries import MOST_PTX_BYTES, TranslationRecord, translate
from cuda_llm.tools.emulator.codegen.module import generate
from cuda_llm.tools.emulator.ptx.parse import parse
from cuda_llm.tools.profiler.tables import InstructionClass, KernelTable, Translated, Unsupported

HEAD = '.version 9.0\n.target sm_90a\n.address_size 64\n.file 1 "kernel.cu"\n'
SOURCE = "one\ntwo\n  out[i] = in[i];\n"


def tables(statements: str) -> tuple[KernelTable, ...]:
    """Tables of an entry `k` with these statements, beside one that only returns."""
    registers = ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .pred %p<9>;"
    entry = f".entry k(.param .u64 k_0) {{ {registers}\n.loc 1 3 1\n{statements}\nret; }}\n"
    text = f"{HEAD}{entry}.entry plain() {{ ret; }}\n"
    return generate(parse(text, "kernel.cu"), (), "kernel.cu", SOURCE).kernels


@pytest.mark.parametrize(
    "statement",
    [
        "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%f1,%f2,%f3,%f4}, %rd1, %rd2, "
        "%r1, 0, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc {%r1,%r2,%r3,%r4}, %rd1, "
        "%rd2, 1;",
        "mma.sync.aligned.m8n8k4.row.row.f16.f16.f16.f16 "
        "{%r1,%r2,%r3,%r4}, {%r1,%r2}, {%r3,%r4}, {%r1,%r2,%r3,%r4};",
        "mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32 {%r1,%r2}, {%r3}, {%r4}, {%r1,%r2};",
        "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%f1,%f2,%f3,%f4}, {%r1,%r2}, {%r3,%r4}, {%f1,%f2,%f3,%f4}, %r5, 0;",
        "wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32 {%r1,%r2}, {%r3}, {%r4}, "
        "{%r1,%r2};",
        "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r1,%r2}, [%r3];",
        "tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%rd1, {%f5,%f6}];",
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
        "[%r1], [%rd1, {%r2,%r2,%r2}], [%r3], {%r4};",
        "tensormap.replace.tile.global_address.global.b1024.b64 [%rd1], %rd2;",
        "multimem.ld_reduce.relaxed.sys.global.add.f32 %f1, [%rd1];",
        "setmaxnreg.inc.sync.aligned.u32 20;",
        "fence.proxy.tensormap::generic.release.gpu;",
        "mov.u32 %r1, %no_such_register;",
        "ld.global.u32 %r1, [nowhere];",
    ],
)
def test_what_only_a_gpu_has_is_named_with_its_line_and_other_kernels_run(
    statement: str,
) -> None:
    kernel, plain = tables(f"{statement}\n{statement}")
    opcode = statement.split()[0].rstrip(";")
    spot = SourceSpot(file="kernel.cu", line=3, text="out[i] = in[i];")
    assert kernel.unsupported == (Unsupported(opcode=opcode, count=2, spot=spot),)
    assert plain.unsupported == ()


def test_code_that_cannot_be_reached_refuses_nothing() -> None:
    kernel, _ = tables("bra over;\ntcgen05.fence::before_thread_sync;\nover:")
    assert kernel.unsupported == ()


def test_tables_list_sites_mix_and_memory_parallelism() -> None:
    kernel, _ = tables(
        "ld.param.u64 %rd1, [k_0];\ncvta.to.global.u64 %rd2, %rd1;\n"
        "ld.global.f32 %f1, [%rd2];\nld.global.f32 %f2, [%rd2+4];\n"
        "add.f32 %f3, %f1, %f2;\nld.global.f32 %f4, [%rd2+8];\nfma.rn.f32 %f5, %f4, %f3, %f3;\n"
        "bar.sync 0;\nst.global.v2.f32 [%rd2], {%f5, %f5};"
    )
    first, second = kernel.blocks
    assert first.mix == {
        InstructionClass.FREE: 2,
        InstructionClass.LOAD_STORE: 3,
        InstructionClass.FP32: 2,
        InstructionClass.CONTROL: 1,
    }
    assert (first.global_loads, first.memory_batches) == (3, 1)
    assert second.mix == {InstructionClass.LOAD_STORE: 1}
    by_kind = sorted((s.kind, s.space, s.bytes, s.block) for s in kernel.sites)
    assert by_kind == [
        ("barrier", "", 0, 0),
        *[("load", "global", 4, 0)] * 3,
        ("store", "global", 8, 1),
    ]
    assert {s.spot for s in kernel.sites} == {
        SourceSpot(file="kernel.cu", line=3, text="out[i] = in[i];")
    }


@pytest.mark.parametrize(
    ("body", "groups"),
    [
        ("ld.global.u64 %rd3, [%rd1];\nld.global.u64 %rd4, [%rd2];", 1),
        ("ld.global.u64 %rd3, [%rd1];\nld.global.u64 %rd4, [%rd3];", 2),
        ("atom.global.add.u64 %rd3, [%rd1], 1;\natom.global.add.u64 %rd4, [%rd3], 1;", 2),
        (
            "ld.global.u64 %rd3, [%rd1];\nst.global.u64 [%rd2], %rd3;\nld.global.u64 %rd4, [%rd2];",
            2,
        ),
        ("\n".join(f"ld.global.u64 %rd3, [%rd1+{8 * i}];" for i in range(9)), 2),
        ("red.global.add.u64 [%rd1], 1;\nred.global.add.u64 [%rd2], 1;", 0),
    ],
)
def test_loads_wait_one_after_another_where_data_or_a_store_say_so(body: str, groups: int) -> None:
    kernel, _ = tables(body)
    assert kernel.blocks[0].memory_batches == groups


def test_reads_of_shared_memory_count_along_their_chain() -> None:
    chained, _ = tables("ld.shared.u32 %r2, [%r1];\nld.shared.u32 %r3, [%r2];")
    apart, _ = tables("ld.shared.u32 %r2, [%r1];\nld.shared.u32 %r3, [%r1+4];")
    assert (chained.blocks[0].shared_waits, apart.blocks[0].shared_waits) == (2, 1)


def test_constants_are_waited_for_at_addresses_that_were_loaded() -> None:
    chained, _ = tables("ld.const.u64 %rd2, [%rd1];\nld.const.u64 %rd3, [%rd2];")
    counted, _ = tables("ld.const.u64 %rd2, [%rd1];\nld.const.u64 %rd3, [%rd1+8];")
    assert (chained.blocks[0].cached_waits, counted.blocks[0].cached_waits) == (1, 0)


def test_a_pair_of_floats_is_two_operations() -> None:
    kernel, _ = tables("fma.rn.f32x2 %rd1, %rd2, %rd3, %rd4;")
    assert kernel.blocks[0].mix[InstructionClass.FP32] == 2


def test_tables_are_the_same_after_they_were_cached() -> None:
    made = tables("bar.sync 0;\nld.global.u8 %r1, [%rd1];") + tables(
        "tcgen05.fence::before_thread_sync;"
    )
    record = TranslationRecord(kernels=made, translate_s=0.5, library="key")
    assert read_as(TranslationRecord, json.loads(json.dumps(asdict(record)))) == record


def test_a_translation_is_cached_and_unreadable_ptx_is_our_failure(tmp_path: Path) -> None:
    ptx = tmp_path / "kernel.ptx"
    ptx.write_text(f"{HEAD}// {tmp_path}\n.entry k() {{ ret; }}\n")

    def once() -> object:
        return asyncio.run(translate(ptx, kernels=(), source_name="kernel.cu", source=""))

    first, second = once(), once()
    assert getattr(first, "cached", None) is False
    assert getattr(second, "cached", None) is True
    assert getattr(second, "library", None) == getattr(first, "library", "")
    ptx.write_text(ptx.read_text().replace("// ", "// another comment in "))
    other = once()
    assert getattr(other, "cached", None) is False
    assert getattr(other, "library", None) == getattr(first, "library", "")
    ptx.write_text(f"{HEAD}.entry k() {{ add.s32 %r1 %r2; }}\n")
    failed = once()
    assert isinstance(failed, InfraFailed)
    assert "PTX line 5" in failed.detail


@pytest.mark.parametrize("operation", ["min", "max"])
@pytest.mark.parametrize("kind", sample(["u16", "s16"], every=2))
def test_halfword_extremes_under_a_mask_compile(tmp_path: Path, operation: str, kind: str) -> None:
    """g++ 12 breaks down over them where it has AVX-512, without the flag for expanding them."""
    ptx = tmp_path / "kernel.ptx"
    ptx.write_text(
        f"{HEAD}.entry k(.param .u64 k_0) {{ .reg .pred %p<2>; .reg .b16 %rs<4>; .reg .b64 %rd<2>;"
        "ld.param.u64 %rd1, [k_0]; ld.global.u16 %rs1, [%rd1]; ld.global.u16 %rs2, [%rd1+2];"
        "mov.u16 %rs3, 0; setp.eq.u16 %p1, %rs1, %rs2; @%p1 bra over;"
        f"{operation}.{kind} %rs3, %rs1, %rs2;\nover: st.global.u16 [%rd1], %rs3; ret; }}\n"
    )
    made = asyncio.run(translate(ptx, kernels=(), source_name="kernel.cu", source=""))
    assert isinstance(made, Translated), made


@pytest.mark.parametrize(
    ("file", "target"),
    sample(
        [("arithmetic", "sm_75"), ("memory", "sm_80"), ("warps", "sm_90a"), ("cub", "sm_120a")],
        every=4,
    ),
)
def test_other_targets_translate_without_a_refusal(file: str, target: str) -> None:
    async def made() -> tuple[KernelTable, ...]:
        return (await translated(await compiled(file, target))).kernels

    kernels = asyncio.run(made())
    assert kernels
    assert [kernel.unsupported for kernel in kernels] == [()] * len(kernels)


def test_clusters_fixed_at_compile_time_are_told_to_the_device() -> None:
    text = f"{HEAD}.entry k() .explicitcluster .reqnctapercluster 2, 1, 1 {{ ret; }}\n"
    made = generate(parse(text, "kernel.cu"), (), "kernel.cu", SOURCE)
    assert made.kernels[0].unsupported == ()
    assert "{2, 1, 1}, 0}" in made.text


def test_tables_of_functions_without_a_body_are_refused_where_a_kernel_reads_them() -> None:
    table = (
        ".extern .func f();\n.func g() { ret; }\n.global .u64 numbers[1] = {7};\n"
        ".global .u64 both[2] = {f, numbers};\n.global .u64 known[2] = {g, numbers};\n"
    )
    for name, refused in (("both", True), ("numbers", False), ("known", False)):
        entry = f".entry k() {{ .reg .b64 %rd<9>; ld.global.u64 %rd1, [{name}]; ret; }}\n"
        (kernel,) = generate(parse(HEAD + table + entry), (), "kernel.cu", SOURCE).kernels
        assert [one.opcode for one in kernel.unsupported] == ["ld.global.u64"] * refused


def test_more_device_code_than_can_be_translated_in_time_is_refused_at_once(
    tmp_path: Path,
) -> None:
    ptx = tmp_path / "kernel.ptx"
    ptx.write_text(HEAD + "// unrolled\n" * (MOST_PTX_BYTES // 12))
    made = asyncio.run(translate(ptx, kernels=(), source_name="kernel.cu", source=SOURCE))
    stop = CompilerStop(kind="device-code", limit_bytes=MOST_PTX_BYTES)
    assert made == CompileFailed(stop=stop)
