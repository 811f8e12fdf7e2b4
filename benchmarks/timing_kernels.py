"""The kernels whose times are repeated: from a few microseconds to a millisecond."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import record

from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task

HONEST = record.ROOT / "tests/fixtures/honest"
SPIN = """extern "C" __global__ void spin(const float* A, const float* B, float* C, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = A[i];
  for (int k = 0; k < %d; ++k) x = fmaf(x, 0.999f, 0.001f);
  C[i] = A[i] + B[i] + (x == 12345.678f ? 1.0f : 0.0f);
}
extern "C" void solve(const float* A, const float* B, float* C, int n) {
  spin<<<(n + 255) / 256, 256>>>(A, B, C, n);
}
"""
"""Right, and as slow as its loop is long: four clocks a turn, whatever memory does."""
SPIN_SIZE: Mapping[str, int] = {"n": 65536}
TURNS = {"5 us": 1_900, "50 us": 23_000, "1 ms": 480_000}
MIX = ("5 us", *4 * ("50 us", "1 ms"), "50 us")
"""Of trials, which take longest where a call is short."""
SHORT = ("spinning 5 us", "matrix_transpose 01_tiled_padded.cu 1024 x 1024")
"""Of less than 10 us: a profiler's own share of a call counts."""


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One kernel of one task at one size."""

    name: str
    task: str
    dims: Mapping[str, int]
    source: str

    def load(self) -> Task:
        """Load its task with this size alone."""
        task = load_task(self.task)
        return replace(task, sizes=replace(task.sizes, bench=(self.dims,)), weights=())


def spinning(turns: int, name: str) -> Kernel:
    """Return a kernel whose time is known to be linear in `turns`."""
    return Kernel(name=name, task="vector_add", dims=SPIN_SIZE, source=SPIN % turns)


def honest(task: str, file: str, **dims: int) -> Kernel:
    """Return one of the honest fixtures."""
    size = " x ".join(str(extent) for extent in dims.values())
    source = (HONEST / task / file).read_text()
    return Kernel(name=f"{task} {file} {size}", task=task, dims=dims, source=source)


NOTHING = spinning(1, "spinning no time")
"""A call that is hardly more than its launch."""


def kernels() -> tuple[Kernel, ...]:
    """Return kernels of a few us to 1 ms: bound by latency, by memory, by arithmetic."""
    return (
        *(spinning(turns, f"spinning {name}") for name, turns in TURNS.items()),
        honest("matrix_transpose", "01_tiled_padded.cu", rows=1024, cols=1024),
        honest("matrix_transpose", "01_tiled_padded.cu", rows=4096, cols=4096),
        honest("vector_add", "02_float4_tail.cu", n=4194304),
        honest("vector_add", "02_float4_tail.cu", n=67108864),
        honest("matrix_multiplication", "03_register_blocked.cu", M=1024, N=2048, K=1024),
        honest("conv2d", "02_constant_filter.cu", H=1024, W=1024, R=24, S=24),
    )
