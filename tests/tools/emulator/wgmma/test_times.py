"""Products of a warpgroup take the time of their type and shape, beside the warps."""

import numpy as np
import pytest
from corpus_sample import sample
from device_calls import run

from cuda_llm.hardware_profiles.lookup import find_hardware, list_hardware
from cuda_llm.hardware_profiles.roofline import mma_sync_tflops, wgmma_per_clk, wgmma_tflops
from cuda_llm.tools.device import CallOptions, CallReport, Level
from cuda_llm.tools.emulator.codegen.module import generate
from cuda_llm.tools.emulator.ops.tensor import CHAIN
from cuda_llm.tools.emulator.ptx.parse import parse
from cuda_llm.tools.profiler.tables import InstructionClass, KernelTable

H200 = find_hardware("H200")
HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"
PRODUCT = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"


def test_wgmma_reaches_the_published_peak() -> None:
    assert wgmma_tflops(H200, "fp16") == 989.4
    assert wgmma_tflops(H200, "fp8") == 1978.9
    assert wgmma_tflops(H200, "fp16") > 1.5 * mma_sync_tflops(H200, "fp16")
    # 64 x 256 x 16 products in 128 clocks of the tensor cores' own clock, of which there are fewer.
    assert 2 * 64 * 256 * 16 / wgmma_per_clk(H200, "fp16") == pytest.approx(128, rel=0.1)
    assert all(wgmma_tflops(one, "int8") >= 0 for one in list_hardware())


def table(*statements: str) -> tuple[KernelTable, str]:
    registers = ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .pred %p<3>;"
    body = "\n".join(statements)
    text = f"{HEAD}.entry k(.param .u64 k_0) {{ {registers}\n{body}\nret; }}\n"
    made = generate(parse(text, "k.cu"), (), "k.cu", "")
    return made.kernels[0], made.text


def test_the_table_of_a_block_holds_its_products() -> None:
    line = f"{PRODUCT} {{%f1,%f2,%f3,%f4}}, %rd1, %rd2, %p1, 1, -1, 0, 1;"
    kernel, text = table("wgmma.fence.sync.aligned;", line, line)
    assert kernel.unsupported == ()
    (block,) = kernel.blocks
    assert block.tensor == {"wgmma:fp16": 2 * 2 * 16 * 8 * 16}
    assert block.mix[InstructionClass.TENSOR] == 2
    # They are waited for where their group is.
    assert block.dependent_chain < CHAIN
    assert "false, true, false, true, false" in text


def test_only_kernels_with_products_ask_what_is_under_way() -> None:
    moves = ("mov.f32 %f1, %f2;", "add.f32 %f3, %f1, %f2;")
    _, without = table(*moves)
    assert "move_registers" not in without
    assert "touch_registers" not in without
    held = f"{PRODUCT} {{%f1,%f2,%f3,%f4}}, {{%r1,%r2,%r3,%r4}}, %rd2, %p1, 1, 1, 0;"
    _, watched = table(held, "mov.f32 %f5, %f1;", "add.f32 %f6, %f5, %f5;", "mov.b32 %r1, %r5;")
    assert watched.count("move_registers") == 2
    assert watched.count("touch_registers") == 1
    commit = "wgmma.commit_group.sync.aligned;"
    _, uncommitted = table(held, "wgmma.wait_group.sync.aligned 0;", "add.f32 %f6, %f1, %f1;")
    assert "touch_registers" in uncommitted
    _, waited = table(held, commit, "wgmma.wait_group.sync.aligned 0;", "add.f32 %f6, %f1, %f1;")
    assert "touch_registers" not in waited
    _, pending = table(held, commit, "wgmma.wait_group.sync.aligned 1;", "add.f32 %f6, %f1, %f1;")
    assert "touch_registers" in pending


def test_arithmetic_that_the_compiler_moves_past_a_fence_counts_as_fenced() -> None:
    product = f"{PRODUCT} {{%f1,%f2,%f3,%f4}}, %rd1, %rd2, %p1, 1, 1, 0, 0;"
    wait = "wgmma.wait_group.sync.aligned 0;"
    fence = "wgmma.fence.sync.aligned;"
    scale = "mul.f32 %f1, %f1, %f5;"
    loaded = "ld.shared.f32 %f1, [%r1];"

    def is_unfenced(*statements: str) -> bool:
        _, text = table(product, wait, *statements, product)
        return text.count("emu::kNoWriter") < 2

    assert not is_unfenced(scale, fence)
    assert not is_unfenced(fence, scale)
    assert is_unfenced(scale)
    assert is_unfenced("mov.f32 %f6, %f1;", "mul.f32 %f7, %f6, %f5;", "mov.f32 %f1, %f7;")
    assert not is_unfenced("mov.f32 %f1, 0f00000000;")
    assert not is_unfenced(loaded, fence)
    assert is_unfenced(fence, loaded)


SOURCE = """
__global__ void __launch_bounds__(256) spin(float* out, int rounds) {
  __shared__ alignas(1024) unsigned char tile[16384];
  for (int i = threadIdx.x; i < 4096; i += 256) ((unsigned*)tile)[i] = 0;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const unsigned at = (unsigned)__cvta_generic_to_shared(tile);
  const unsigned long long b = at >> 4 | 64ull << 32 | 1ull << 62;
  float d[32] = {};
  for (int i = 0; i < rounds; ++i) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int j = 0; j < 4; ++j) MULTIPLY
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  float sum = 0;
  for (int i = 0; i < 32; ++i) sum += d[i];
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}
extern "C" void solve(float* out, int rounds, int blocks) { spin<<<blocks, 256>>>(out, rounds); }
"""


def spinning(kind: str, depth: int) -> str:
    names = ", ".join(f"%{i}" for i in range(32))
    sums = ", ".join(f'"+f"(d[{i}])' for i in range(32))
    turns = ", 0, 0" if depth == 16 else ""
    product = f"wgmma.mma_async.sync.aligned.m64n64k{depth}.f32.{kind}.{kind}"
    spelled = f'asm volatile("{product} {{{names}}}, %32, %32, 1, 1, 1{turns};" : {sums} : "l"(b));'
    return SOURCE.replace("MULTIPLY", spelled)


@pytest.mark.parametrize(
    ("kind", "depth", "peak"), sample([("bf16", 16, 989.4), ("e4m3", 32, 1978.9)], every=2)
)
def test_a_kernel_that_only_multiplies_is_limited_by_its_tensor_cores(
    kind: str, depth: int, peak: float
) -> None:
    rounds, blocks = 4, H200.sm_count
    out = {"out": np.zeros(blocks * 256, np.float32)}
    options = CallOptions(level=Level.ACCOUNT, limit_s=30.0)
    source = spinning(kind, depth)
    called = run(source, out, ["out"], rounds, blocks, device="H200", options=options)
    outcome = called.outcome
    assert isinstance(outcome, CallReport), outcome
    (launch,) = outcome.launches
    operations = blocks * 2 * rounds * 4 * 2 * 64 * 64 * depth
    assert launch.figures["tensor_operations"] == operations
    assert launch.terms_us["tensor"] == pytest.approx(operations / (peak * 1e6))
    # A and B come from shared memory each time: 4 KiB a product of a warpgroup.
    passes = blocks * 2 * rounds * 4 * 32
    shared_us = passes / H200.sm_count / H200.boost_clock_mhz
    assert launch.terms_us["shared"] == pytest.approx(shared_us, rel=0.2)
    # Of one warpgroup alone, products follow each other.
    alone_us = operations / blocks / 2 * H200.sm_count / (peak * 1e6)
    waited_us = launch.terms_us["latency"] + launch.terms_us["first_turn"]
    assert waited_us > 0.9 * alone_us
    most = max(us for term, us in launch.terms_us.items() if term != "launch")
    assert launch.terms_us["shared"] == most


@pytest.mark.evidence
def test_some_blocks_stand_for_all_of_a_large_launch() -> None:
    rounds, blocks = 40, 20_000
    out = {"out": np.zeros(blocks * 256, np.float32)}
    options = CallOptions(level=Level.SAMPLE, limit_s=30.0)
    called = run(spinning("f16", 16), out, ["out"], rounds, blocks, device="H200", options=options)
    (launch,) = called.report.launches
    operations = blocks * 2 * rounds * 4 * 2 * 64 * 64 * 16
    assert launch.figures["tensor_operations"] == pytest.approx(operations)
    assert launch.terms_us["tensor"] == pytest.approx(operations / (989.4 * 1e6), rel=0.02)
