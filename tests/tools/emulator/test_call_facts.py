"""What a call shows beside its verdict: refused calls of CUDA's runtime, kernels that were never
launched, copies that no wait covers, arrays by their names, and races behind the first one."""

import asyncio

import numpy as np
import pytest
from device_calls import compiled, run

from cuda_llm.outcomes import (
    CopyUnderWay,
    DataRace,
    ElementKind,
    FailedCall,
    IllegalAccess,
    Location,
    MemoryAccess,
    SharedArray,
    UninitialisedRead,
    Verdict,
    WrongResult,
    findings_of,
)
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.device import CallOptions, CallReport, Level, Session
from cuda_llm.tools.open_device import open_emulated
from cuda_llm.tools.validator.check_case import run_case
from cuda_llm.verdict_wording import describe

X = np.arange(64, dtype=np.float32)

HOST = r"""
__global__ void copy(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }
__global__ void add(const float* x, float* y) { y[threadIdx.x] += x[threadIdx.x]; }
extern "C" void solve(const float* x, float* y, int mode)
{
    if (mode == 0) cudaMemsetAsync(y, 0, 1 << 20);                         // too many bytes
    if (mode == 1) cudaMemcpyAsync(y, x, 256, cudaMemcpyHostToDevice);     // wrong direction
    if (mode == 2) cudaFuncSetAttribute(add, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20);
    if (mode == 3) copy<<<1, 2048>>>(x, y);                                // too many threads
    if (mode == 5) for (int i = 0; i < 3; ++i) cudaFree((void*)(x + 1));   // nobody's
    if (mode == 4) copy<<<1, 64>>>(x, y); else add<<<1, 64>>>(x, y);
}
"""


def call(source: str, mode: int, level: Level = Level.CHECK) -> CallReport | Verdict:
    """Call a source once on 64 elements; `y` holds nothing before."""
    values = {"x": X, "y": np.zeros(64, np.float32)}
    return run(source, values, ["y"], mode, options=CallOptions(level=level)).outcome


def line_of(text: str, source: str) -> int:
    return source[: source.index(text)].count("\n") + 1


@pytest.mark.parametrize(
    ("mode", "function", "error", "kernel", "mark"),
    [
        (0, "cudaMemsetAsync", "cudaErrorInvalidValue", None, "// too many bytes"),
        (1, "cudaMemcpyAsync", "cudaErrorInvalidValue", None, "// wrong direction"),
        (2, "cudaFuncSetAttribute", "cudaErrorInvalidValue", "add", "cudaFuncSetAttribute"),
        (3, "cudaLaunchKernel", "cudaErrorInvalidConfiguration", "copy", "// too many threads"),
    ],
)
def test_a_refused_call_stands_beside_the_read_that_it_explains(
    mode: int, function: str, error: str, kernel: str | None, mark: str
) -> None:
    verdict = call(HOST, mode)
    assert isinstance(verdict, UninitialisedRead)
    (failed,) = verdict.failed_calls
    assert (failed.call, failed.error, failed.kernel) == (function, error, kernel)
    if mode == 3:  # Two launches of the kernel are spelled.
        assert failed.spot is None
        assert f"the launch of copy returned {error}, and solve went on" in describe(verdict)
    else:
        assert failed.spot is not None
        assert failed.spot.line == line_of(mark, HOST)
        assert any(
            f"kernel.cu:{failed.spot.line} returned {error}" in one for one in describe(verdict)
        )


def test_the_same_refused_call_is_counted() -> None:
    verdict = call(HOST, 5)
    assert isinstance(verdict, UninitialisedRead)
    assert [(one.call, one.times) for one in verdict.failed_calls] == [("cudaFree", 3)]
    assert any("(3 times), and solve went on" in one for one in describe(verdict))


def test_a_call_that_went_well_has_none() -> None:
    report = call(HOST, 4)
    assert isinstance(report, CallReport)
    assert report.failed_calls == ()


def test_a_kernel_that_should_have_written_what_is_read_is_named() -> None:
    verdict = call(HOST, 6)
    assert isinstance(verdict, UninitialisedRead)
    assert (verdict.failed_calls, verdict.unlaunched) == ((), ("copy",))
    assert "never launched in this call: copy" in describe(verdict)


ADD = r"""
__global__ void body(const float* A, const float* B, float* C, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n / 4 * 4) C[i] = A[i] + B[i];
}
__global__ void tail(const float* A, const float* B, float* C, int n)
{
    int i = n / 4 * 4 + threadIdx.x;
    if (i < n) C[i] = A[i] + B[i];
}
extern "C" void solve(const float* A, const float* B, float* C, int n)
{
    body<<<(n + 255) / 256, 256>>>(A, B, C, n);
    TAIL
}
"""


def judged(source: str, n: int) -> CallReport | Verdict:
    """One case of `vector_add`, every element compared."""

    async def case() -> CallReport | Verdict:
        device = open_emulated()
        async with device.open(await compiled(source, device.hardware.target)) as session:
            assert isinstance(session, Session)
            return await run_case(load_task("vector_add"), session, {"n": n})

    return asyncio.run(case())


def test_a_tail_whose_kernel_is_never_launched_says_so() -> None:
    verdict = judged(ADD.replace("TAIL", "if (n % 2 == 0) tail<<<1, 4>>>(A, B, C, n);"), 1003)
    assert isinstance(verdict, WrongResult)
    assert verdict.looks_like is not None
    assert verdict.looks_like.kind is ElementKind.UNWRITTEN
    assert verdict.unlaunched == ("tail",)
    assert describe(verdict)[-1] == "never launched in this call: tail"


def test_a_wrong_number_names_no_kernel_that_was_left_out() -> None:
    wrong = ADD.replace("TAIL", "if (n % 4) tail<<<1, 4>>>(A, B, C, n);").replace(
        "A[i] + B", "A[i] - B"
    )
    verdict = judged(wrong, 1000)
    assert isinstance(verdict, WrongResult)
    assert verdict.unlaunched == ()
    right = ADD.replace("TAIL", "if (n % 4) tail<<<1, 4>>>(A, B, C, n);")
    assert isinstance(judged(right, 1003), CallReport)


def test_a_wrong_number_shows_the_fill_that_was_refused() -> None:
    source = ADD.replace("TAIL", "cudaMemsetAsync(C + n - 1, 0, 64); tail<<<1, 1>>>(A, B, C, n);")
    verdict = judged(source, 1003)
    assert isinstance(verdict, WrongResult)
    (failed,) = verdict.failed_calls
    assert isinstance(failed, FailedCall)
    assert failed.call == "cudaMemsetAsync"


COPIES = r"""
#include <cuda_pipeline.h>
__global__ void scale(const float* x, float* y, int mode)
{
    __shared__ __align__(16) float unused[8];
    __shared__ __align__(16) float stage[64];
    int i = threadIdx.x;
    unused[i % 8] = 1.0f;
    __pipeline_memcpy_async(&stage[i], &x[i], 4);
    if (mode % 2 == 0) __pipeline_commit();
    if (mode == 0) __pipeline_wait_prior(1);   // leaves the only group
    else __pipeline_wait_prior(0);
    if (mode == 1) __pipeline_commit();        // after its wait
    __syncthreads();
    y[i] = stage[63 - i] * unused[0];
}
extern "C" void solve(const float* x, float* y, int mode) { scale<<<1, 64>>>(x, y, mode); }
"""


@pytest.mark.parametrize("level", [Level.CHECK, Level.FULL])
@pytest.mark.parametrize(
    ("mode", "lacks", "reason"),
    [
        (0, "wait", "no wait covers its group"),
        (
            1,
            "commit-before-wait",
            "its group was committed after the wait, which does not cover it",
        ),
        (3, "commit", "its group is not committed"),
    ],
)
def test_a_copy_that_no_wait_covers_is_named_with_its_line(
    mode: int, lacks: str, reason: str, level: Level
) -> None:
    verdict = call(COPIES, mode, level)
    assert isinstance(verdict, UninitialisedRead)
    assert verdict.spot is not None
    assert verdict.spot.line == line_of("y[i] = stage", COPIES)
    assert isinstance(verdict.copy, CopyUnderWay)
    assert verdict.copy.lacks == lacks
    assert verdict.copy.spot is not None
    assert verdict.copy.spot.line == line_of("__pipeline_memcpy_async", COPIES)
    assert any(one.endswith(f"has yet to bring these bytes: {reason}") for one in describe(verdict))


def test_a_copy_that_was_waited_for_is_no_news() -> None:
    assert isinstance(call(COPIES, 2, Level.FULL), CallReport)


ARRAYS = r"""
__device__ float neighbour(const float* part, int i) { return part[(i + 1) % 64]; }
__global__ void races(const float* x, float* y, int mode)
{
    __shared__ float first[64];
    __shared__ int second[64];
    extern __shared__ float rest[];
    int i = threadIdx.x;
    first[i] = x[i];
    second[i] = i;
    rest[i] = x[i];
    if (mode != 0) __syncthreads();
    float sum = first[63 - i];
    sum += second[(i + 33) % 64];
    sum += neighbour(rest, i + 40);
    y[i] = sum;
    if (mode == 2) first[i + 64 * 200] = sum;
    if (mode == 3 || i == 0) y[0] = sum;
}
extern "C" void solve(const float* x, float* y, int mode) { races<<<1, 64, 256>>>(x, y, mode); }
"""


def test_each_race_of_a_call_is_found_and_its_array_named() -> None:
    verdict = call(ARRAYS, 0, Level.FULL)
    assert isinstance(verdict, DataRace)
    found = findings_of(verdict)
    races = [one for one in found if isinstance(one, DataRace)]
    assert len(races) == len(found) == 3
    arrays = [one.location.array for one in races if one.location]
    assert {one.name: one.size_bytes for one in arrays if one} == {
        "first": 256,
        "second": 256,
        "rest": None,
    }
    assert all(one and 0 <= one.offset_bytes < 256 for one in arrays)
    texts = [describe(one)[0] for one in races]
    assert any("of the shared array first (256 bytes) after another" in one for one in texts)
    assert all(
        one.index == ((one.offset_bytes // 4,) if one.size_bytes else ()) for one in arrays if one
    )
    assert any("of the shared array rest after another" in one for one in texts)


LED_ASTRAY = r"""
__global__ void scatter(const float* x, float* y)
{
    __shared__ int place[96];
    int i = threadIdx.x;
    if (i >= 64)
        for (int k = 0; k < 3; ++k) place[i - 32 * k] = i - 32 * k;
    y[place[i] % 64] = x[i % 64];
}
extern "C" void solve(const float* x, float* y, int mode) { scatter<<<1, 96>>>(x, y); }
"""


def test_the_race_that_leads_to_others_comes_first() -> None:
    """The first two warps store to one element, for their places are not written yet."""
    verdict = call(LED_ASTRAY, 0, Level.FULL)
    assert isinstance(verdict, DataRace)
    assert verdict.location is not None
    assert verdict.location.array is not None
    assert verdict.location.array.name == "place"
    spaces = [one.space for one in findings_of(verdict) if isinstance(one, DataRace)]
    assert spaces == ["shared", "global"]


def test_races_of_one_call_are_found_whatever_the_order() -> None:
    values = {"x": X, "y": np.zeros(64, np.float32)}
    keys = set()
    for seed in (0, 1, 7):
        options = CallOptions(level=Level.FULL, schedule_seed=seed)
        verdict = run(ARRAYS, values, ["y"], 0, options=options).outcome
        assert isinstance(verdict, DataRace)
        lines = [(one.spot, one.other) for one in findings_of(verdict) if isinstance(one, DataRace)]
        keys.add(frozenset(frozenset(str(spot) for spot in pair) for pair in lines))
    assert len(keys) == 1


def test_a_race_in_global_memory_names_the_buffer() -> None:
    verdict = call(ARRAYS, 3, Level.FULL)
    assert isinstance(verdict, DataRace)
    assert verdict.location is not None
    assert (verdict.location.owner, verdict.location.name) == ("buffer", "y")
    assert "byte 0 of buffer y after another thread's write" in describe(verdict)[0]
    assert verdict.further == ()


def test_an_access_behind_an_array_names_the_last_one_before_it() -> None:
    verdict = call(ARRAYS, 2, Level.FULL)
    assert isinstance(verdict, IllegalAccess)
    assert isinstance(verdict.access, MemoryAccess)
    assert isinstance(verdict.access.location, Location)
    assert isinstance(verdict.access.location.array, SharedArray)
    assert verdict.access.location.array.name == "rest"


def test_synchronised_threads_have_no_race() -> None:
    assert isinstance(call(ARRAYS, 1, Level.FULL), CallReport)


INLINED = r"""
__device__ float pick(const float* x, int i)
{
    return x[i];
}
__device__ float twice(const float* x, int i)
{
    float one = pick(x, i);
    return one + one;
}
__global__ void kernel(const float* x, float* y, int mode)
{
    int i = threadIdx.x;
    y[i] = twice(x, i + 1000 * mode);
}
extern "C" void solve(const float* x, float* y, int mode) { kernel<<<1, 64>>>(x, y, mode); }
"""


def test_a_fault_in_an_inlined_function_names_the_calls_that_lead_there() -> None:
    verdict = call(INLINED, 1)
    assert isinstance(verdict, IllegalAccess)
    assert verdict.spot is not None
    assert verdict.spot.line == line_of("return x[i]", INLINED)
    callers = [one.line for one in verdict.spot.inlined_at]
    assert callers == [line_of("float one", INLINED), line_of("y[i] = twice", INLINED)]
    at = next(one for one in describe(verdict) if one.startswith("at "))
    assert at.count(", inlined at kernel.cu:") == 2
    assert at.endswith("`y[i] = twice(x, i + 1000 * mode);`")
    assert isinstance(call(INLINED, 0), CallReport)
