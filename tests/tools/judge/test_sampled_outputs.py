"""Outputs of a call too large to be executed whole, compared where its executed blocks stored."""

import pytest
from corpus_sample import sample
from modelled_calls import called, timed, with_sizes

from cuda_llm.outcomes import WrongResult
from cuda_llm.profile import Compared
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.device import CallReport, Level
from cuda_llm.tools.timing.times import KernelTimes

LARGE = (1 << 27) + 5
ADD = """\
__global__ void add(const float* A, const float* B, float* C, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) C[i] = A[i] + (%s ? 0.0f : B[i]);
}

extern "C" void solve(const float* A, const float* B, float* C, int n)
{
    add<<<(n + 255) / 256, 256>>>(A, B, C, n);
}
"""
WRONG = {
    "in the last block": "n > 1 << 20 && blockIdx.x == gridDim.x - 1",
    "in the first block": "n > 1 << 20 && blockIdx.x == 0",
    "in one element of each block": "n > 1 << 20 && threadIdx.x == 77",
}
IN_PLACE = """\
__global__ void copy(const float* A, float* C, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) C[i] = A[i];
}

__global__ void add(const float* B, float* C, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) C[i] += B[i];
}

extern "C" void solve(const float* A, const float* B, float* C, int n)
{
    copy<<<(n + 255) / 256, 256>>>(A, C, n);
    add<<<(n + 255) / 256, 256>>>(B, C, n);
}
"""


def timed_at_large(source: str) -> object:
    return timed(with_sizes(load_task("vector_add"), {"n": 65536}, {"n": LARGE}), source)


@pytest.mark.parametrize("where", sample(WRONG, every=2))
def test_a_wrong_element_of_an_executed_block_is_found(where: str) -> None:
    found = timed_at_large(ADD % WRONG[where])
    assert isinstance(found, WrongResult), found
    assert (found.size_class, found.dims, found.buffer) == ("bench", {"n": LARGE}, "C")


def test_what_the_executed_blocks_stored_is_compared_and_counted() -> None:
    found = timed_at_large(ADD % "false")
    assert isinstance(found, KernelTimes), found
    (compared,) = found.compared
    assert compared.elements == LARGE
    assert 100 * 256 < compared.compared < LARGE
    assert compared.why_not == "costly"


def test_what_follows_from_blocks_that_are_not_executed_is_not_compared() -> None:
    found = timed_at_large(IN_PLACE)
    assert isinstance(found, KernelTimes), found
    assert found.compared == (Compared(elements=LARGE, compared=0, why_not="mixed"),)


SCRATCH = """\
__global__ void sum(const float* input, float* output, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (input[i] != input[i]) __trap();
    atomicAdd(output, input[i]);
}

extern "C" void solve(const float* input, float* output, int n)
{
    float* scratch;
    cudaMalloc(&scratch, 4 * (size_t)n);
    cudaMemset(scratch, 0xff, 4 * (size_t)n);
    cudaMemset(output, 0, 4);
    sum<<<(n + 255) / 256, 256>>>(input, output, n);
    cudaFree(scratch);
}
"""


def test_scratch_lies_on_nothing_that_inputs_are_filled_from() -> None:
    task = load_task("dot_product")
    two = SCRATCH.replace("float* input,", "float* input, const float* b,").replace(
        "(input, output", "(input, b, output"
    )
    found = called(task, two, {"n": 1 << 22}, Level.SAMPLE)
    assert isinstance(found, CallReport), found
