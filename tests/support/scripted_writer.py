"""A generator of fixed kernels for vector_add: good, slow, wrong and broken ones by turns.

Named on the command line as `tests/support/scripted_writer.py:Writer`.
"""

import asyncio

from cuda_llm.agents.situation import Situation
from cuda_llm.outcomes import NoCode
from cuda_llm.search import Author, Brief, Draft

KERNEL = """
__global__ void add(const float* a, const float* b, float* c, int n) {
    int first = (blockIdx.x * blockDim.x + threadIdx.x) * %(each)d;
    for (int i = first; i < first + %(each)d && i < n; ++i) c[i] = a[i] + b[i]%(fault)s;
}
extern "C" void solve(const float* A, const float* B, float* C, int N) {
    int threads = 256, each = threads * %(each)d;
    add<<<(N + each - 1) / each, threads>>>(A, B, C, N);
}
"""
FAULTS = ("", "", " + 1.0f", ";;oops(")
WAIT_S = 0.02


class Writer:
    """Kernel by round and index, so that every run is the same."""

    name = "scripted"
    written_by: Author = "model"

    async def generate(self, brief: Brief, situation: Situation) -> Draft | NoCode:
        """The kernel of that place."""
        await asyncio.sleep(WAIT_S)
        number = 4 * (brief.round - 1) + brief.index
        each, fault = 4 + number % 5, FAULTS[number % len(FAULTS)]
        return Draft(source=KERNEL % {"each": each, "fault": fault}, idea=f"{each} a thread")


class Bungler:
    """Nothing it writes compiles."""

    name = "bungler"
    written_by: Author = "model"

    async def generate(self, brief: Brief, situation: Situation) -> Draft | NoCode:
        """Never a kernel."""
        return Draft(source=f"{brief.id} is no kernel; solve\n")
