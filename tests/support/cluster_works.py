"""A process that has kernels validated on a device, all its slots busy, until its input ends.

    python cluster_works.py DEVICE [WORKS]

WORKS are waited for at once, in place of as many as the device takes when it is opened.

Prints `ready`, then a line `NUMBER KERNEL CODE` for each answer.
"""

import asyncio
import sys

from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.judge import open_bench
from cuda_llm.tools.open_device import open_device
from cuda_llm.tools.validator.validate import Validated

RIGHT = """
__global__ void add(const float* A, const float* B, float* C, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) C[i] = A[i] + B[i];
}
extern "C" void solve(const float* A, const float* B, float* C, int n) {
  add<<<(n + 255) / 256, 256>>>(A, B, C, n);
}
"""
KERNELS = {"right": RIGHT, "wrong": RIGHT.replace("A[i] + B[i]", "A[i] - B[i]")}


async def main(spec: str, works: int = 0) -> None:
    """Work until standard input ends; every work that was begun is answered."""
    task, device = load_task("vector_add"), open_device(spec)
    bench = open_bench(task, device, seed=1)
    built = {name: await bench.compile(source, "source.cu") for name, source in KERNELS.items()}
    print("ready", flush=True)
    ended = asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))
    count = 0

    async def work() -> None:
        nonlocal count
        while not ended.done():
            count += 1
            number, name = count, "right" if count % 2 else "wrong"
            kernel = built[name]
            assert isinstance(kernel, Compiled)
            found = await bench.validate(kernel)
            code = "PASSED" if isinstance(found, Validated) else found.code
            print(number, name, code, flush=True)

    await asyncio.gather(*(work() for _ in range(works or device.capabilities.at_once)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
