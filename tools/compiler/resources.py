"""What ptxas -v says of each kernel."""

import re
from collections.abc import Iterable
from dataclasses import replace

from cuda_llm.profile import KernelResources
from cuda_llm.tools.compiler.names import demangle, without_parameters

ENTRY = re.compile(r"Compiling entry function '([^']+)'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")
CONSTANT = re.compile(r"(\d+) bytes cmem")


def parse_resources(lines: Iterable[str]) -> tuple[KernelResources, ...]:
    """Kernels in ptxas's order, named by their symbols. Device functions are left out."""
    found: list[KernelResources] = []
    symbol, frame = "", (0, 0, 0)
    for line in lines:
        if entry := ENTRY.search(line):
            symbol = entry[1]
        elif numbers := FRAME.search(line):
            frame = (int(numbers[1]), int(numbers[2]), int(numbers[3]))
        elif symbol and (used := USED.search(line)):
            shared = SHARED.search(line)
            found.append(
                KernelResources(
                    kernel=symbol,
                    symbol=symbol,
                    registers=int(used[1]),
                    shared_bytes=int(shared[1]) if shared else 0,
                    stack_bytes=frame[0],
                    spill_store_bytes=frame[1],
                    spill_load_bytes=frame[2],
                    constant_bytes=sum(int(size) for size in CONSTANT.findall(line)),
                )
            )
            symbol = ""
    return tuple(found)


async def name_kernels(kernels: Iterable[KernelResources]) -> tuple[KernelResources, ...]:
    """The same with `kernel` as in the source: `tile<4>`, without parameters."""
    kernels = tuple(kernels)
    names = await demangle([kernel.symbol for kernel in kernels])
    return tuple(
        replace(kernel, kernel=without_parameters(names[kernel.symbol])) for kernel in kernels
    )
