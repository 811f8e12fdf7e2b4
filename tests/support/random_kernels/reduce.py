"""Leave out statements of a kernel as long as it still goes wrong.

PYTHONPATH=tests/support python -m random_kernels.reduce SEED KERNEL TARGET [FLAG ...]
"""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from random_kernels.program import Program, RandomKernel, draw_kernel
from random_kernels.tree import Node, walk
from random_kernels.trial import CALLS, FLAGS, try_program


def goes_wrong(kernel: RandomKernel, seed: int, target: str, flags: tuple[str, ...]) -> bool:
    """Is the kernel valid, and does the emulated device do something else?"""
    program = Program((kernel,))
    with tempfile.TemporaryDirectory() as folder:
        trial = try_program(
            program, seed, Path(folder), target=target, flags=(*FLAGS, *flags), calls=CALLS[1:2]
        )
        try:
            return any(difference.kernel is not None for difference in asyncio.run(trial))
        except (AssertionError, subprocess.CalledProcessError):
            return False


def main(seed: int, index: int, target: str, flags: tuple[str, ...]) -> None:
    """Reduce, print what is left."""
    kernel = draw_kernel(seed, index)
    assert goes_wrong(kernel, seed, target, flags), "it does not go wrong"
    size = 8
    while size:
        for parent in list(walk(kernel.tree)):
            at = 0
            while at < len(parent.body):
                kept: list[Node] = list(parent.body)
                parent.body = kept[:at] + kept[at + size :]
                if any(node.needed for node in kept[at : at + size]):
                    parent.body = kept
                    at += 1
                    continue
                if not goes_wrong(kernel, seed, target, flags):
                    parent.body = kept
                    at += size
        size //= 2
    print(Program((kernel,)).text())


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], tuple(sys.argv[4:]))
