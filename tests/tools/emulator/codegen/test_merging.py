"""Neighbouring accesses of shared memory are counted as ptxas makes them.

What `neighbours.cu` becomes was read off the machine code of ptxas 13.0 for sm_75, sm_86 and sm_90.
"""

import asyncio
from collections import Counter

import numpy as np
import pytest
from corpus_sample import sample
from device_calls import run
from kernel_runs import compiled

from cuda_llm.tools.device import CallOptions, Level
from cuda_llm.tools.emulator.call_report import EmulatedCallReport
from cuda_llm.tools.emulator.codegen.module import generate
from cuda_llm.tools.emulator.ptx.parse import parse
from cuda_llm.tools.profiler.counters import SiteCounters
from cuda_llm.tools.profiler.tables import InstructionClass, KernelTable

TARGETS = sample(("sm_86", "sm_90"), every=2)


@pytest.fixture(scope="module", params=TARGETS)
def kernels(request: pytest.FixtureRequest) -> dict[str, KernelTable]:
    """The tables of `neighbours.cu`, by name."""
    made = asyncio.run(compiled("neighbours", request.param))
    return tables(made.ptx.read_text())


def tables(ptx: str) -> dict[str, KernelTable]:
    return {one.symbol: one for one in generate(parse(ptx, "k.cu"), (), "k.cu", "").kernels}


def widths(kernel: KernelTable, kind: str) -> str:
    """How many loads or stores there are of each width, as `4:2 8:1`."""
    sites = [one for one in kernel.sites if one.space == "shared" and one.kind == kind]
    found = Counter(max(one.width, 4) for one in sites if one.width)
    return " ".join(f"{width}:{found[width]}" for width in sorted(found))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("stores", "16:1"),
        ("stores_backwards", "16:1"),
        ("stores_mixed_up", "16:1"),
        ("stores_three", "4:1 8:1"),
        ("stores_in_pairs", "8:2"),
        ("stores_apart", "4:4"),
        ("stores_from_one_on", "4:2 8:1"),
        ("stores_of_any_row", "16:1"),
        ("stores_swizzled", "16:1"),
        ("stores_at_a_minimum", "4:4"),
        ("stores_in_turns", "4:4"),
        ("stores_around_a_load", "8:2"),
        ("stores_around_a_barrier", "8:2"),
        ("stores_if", "16:1"),
        ("stores_if_each", "4:2"),
        ("stores_volatile", "4:4"),
        ("stores_doubles", "16:2"),
        ("stores_shorts", "8:1"),
        ("stores_bytes", "4:4"),
        ("dynamic", "16:1"),
    ],
)
def test_stores_are_merged_as_ptxas_does(
    kernels: dict[str, KernelTable], name: str, expected: str
) -> None:
    assert widths(kernels[name], "store") == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("loads", "16:1"),
        ("loads_three", "16:1"),
        ("loads_two", "8:1"),
        ("loads_first_and_third", "4:2"),
        ("loads_in_pairs", "8:2"),
        ("loads_of_two_rows", "16:2"),
        ("loads_around_a_store", "8:2"),
        # nvcc unrolls the loop: four rounds, and one for the rest.
        ("loads_in_a_loop", "8:2 16:4"),
        ("loads_of_a_shifting_loop", "4:8 8:6"),
        ("loads_bytes", "4:4"),
    ],
)
def test_loads_are_merged_as_ptxas_does(
    kernels: dict[str, KernelTable], name: str, expected: str
) -> None:
    assert widths(kernels[name], "load") == expected


@pytest.mark.parametrize(
    ("target", "expected"), sample([("sm_86", "4:1 16:1"), ("sm_90", "4:5")], every=2)
)
def test_a_variable_that_is_not_aligned_is_where_ptxas_puts_it(target: str, expected: str) -> None:
    """Up to sm_89 shared memory begins at zero, and ptxas knows where the variable is."""
    made = asyncio.run(compiled("neighbours", target))
    found = tables(made.ptx.read_text())["behind_three_words"]
    assert widths(found, "store") == expected


def test_what_is_merged_takes_one_slot(kernels: dict[str, KernelTable]) -> None:
    together, apart = (
        sum(block.mix.get(InstructionClass.LOAD_STORE, 0) for block in kernels[name].blocks)
        for name in ("stores", "stores_apart")
    )
    assert apart - together == 3


STEPS = """
.visible .entry k(.param .u32 n) {
  .reg .b32 %r<20>; .reg .f32 %f<20>; .reg .b16 %h<9>; .reg .pred %p<3>; .reg .b64 %rd<9>;
  .shared .align 16 .b8 s[4096];
  ld.param.u32 %r1, [n]; mov.u32 %r2, s; shl.b32 %r3, %r1, 4; add.s32 %r4, %r2, %r3;
"""


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ("ld.shared.v2.f32 {%f1, %f2}, [%r4]; ld.shared.f32 %f3, [%r4+8];", "16:1"),
        ("ld.shared.f32 %f1, [%r4]; ld.shared.b32 %r5, [%r4+4];", "8:1"),
        ("ld.shared.f32 %f1, [%r4]; bar.sync 0; ld.shared.f32 %f2, [%r4+4];", "4:2"),
        ("ld.shared.f32 %f1, [%r4]; membar.cta; ld.shared.f32 %f2, [%r4+4];", "4:2"),
        ("ld.shared.f32 %f1, [%r4]; st.f32 [%rd1], %f1; ld.shared.f32 %f2, [%r4+4];", "4:2"),
        ("ld.shared.f32 %f1, [%r4]; st.global.f32 [%rd1], %f1; ld.shared.f32 %f2, [%r4+4];", "8:1"),
        (
            "ld.shared.f32 %f1, [%r4]; atom.shared.add.f32 %f3, [%r2], %f1; "
            "ld.shared.f32 %f2, [%r4+4];",
            "4:2",
        ),
        ("@%p1 ld.shared.f32 %f1, [%r4]; @!%p1 ld.shared.f32 %f2, [%r4+4];", "4:2"),
        ("ld.shared.f32 %f1, [%r4]; add.s32 %r4, %r4, 4; ld.shared.f32 %f2, [%r4];", "8:1"),
        ("ld.shared.f32 %f1, [%r4]; add.s32 %r4, %r4, %r1; ld.shared.f32 %f2, [%r4+4];", "4:2"),
        (
            "or.b32 %r5, %r3, 4; add.s32 %r5, %r5, %r2; "
            "ld.shared.f32 %f1, [%r4]; ld.shared.f32 %f2, [%r5];",
            "8:1",
        ),
        # ptxas does not add up factors: of 12 n + 4 n it knows two bits.
        (
            "shl.b32 %r5, %r1, 2; mad.lo.s32 %r6, %r1, 12, %r5; "
            "ld.shared.f32 %f1, [%r6]; ld.shared.f32 %f2, [%r6+4];",
            "4:2",
        ),
        # A vector tells that the address is aligned.
        (
            "ld.shared.v2.f32 {%f1, %f2}, [%r1]; "
            "ld.shared.f32 %f3, [%r1+8]; ld.shared.f32 %f4, [%r1+12];",
            "8:2",
        ),
        ("ld.shared.b16 %h1, [%r4]; ld.shared.b16 %h2, [%r4+2];", "4:1"),
        ("ld.shared.u16 %r5, [%r4]; ld.shared.u16 %r6, [%r4+2];", "4:2"),
    ],
)
def test_steps_between_and_addresses_are_followed_as_far_as_ptxas_does(
    statements: str, expected: str
) -> None:
    text = f".version 9.0\n.target sm_90\n.address_size 64\n{STEPS}{statements} ret; }}"
    assert widths(tables(text)["k"], "load") == expected


SPELLINGS = {
    "as one": "*(float4*)(s + i) = make_float4(a, b, c, d);",
    "as four": "s[i] = a; s[i + 1] = b; s[i + 2] = c; s[i + 3] = d;",
    "backwards": "s[i + 3] = d; s[i + 2] = c; s[i + 1] = b; s[i] = a;",
    "as two": "*(float2*)(s + i) = make_float2(a, b); *(float2*)(s + i + 2) = make_float2(c, d);",
}

ROWS = """
__global__ void turn(const float* in, float* out, int n) {
    __shared__ float s[128 * 36];
    int t = threadIdx.x, i = t * 36;
    float a = in[t], b = in[t + 128], c = in[t + 256], d = in[t + 384];
    STORE
    __syncthreads();
    out[t] = s[(t ^ 1) * 36 + n];
}
extern "C" void solve(const float* in, float* out, int n) { turn<<<1, 128>>>(in, out, n); }
"""


def stores_of(spelling: str) -> SiteCounters:
    """The counters of all stores to shared memory of a kernel that is right."""
    inputs = np.arange(512, dtype=np.float32)
    values = {"in": inputs, "out": np.zeros(128, np.float32)}
    source = ROWS.replace("STORE", SPELLINGS[spelling])
    called = run(source, values, ["out"], 2, options=CallOptions(level=Level.ACCOUNT))
    assert called.outputs["out"].tolist() == [inputs[(t ^ 1) + 256] for t in range(128)]
    report = called.report
    assert isinstance(report, EmulatedCallReport)
    (launch,) = report.accounts
    stores = [one for one in launch.sites if one.wavefronts]
    # The load comes last.
    assert [one.requests for one in stores] == [4, 4]
    return stores[0]


def test_four_spellings_of_a_store_have_the_same_counters() -> None:
    found = {spelling: stores_of(spelling) for spelling in sample(SPELLINGS, every=2)}
    expected = found["as one"]
    assert (expected.wavefronts, expected.ideal_wavefronts, expected.worst_ways) == (16, 16, 1)
    assert all(one == expected for one in found.values())
