"""What a model may answer when it is asked for a transpose, and a model that answers by a plan.

Each kernel is complete and differs from the others, so that none is a duplicate.
"""

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from model_server import Answer, Request, Say

from cuda_llm.agents.llm.preflight import PROBE

CALL = """
extern "C" void solve(const float* input, float* output, int rows, int cols) {
    dim3 grid((cols + 31) / 32, (rows + 31) / 32);
    transpose<<<grid, dim3(32, 8)>>>(input, output, rows, cols);
}
"""

HEAD = """
__global__ void transpose(const float* __restrict__ input, float* __restrict__ output,
                          int rows, int cols) {
"""

TILED = (
    HEAD
    + """
    __shared__ float tile[32][WIDTH];
    int x = blockIdx.x * 32 + threadIdx.x;
    int y = blockIdx.y * 32;
    for (int i = threadIdx.y; i < 32; i += 8)
        if (x < cols && y + i < rows) tile[i][threadIdx.x] = input[(y + i) * cols + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32;
    for (int i = threadIdx.y; i < 32; i += 8)
        if (x < rows && y + i < cols) output[(y + i) * rows + x] = tile[threadIdx.x][i];
}
"""
    + CALL
)

BEST = TILED.replace("WIDTH", "33")
"""No bank conflicts."""

GOOD = TILED.replace("WIDTH", "32")
"""Right and faster than the baseline; its tile falls into one bank."""

SLOW = (
    HEAD
    + """
    int row = blockIdx.y * 32 + threadIdx.x;
    for (int i = threadIdx.y; i < 32; i += 8) {
        int column = blockIdx.x * 32 + i;
        if (row < rows && column < cols) {
            const volatile float* element = input + row * cols + column;
            float first = *element, second = *element, third = *element;
            output[column * rows + row] = first == second ? third : first;
        }
    }
}
"""
    + CALL
)
"""Right, and slower than the baseline: it reads down the columns, three times."""

WRONG = BEST.replace("x < rows && y + i < cols", "x < rows && y + i + 1 < cols")
"""Leaves out the last row."""

NOT_COMPILING = BEST.replace("__syncthreads();", "__sync_all_threads();")

HANGING = (
    "__device__ int flag;\n"
    + HEAD
    + "    while (atomicAdd(&flag, 0) == 0) {}\n    output[0] = input[0];\n}\n"
    + CALL
)

CRASHING = BEST.replace(
    "    dim3 grid(", "    *(volatile int*)(8 + rows - rows) = cols;\n    dim3 grid("
)
"""Its host part writes through a null pointer."""

CHEATING = """
extern "C" void solve(const float* input, float* output, int rows, int cols) {
    for (int y = 0; y < rows; ++y)
        cudaMemcpy2DAsync(output + y, rows * sizeof(float), input + (size_t)y * cols,
                          sizeof(float), sizeof(float), cols, cudaMemcpyDeviceToDevice, 0);
}
"""
"""Lets the copy engine do it; no kernel is launched."""


def fenced(source: str) -> str:
    """A reply as models write it."""
    return f"Here is the kernel.\n\n```cuda\n{source.strip()}\n```\n"


def truncated(source: str) -> Say:
    """A reply that ends at the length limit in the middle of the file."""
    text = fenced(source)
    return Say(text[: len(text) // 2], finish="length")


CRITIQUE = Say(
    '{"bottleneck": "bank conflicts", "change": "pad the tile by one column", '
    '"avoid": ["larger tiles"], "reason": "32-way conflicts at the tile"}'
)


@dataclass
class ScriptedModel:
    """A script for a ModelServer: what each new prompt of a generator is answered, try after try.

    `plan` holds a list of answers for the first, second ... different prompt that arrives. The last
    of a list is repeated, so a surplus request shows in the counts.
    """

    plan: Sequence[Sequence[Answer]]
    probes: int = 0
    critiques: int = 0
    prompts: list[str] = field(default_factory=list)
    """Different prompts of generators, in order of arrival."""
    tries: dict[str, int] = field(default_factory=dict)
    """Requests by prompt."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Answer:
        with self._lock:
            prompt = request.prompt
            if prompt == PROBE:
                self.probes += 1
                return Say("ready")
            if "response_format" in request.body:
                self.critiques += 1
                return CRITIQUE
            if prompt not in self.tries:
                self.prompts.append(prompt)
            self.tries[prompt] = self.tries.get(prompt, 0) + 1
            number = self.prompts.index(prompt)
            answers = self.plan[number] if number < len(self.plan) else [Say("no kernel is left")]
            return answers[min(self.tries[prompt], len(answers)) - 1]

    @property
    def counts(self) -> list[int]:
        """Requests of each prompt, in order of arrival."""
        return [self.tries[prompt] for prompt in self.prompts]


def without_layout(source: str) -> str:
    """A source with all white space taken out, to compare what was written and what was kept."""
    return re.sub(r"\s+", "", source)


def outcomes(attempts: Sequence[Mapping[str, object]]) -> list[str]:
    """Codes of attempts as a run's JSON lists them."""
    return [str(attempt["code"]) for attempt in attempts]
