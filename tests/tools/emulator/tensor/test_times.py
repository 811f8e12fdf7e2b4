"""Products on tensor cores take the time of their type and shape, and are named where they do."""

import numpy as np
import pytest
from device_calls import run

from cuda_llm.hardware_profiles.lookup import find_hardware, list_hardware
from cuda_llm.hardware_profiles.roofline import mma_sync_tflops
from cuda_llm.tools.device import CallOptions, CallReport, Level
from cuda_llm.tools.emulator.codegen.module import generate
from cuda_llm.tools.emulator.ops.tensor import Product, instructions_of, product_of
from cuda_llm.tools.emulator.ptx.parse import parse
from cuda_llm.tools.profiler.bottlenecks import list_bottlenecks
from cuda_llm.tools.profiler.tables import InstructionClass

H200 = find_hardware("H200")


def parts(spelling: str) -> tuple[str, ...]:
    return tuple(spelling.split("."))


@pytest.mark.parametrize(
    ("spelling", "operations", "peak"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 4096, "fp16"),
        ("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16", 2048, "fp16_acc16"),
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 2048, "tf32"),
        ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32", 8192, "fp8"),
        ("mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.e4m3.e5m2.f32", 8192, "fp8"),
        ("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.u8.s8.s32", 8192, "int8"),
        ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", 512, "fp64"),
        ("wmma.mma.sync.aligned.col.row.m8n32k16.f32.f16", 8192, "fp16"),
        ("wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32", 4096, "tf32"),
        ("wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64.rn", 512, "fp64"),
    ],
)
def test_work_and_peak_of_a_product_follow_from_its_spelling(
    spelling: str, operations: int, peak: str
) -> None:
    found = product_of(parts(spelling))
    assert isinstance(found, Product)
    assert (found.operations, found.peak) == (operations, peak)


@pytest.mark.parametrize(
    "spelling",
    [
        "mma.sync.aligned.m16n8k16.col.col.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f16",
        "mma.sync.aligned.m16n8k8.row.col.satfinite.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32",
        "mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.e2m1.e2m1.f32",
        "wmma.mma.sync.aligned.row.col.m16n16k8.f32.f16",
    ],
)
def test_other_products_are_refused(spelling: str) -> None:
    assert product_of(parts(spelling)) is None


def test_the_table_of_a_block_holds_its_products() -> None:
    spelling = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    line = f"{spelling} {{%f1,%f2,%f3,%f4}}, {{%r1,%r2,%r3,%r4}}, {{%r5,%r6}}, {{%f1,%f2,%f3,%f4}};"
    text = (
        ".version 9.0\n.target sm_80\n.address_size 64\n.entry k() {\n"
        ".reg .b32 %r<9>; .reg .f32 %f<9>;\n" + f"{line}\n{line}\nret; }}\n"
    )
    (kernel,) = generate(parse(text, "k.cu"), (), "k.cu", "").kernels
    (block,) = kernel.blocks
    assert block.tensor == {"fp16": 8192}
    assert block.mix[InstructionClass.TENSOR] == 2
    assert [site.opcode for site in kernel.sites] == [spelling]
    assert block.dependent_chain == 12


def test_a_guarded_product_is_branched_around() -> None:
    line = (
        "@%p1 mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
        "{%f1,%f2,%f3,%f4}, {%r1,%r2}, {%r5}, {%f1,%f2,%f3,%f4};"
    )
    text = (
        ".version 9.0\n.target sm_80\n.address_size 64\n.entry k() {\n"
        f".reg .b32 %r<9>; .reg .f32 %f<9>; .reg .pred %p<3>;\n{line}\nadd.s32 %r1, %r1, 1;\n"
        "ret; }\n"
    )
    (kernel,) = generate(parse(text, "k.cu"), (), "k.cu", "").kernels
    assert kernel.unsupported == ()
    first, product, rest = kernel.blocks
    assert (first.tensor, product.tensor, rest.tensor) == ({}, {"fp16": 2048}, {})


def test_a_wmma_is_several_instructions() -> None:
    assert instructions_of(parts("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32")) == 2
    load = "wmma.load.a.sync.aligned.row.m16n16k16"
    assert instructions_of(parts(f"{load}.global.f16")) == 4
    assert instructions_of(parts(f"{load}.shared.f16")) == 1
    assert instructions_of(parts("wmma.store.d.sync.aligned.row.m16n16k16.global.f32")) == 4
    assert instructions_of(parts("wmma.store.d.sync.aligned.col.m16n16k16.global.f32")) == 8


def test_rates_are_those_of_mma_sync() -> None:
    assert mma_sync_tflops(H200, "fp16") == pytest.approx(0.63 * 989.4)
    assert mma_sync_tflops(H200, "fp16_acc16") == mma_sync_tflops(H200, "fp16")
    # A chip without an instruction for fp8 multiplies it as f16.
    assert mma_sync_tflops(H200, "fp8") == mma_sync_tflops(H200, "fp16")
    assert mma_sync_tflops(H200, "fp64") == 66.9
    ada = find_hardware("RTX 4090")
    assert mma_sync_tflops(ada, "fp8") > 1.9 * mma_sync_tflops(ada, "fp16")
    kinds = ("fp16", "fp16_acc16", "bf16", "tf32", "fp8", "fp8_acc16", "int8", "fp64")
    assert all(mma_sync_tflops(one, kind) > 0 for one in list_hardware() for kind in kinds)


SOURCE = """
__global__ void spin(float* out, int rounds) {
  float d[4][4] = {};
  unsigned a = threadIdx.x;
  for (int i = 0; i < rounds; ++i)
    for (int j = 0; j < 4; ++j)
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.TYPE.TYPE.f32 {%0, %1, %2, %3}, "
                   "{%4, %4, %4, %4}, {%4, %4}, {%0, %1, %2, %3};"
                   : "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3]) : "r"(a));
  float sum = 0;
  for (int i = 0; i < 16; ++i) sum += d[i / 4][i % 4];
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}
extern "C" void solve(float* out, int rounds) { spin<<<84, 256>>>(out, rounds); }
"""


def test_a_kernel_that_only_multiplies_is_limited_by_its_tensor_cores() -> None:
    rounds = 20
    out = {"out": np.zeros(84 * 256, np.float32)}
    options = CallOptions(level=Level.ACCOUNT)
    source = SOURCE.replace("TYPE", "bf16")
    outcome = run(source, out, ["out"], rounds, device="RTX 3090 Ti", options=options).outcome
    assert isinstance(outcome, CallReport), outcome
    (launch,) = outcome.launches
    operations = 84 * 8 * rounds * 4 * 4096
    assert launch.figures["tensor_operations"] == operations
    expected_us = operations / (80.0 * 1e6)
    assert launch.terms_us["tensor"] == pytest.approx(expected_us)
    assert list_bottlenecks(outcome.bottlenecks)[0].code == "tensor"
    assert "narrower types" in list_bottlenecks(outcome.bottlenecks)[0].advice
