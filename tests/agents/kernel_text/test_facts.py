"""What the text of a kernel shows."""

from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.agents.kernel_text.facts import SourceFacts
from cuda_llm.agents.kernel_text.tokens import blank_comments

KERNEL = """\
// __syncthreads() in a comment is none
__global__ void sum(const float* in, float* out, int n)
{
    __shared__ float tile[32][33];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (int k = 0; k < n; k += 32) {
        tile[threadIdx.y][threadIdx.x] = in[k];
        __syncthreads();
        if (threadIdx.x < 16) {
            __syncthreads();
        }
    }
    float4 v = reinterpret_cast<const float4*>(in)[i];
    if (threadIdx.x == 0)
        atomicAdd(out, v.x);
}

extern "C" void solve(const float* in, float* out, int n)
{
    const char* note = "} not a brace {";
    sum<<<dim3((n + 31) / 32, 1), 256, 3 * sizeof(float)>>>(in, out, n);
}
"""


def test_launches_are_read_with_their_configuration() -> None:
    (launch,) = SourceFacts(KERNEL).launches
    assert (launch.line, launch.kernel) == (22, "sum")
    assert (launch.grid, launch.block) == ("dim3((n + 31) / 32, 1)", "256")
    assert launch.shared == "3 * sizeof(float)"


def test_shared_arrays_barriers_vectors_and_atomics_are_found_by_line() -> None:
    facts = SourceFacts(KERNEL)
    assert [(one.line, one.name, one.extents) for one in facts.shared_arrays] == [
        (4, "tile", "[32][33]")
    ]
    assert facts.barriers == (9, 11)
    assert facts.vector_accesses == (14,)
    assert facts.atomics == (16,)


def test_a_barrier_under_a_branch_on_the_thread_is_distinguished_from_one_in_a_loop() -> None:
    facts = SourceFacts(KERNEL)
    branch = facts.branch_around(11)
    assert branch is not None
    assert (branch.first, branch.header) == (10, "(threadIdx.x < 16)")
    assert facts.branch_around(9) is None
    assert facts.around(9, "for")[0].header == "(int k = 0; k < n; k += 32)"


def test_an_early_return_counts_as_a_guard_of_what_follows_it() -> None:
    facts = SourceFacts(KERNEL)
    assert facts.left_early(9) == 6
    assert "(i >= n)" in facts.guards(14)
    assert facts.guards(5) == ()


def test_a_single_statement_below_an_if_is_a_block_too() -> None:
    assert "(threadIdx.x == 0)" in SourceFacts(KERNEL).guards(16)


@given(st.text(alphabet="if(){};<>/*\"\n aN_#%'\\", max_size=200))
def test_any_text_can_be_read(text: str) -> None:
    facts = SourceFacts(text)
    lines = text.count("\n") + 1
    assert all(1 <= block.first <= block.last <= lines for block in facts.blocks)
    assert all(1 <= found.line <= lines for found in facts.launches)
    assert all(1 <= found.line <= lines for found in facts.shared_arrays)
    assert blank_comments(text).count("\n") == text.count("\n")
