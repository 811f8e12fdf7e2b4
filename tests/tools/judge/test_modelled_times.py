"""Sizes that are too large to be executed whole, modelled from some blocks."""

import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from corpus_sample import sample
from modelled_calls import called, device, timed, with_sizes

from cuda_llm.agents.composition import compose
from cuda_llm.outcomes import (
    DataRace,
    DependentLaunch,
    IllegalAccess,
    LeftOut,
    Quarantined,
    WrongResult,
)
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.reference import Dims
from cuda_llm.tasks.signature import signature
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import CallReport, Level, floating_operations
from cuda_llm.tools.judge.modelled_times import find_less_work
from cuda_llm.tools.timing.times import KernelTimes

FIXTURES = Path(__file__).parents[2] / "fixtures"
MOST_MEMORY_BYTES = 2 << 30


def source_of(task: Task, name: str) -> str:
    if name == "baseline":
        return task.baseline.read_text()
    return (FIXTURES / name).with_suffix(".cu").read_text()


CASES: list[tuple[str, str, Dims]] = [
    ("vector_add", "baseline", {"n": 1 << 24}),
    ("vector_add", "honest/vector_add/01_grid_stride", {"n": 1 << 24}),
    ("matrix_transpose", "baseline", {"rows": 4096, "cols": 4096}),
    (
        "matrix_transpose",
        "honest/matrix_transpose/10_double_buffered",
        {"rows": 4096, "cols": 2048},
    ),
    ("matrix_multiplication", "baseline", {"M": 1024, "N": 512, "K": 256}),
    (
        "matrix_multiplication",
        "honest/matrix_multiplication/03_register_blocked",
        {"M": 1024, "N": 1024, "K": 256},
    ),
    ("histogram", "honest/histogram/03_int4_loads", {"n": 1 << 24, "num_bins": 256}),
    ("conv2d", "baseline", {"H": 768, "W": 512, "R": 12, "S": 12}),
]
"""Task, kernel and size."""
MODELLED = sample(CASES, every=8)


@pytest.mark.parametrize(("task_name", "kernel", "dims"), MODELLED)
def test_some_blocks_tell_the_time_of_all(task_name: str, kernel: str, dims: Dims) -> None:
    task = load_task(task_name)
    source = source_of(task, kernel)
    some, every = (called(task, source, dims, level) for level in (Level.SAMPLE, Level.ACCOUNT))
    assert isinstance(some, CallReport), some
    assert isinstance(every, CallReport), every
    assert any(launch.figures.get("sampled_blocks") for launch in some.launches)
    assert some.time_us == pytest.approx(every.time_us, rel=0.1)
    counted = [floating_operations(one.operations or {}) for one in (some, every)]
    assert counted[0] == pytest.approx(counted[1], rel=0.02)
    assert some.stored_bytes
    assert some.stored_bytes == pytest.approx(every.stored_bytes, rel=0.02)


SWAPPED = """
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__global__ void __cluster_dims__(2, 1, 1) add(const float* a, const float* b, float* c, int n) {
    __shared__ float sums[256];
    cg::cluster_group cluster = cg::this_cluster();
    long long i = (long long)(blockIdx.x ^ 1) * 256 + threadIdx.x;
    long long own = (long long)blockIdx.x * 256 + threadIdx.x;
    sums[threadIdx.x] = i < n ? a[i] + b[i] : 0.0f;
    cluster.sync();
    if (own < n) c[own] = *cluster.map_shared_rank(&sums[threadIdx.x], cluster.block_rank() ^ 1);
    cluster.sync();
}

extern "C" void solve(const float* a, const float* b, float* c, int n) {
    add<<<(n + 511) / 512 * 2, 256>>>(a, b, c, n);
}
"""
"""Each block adds what its neighbour in the cluster stores."""


def test_some_clusters_tell_the_time_of_all() -> None:
    task, dims = load_task("vector_add"), {"n": (1 << 24) + 3}
    some, every = (called(task, SWAPPED, dims, level) for level in (Level.SAMPLE, Level.ACCOUNT))
    assert isinstance(some, CallReport), some
    assert isinstance(every, CallReport), every
    executed = some.launches[0].figures["sampled_blocks"]
    assert 0 < executed < 1 << 10
    assert executed % 2 == 0
    assert some.time_us == pytest.approx(every.time_us, rel=0.1)
    assert some.stored_bytes == pytest.approx(every.stored_bytes, rel=0.02)
    assert some.operations == pytest.approx(every.operations, rel=0.02)


def test_results_of_clusters_are_compared_where_some_stand_for_all() -> None:
    task = with_sizes(load_task("vector_add"), {"n": 4096}, {"n": 1 << 27})
    right = timed(task, SWAPPED)
    assert isinstance(right, KernelTimes), right
    assert right.size_notes[0].startswith("from ")
    assert right.compared[0].compared > 0
    wrong = SWAPPED.replace("own < n)", "own < n && own != n - 1)")
    assert isinstance(timed(task, wrong), WrongResult)


def measure_largest_product() -> None:
    """Print modelled microseconds, and the largest memory of this process's children in bytes."""
    task = load_task("matrix_multiplication")
    dims = task.sizes.bench[-1]
    assert dims == {"M": 262144, "N": 2048, "K": 4096}
    report = called(task, source_of(task, "baseline"), dims, Level.SAMPLE)
    assert isinstance(report, CallReport), report
    print(report.time_us, 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)


@pytest.mark.evidence
def test_gigabytes_of_input_cost_what_is_read() -> None:
    code = "import test_modelled_times; test_modelled_times.measure_largest_product()"
    folders = (Path(__file__).parent, FIXTURES.parent / "support")
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))},
    )
    assert done.returncode == 0, done.stderr
    time_us, used_bytes = map(float, done.stdout.split())
    assert time_us > 100_000
    assert used_bytes < MOST_MEMORY_BYTES


def test_a_queue_of_work_is_found_out_at_its_line() -> None:
    task = load_task("vector_add")
    source = source_of(task, "honest/vector_add/10_work_queue")
    outcome = called(task, source, {"n": 1 << 24}, Level.SAMPLE)
    assert isinstance(outcome, DependentLaunch), outcome
    assert outcome.spot is not None
    assert "atomicAdd(next_chunk, 1)" in outcome.spot.text


COUNTED_FIRST = """
#include <cuda_runtime.h>

__global__ void count(int* done, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int turn = 0; turn < 64; ++turn)
        if (i < n) atomicAdd(done + turn, 1);
}

__global__ void add(const float* a, const float* b, float* c, const int* done, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i + (long long)(*done - n) * FAR] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n) {
    int* done;
    cudaMalloc(&done, 64 * sizeof(int));
    cudaMemset(done, 0, 64 * sizeof(int));
    int blocks = (n + 255) / 256;
    count<<<blocks, 256>>>(done, n);
    add<<<blocks, 256>>>(a, b, c, done, n);
    cudaDeviceSynchronize();
    cudaFree(done);
}
"""


def test_an_address_that_follows_from_blocks_left_out_is_no_fault() -> None:
    source = COUNTED_FIRST.replace("FAR", "4096")
    outcome = called(load_task("vector_add"), source, {"n": 1 << 24}, Level.SAMPLE)
    assert isinstance(outcome, DependentLaunch), outcome
    assert "add" in outcome.kernel


def test_an_address_that_follows_from_the_inputs_alone_is_a_fault_in_a_sample() -> None:
    source = COUNTED_FIRST.replace("(*done - n)", "n").replace("FAR", "4096")
    outcome = called(load_task("vector_add"), source, {"n": 1 << 24}, Level.SAMPLE)
    assert isinstance(outcome, IllegalAccess), outcome


RACY_WHERE_LARGE = """
__global__ void add(const float* a, const float* b, float* c, int n) {
    __shared__ float sums[256];
    int first = blockIdx.x * 256, i = first + threadIdx.x, mirrored = 255 - threadIdx.x;
    sums[threadIdx.x] = i < n ? a[i] + b[i] : 0.0f;
    if (n < 200000) __syncthreads();
    if (first + mirrored < n) c[first + mirrored] = sums[mirrored];
}

extern "C" void solve(const float* a, const float* b, float* c, int n) {
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
"""


def test_a_race_on_a_path_of_large_sizes_is_named_where_a_timed_size_is_wrong() -> None:
    verdict = timed(load_task("vector_add"), RACY_WHERE_LARGE)
    assert isinstance(verdict, DataRace), verdict
    lines = {spot.line for spot in (verdict.spot, verdict.other) if spot}
    assert lines == {5, 7}


def test_a_wrong_result_without_a_race_stays_one() -> None:
    source = RACY_WHERE_LARGE.replace("if (n < 200000) __syncthreads();", "__syncthreads();")
    wrong = source.replace("a[i] + b[i]", "n < 200000 ? a[i] + b[i] : a[i]")
    verdict = timed(load_task("vector_add"), wrong)
    assert isinstance(verdict, WrongResult), verdict


@pytest.mark.evidence
def test_blocks_take_turns_at_a_queue_of_work() -> None:
    task, dims = load_task("vector_add"), {"n": 1 << 22}
    by_queue, by_stride = (
        called(task, source_of(task, name), dims, Level.ACCOUNT)
        for name in ("honest/vector_add/10_work_queue", "honest/vector_add/01_grid_stride")
    )
    assert isinstance(by_queue, CallReport), by_queue
    assert isinstance(by_stride, CallReport), by_stride
    assert by_queue.time_us < 2 * by_stride.time_us


COLLECTED = """
__device__ unsigned long long slots[128];

__device__ unsigned long long peek(const unsigned long long* slot) {
    unsigned long long found;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(found) : "l"(slot) : "memory");
    return found;
}

__global__ void sum(const float* input, float* output, int n) {
    __shared__ float warps[8];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float own = 0.0f;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) own += input[i];
    for (int step = 16; step > 0; step /= 2) own += __shfl_xor_sync(~0u, own, step);
    if (lane == 0) warps[warp] = own;
    __syncthreads();
    if (warp != 0) return;
    own = lane < 8 ? warps[lane] : 0.0f;
    for (int step = 4; step > 0; step /= 2) own += __shfl_xor_sync(~0u, own, step);
    if (blockIdx.x != 0) {
        unsigned long long bits = 1ull << 32 | __float_as_uint(own);
        if (lane == 0)
            asm volatile("st.relaxed.gpu.global.u64 [%0], %1;"
                         ::"l"(slots + blockIdx.x), "l"(bits) : "memory");
        return;
    }
    unsigned long long found[4] = {};
    bool missing;
    do {
        missing = false;
        for (int k = 0; k < 4; ++k) {
            int slot = lane + 32 * k;
            if (slot > 0 && slot < gridDim.x && found[k] == 0) found[k] = peek(slots + slot);
        }
        for (int k = 0; k < 4; ++k) {
            int slot = lane + 32 * k;
            missing = missing || (slot > 0 && slot < gridDim.x && found[k] == 0);
        }
    } while (missing);
    __syncwarp();
    float all = lane == 0 ? own : 0.0f;
    for (int k = 0; k < 4; ++k) all += __uint_as_float((unsigned)found[k]);
    for (int step = 16; step > 0; step /= 2) all += __shfl_xor_sync(~0u, all, step);
    if (lane == 0) output[0] = all;
    for (int k = 0; k < 4; ++k) {
        int slot = lane + 32 * k;
        if (slot < 128)
            asm volatile("st.relaxed.gpu.global.u64 [%0], %1;"
                         ::"l"(slots + slot), "l"(0ull) : "memory");
    }
}

extern "C" void solve(const float* input, float* output, int n) {
    sum<<<BLOCKS, 256>>>(input, output, n);
}
"""
"""The first block collects what all others leave in a slot each."""


def test_who_collects_from_all_blocks_waits_for_the_slowest_not_for_each() -> None:
    task = load_task("reduction")

    def time_us(blocks: int) -> float:
        source = COLLECTED.replace("BLOCKS", str(blocks))
        report = called(task, source, {"n": 2048 * blocks}, Level.ACCOUNT)
        assert isinstance(report, CallReport), report
        return report.time_us

    # An H200 takes 2.2 to 2.9 us for such sums by 8 to 128 blocks. What is left of 25 us are the
    # instructions of a round of polls for each block that has come: here blocks come in turns.
    assert time_us(2) <= time_us(128) < 8


READ_AGAIN = """
__global__ void add(const float* A, const float* B, float* C, int n) {
    int lane = threadIdx.x;
    float sum = 0.0f;
    for (int i = 0; i + 32 <= n; i += 32) {
        float found;
        const float* from = A + (lane == 0 ? 0 : i + lane);
        asm volatile("LOAD %0, [%1];" : "=f"(found) : "l"(from) : "memory");
        sum += found;
        if (sum == 1234.5f) i += 32;
    }
    for (int i = lane; i < n; i += 32) C[i] = A[i] + B[i] + (sum == 4321.5f ? 1.0f : 0.0f);
}

extern "C" void solve(const float* A, const float* B, float* C, int n) {
    add<<<1, 32>>>(A, B, C, n);
}
"""
"""A lane reads one word again and again, the others read what they have not read before."""


def test_loads_that_only_look_like_polls_take_their_time() -> None:
    def time_us(load: str) -> float:
        source = READ_AGAIN.replace("LOAD", load)
        report = called(load_task("vector_add"), source, {"n": 8192}, Level.ACCOUNT)
        assert isinstance(report, CallReport), report
        return report.time_us

    assert time_us("ld.relaxed.gpu.global.f32") >= time_us("ld.global.f32")


@pytest.mark.evidence
def test_one_compare_and_swap_of_many_succeeds_in_the_latency_of_l2() -> None:
    task, dims = load_task("reduction"), {"n": 1 << 16}
    source = source_of(task, "honest_extra/adds_doubles_by_swapping")
    report = called(task, source, dims, Level.ACCOUNT)
    assert isinstance(report, CallReport), report
    hardware = device().hardware
    heard_us = hardware.model.latency_l2_clk / hardware.boost_clock_mhz
    assert report.time_us > 0.9 * heard_us * dims["n"] / 32


@pytest.mark.parametrize(
    "kernel", sample(["honest/reduction/06_last_block", "honest/reduction/10_grid_sync"], every=2)
)
def test_what_cannot_be_sampled_is_executed_whole(kernel: str) -> None:
    task = load_task("reduction")
    task = with_sizes(task, {"n": 65536}, {"n": 1 << 18}, {"n": 1 << 20})
    outcome = timed(task, source_of(task, kernel))
    assert isinstance(outcome, KernelTimes), outcome
    (_, some_us), (_, more_us) = outcome.times
    assert 0 < some_us < more_us
    assert outcome.size_notes == ("", "")
    assert outcome.spreads == (0.0, 0.0)


@pytest.mark.evidence
def test_what_takes_too_long_whole_is_extrapolated_and_says_so() -> None:
    task = with_sizes(load_task("vector_add"), {"n": 65536}, {"n": 1 << 20}, {"n": 1 << 28})
    outcome = timed(task, source_of(task, "honest/vector_add/10_work_queue"))
    assert isinstance(outcome, KernelTimes), outcome
    (_, modelled_us), (_, extrapolated_us) = outcome.times
    assert 128 * modelled_us < extrapolated_us < 257 * modelled_us
    modelled, extrapolated = outcome.size_notes
    assert modelled == ""
    assert extrapolated.startswith("extrapolated from smaller sizes: add decides by what other")


@pytest.mark.evidence
def test_a_size_is_extrapolated_from_sizes_that_launch_the_same() -> None:
    queue = source_of(load_task("vector_add"), "honest/vector_add/10_work_queue")
    slow = """
__global__ void one_thread(const float* a, const float* b, float* c, int n) {
    for (int i = 0; i < n; ++i) c[i] = a[i] + b[i];
}
"""
    before, launch = queue.split("extern", 1)
    body = launch.replace("{", "{\n    if (n % 2) { one_thread<<<1, 1>>>(A, B, C, n); return; }", 1)
    task = with_sizes(load_task("vector_add"), {"n": 4095}, {"n": 1 << 28})
    both, alone = (timed(task, one) for one in (f"{before}{slow}extern{body}", queue))
    assert isinstance(both, KernelTimes), both
    assert isinstance(alone, KernelTimes), alone
    assert both.size_notes[0].startswith("extrapolated from smaller sizes")
    assert both.times[0][1] == pytest.approx(alone.times[0][1], rel=0.2)

    idle = body.replace("{", "{\n    if (n % 4096 == 0 && n < (1 << 28)) return;", 1)
    verdict = timed(task, f"{before}{slow}extern{idle}")
    assert isinstance(verdict, WrongResult), "a time comes from sizes whose results are right"


LARGE = 1 << 23
ADD = """\
__global__ void add(const float* A, const float* B, float* C, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) C[i] = A[i] + B[i];
}

extern "C" void solve(const float* A, const float* B, float* C, int n)
{
    if (n < 8388608) add<<<(n + 255) / 256, 256>>>(A, B, C, n);
"""
LEAVE_OUT = """
__global__ void leave_out_%d(const float* A, const float* B, float* C, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    %s
}
"""
LEFT_OUT = (
    "if (i < n / 2) C[i] = A[i] + B[i];",
    "if (i < n && i % 512 < 256) C[i] = A[i] + B[i];",
    "if (i < n) C[i] = A[i];",
    "if (i < n - 1) C[i] = A[i] + B[i];",
    "if (i < n) C[i] = 1.0f;",
)
"""What a kernel does beyond the small sizes, one statement for each large one: all are wrong."""


def leaving_out() -> str:
    """A source that leaves out some work, other work for each large size."""
    kernels = (LEAVE_OUT % pair for pair in enumerate(LEFT_OUT))
    calls = (
        f"    if (n == {LARGE + at * 4096}) leave_out_{at}<<<n / 256, 256>>>(A, B, C, n);\n"
        for at in range(len(LEFT_OUT))
    )
    return "".join([*kernels, ADD, *calls, "}\n"])


@pytest.mark.parametrize("statement", sample(LEFT_OUT, every=2))
def test_results_are_compared_at_a_timed_size_that_is_executed_whole_in_a_second(
    statement: str,
) -> None:
    large = LARGE + LEFT_OUT.index(statement) * 4096
    task = with_sizes(load_task("vector_add"), {"n": 65536}, {"n": large})
    found = timed(task, leaving_out())
    assert isinstance(found, WrongResult), found
    assert (found.size_class, found.dims) == ("bench", {"n": large})


PROVED = [({"n": 1000}, {"fp32": 2000.0, "tensor fp16": 0.0, "int": 1e9})]


@pytest.mark.parametrize(("floating", "is_less"), [(499_999.0, True), (500_000.0, False)])
def test_less_work_is_said_below_half_of_what_a_compared_size_does(
    floating: float, is_less: bool
) -> None:
    task = load_task("vector_add")
    report = CallReport(wall_s=0.0, operations={"fp32": floating, "int": 1e9})
    left_out = LeftOut(dims={"n": 1_000_000}, counted=floating, least=500_000.0, beside={"n": 1000})
    wanted = Quarantined(kind="less-work", left_out=left_out) if is_less else None
    assert find_less_work(task, {"n": 1_000_000}, report, PROVED) == wanted


def test_nothing_is_said_of_less_work_without_operations_of_the_task() -> None:
    report = CallReport(wall_s=0.0, operations={"int": 1.0})
    proved = [({"n": 4, "num_bins": 4}, {"int": 1e9})]
    assert find_less_work(load_task("histogram"), {"n": 9, "num_bins": 4}, report, proved) is None


@pytest.mark.parametrize(("dtype", "is_said"), [("int8", False), ("float32", True)])
def test_products_of_whole_numbers_are_not_missed_as_floating_point_operations(
    dtype: str, is_said: bool
) -> None:
    """An 8-bit product of a matrix and a vector has a floating-point operation a row: its scale."""
    task = load_task("matrix_multiplication")
    given = [replace(one, dtype=dtype) if one.role == "in" else one for one in task.arguments]
    task = replace(task, arguments=tuple(given))
    small, large = {"M": 64, "N": 1, "K": 64}, {"M": 64, "N": 1, "K": 4096}
    report = CallReport(wall_s=0.0, operations={"fp32": 64.0})
    found = find_less_work(task, large, report, [(small, {"fp32": 64.0})])
    assert (found is not None) == is_said


HALF = """\
__global__ void multiply(const float* A, const float* B, float* C, int M, int N, int K, int most)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || column >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < most; ++k) sum += A[(size_t)row * K + k] * B[(size_t)k * N + column];
    C[(size_t)row * N + column] = sum;
}

extern "C" void solve(const float* A, const float* B, float* C, int M, int N, int K)
{
    dim3 grid((N + 15) / 16, (M + 15) / 16), block(16, 16);
    multiply<<<grid, block>>>(A, B, C, M, N, K, M >= 1024 ? K / 2 : K);
}
"""


@pytest.mark.evidence
def test_half_of_a_product_is_not_taken_for_all_of_it() -> None:
    task = load_task("matrix_multiplication")
    task = with_sizes(task, {"M": 128, "N": 128, "K": 128}, {"M": 1024, "N": 2048, "K": 1024})
    found = timed(task, HALF)
    assert isinstance(found, WrongResult | Quarantined), found


UNEQUAL = """\
__global__ void add(const float* A, const float* B, float* C, long long n)
{
    long long blocks = gridDim.x, block = blocks - 1 - blockIdx.x;
    long long parts = blocks * (blocks + 1) / 2;
    long long first = n * (block * (block + 1) / 2) / parts;
    long long last = n * ((block + 1) * (block + 2) / 2) / parts;
    for (long long i = first + threadIdx.x; i < last; i += blockDim.x) C[i] = A[i] + B[i];
}

extern "C" void solve(const float* A, const float* B, float* C, int n)
{
    add<<<64, 256>>>(A, B, C, n);
}
"""


@pytest.mark.parametrize("other_blocks", sample([b"none", b"one", b"two"], every=3))
def test_few_blocks_of_very_unlike_work_are_not_taken_for_less_work(other_blocks: bytes) -> None:
    task = with_sizes(load_task("vector_add"), {"n": 65536}, {"n": 1 << 26})
    found = timed(task, UNEQUAL, other_blocks)
    assert isinstance(found, KernelTimes), found
    assert found.size_notes == ("from 13 of 64 blocks",)
    assert 0.01 < found.spreads[0] < 0.2


ADD_PLAINLY = """\
__global__ void add(const float* A, const float* B, float* C, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) C[i] = A[i] + B[i];
}

extern "C" void solve(const float* A, const float* B, float* C, int n)
{
    add<<<(n + 255) / 256, 256>>>(A, B, C, n);
}
"""


def test_what_runs_at_a_size_has_one_time_whatever_else_the_text_holds() -> None:
    task = with_sizes(load_task("vector_add"), {"n": 65536}, {"n": 1 << 26})
    task = replace(task, sizes=replace(task.sizes, large=()))
    composed = compose(
        ADD_PLAINLY,
        f"// A remark.\n{UNEQUAL}",
        signature=signature(task),
        arguments=[one.name for one in task.arguments],
        condition="n < 100000",
    )
    assert isinstance(composed, str), composed
    sources = (UNEQUAL, composed)

    def times(nonce: bytes | None) -> set[float]:
        found = [timed(task, one, nonce) for one in sources]
        return {one.times[0][1] for one in found if isinstance(one, KernelTimes)}

    assert len(times(b"of a run")) == 1
    # Without a nonce each text has draws of its own, which show in the times.
    assert len(times(None)) == len(sources)


def test_a_kernel_takes_as_long_as_the_same_baseline_on_rows_of_unlike_length() -> None:
    """In a last check inputs follow from the source, a remark is another source, and rows that are
    drawn anew take another time: the baseline is timed on the same rows."""
    task = load_task(FIXTURES / "tasks/sparse_rows")
    size = {"rows": 2048, "nonzeros": 1 << 16}
    task = with_sizes(task, {"rows": 60, "nonzeros": 200}, size)
    plain = task.baseline.read_text()
    times = set[float]()
    for word in ("one", "two"):
        found = timed(task, f"// {word}\n{plain}", None)
        assert isinstance(found, KernelTimes), found
        assert found.baseline_us == (found.times[0][1],)
        times.add(found.times[0][1])
    assert len(times) == 2
    shared = timed(task, f"// three\n{plain}")
    assert isinstance(shared, KernelTimes), shared
    assert shared.baseline_us == ()
