"""Hand-written kernels on the runtime of the emulated device, run as programs."""

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cuda_llm.outcomes import InfraFailed
from cuda_llm.source_file import SourceSpot
from cuda_llm.tools.emulator import report
from cuda_llm.tools.emulator.report import CallRecord, read_report
from cuda_llm.tools.profiler.tables import BasicBlock, InstructionSite, KernelTable

RUNTIME = Path(report.__file__).parent / "runtime"
NATIVE = RUNTIME.parents[1] / "native"
"""Where the headers lie that both of our CUDA runtimes include."""
DRIVERS = Path(__file__).parents[1] / "tools" / "emulator" / "runtime" / "drivers"
ARENA_BYTES = 1 << 30
REPORT_BYTES = 1 << 20
SITES = BLOCKS = 8
FIRST_BUFFER = 8192
FAULT_EXIT = 86

TABLE = KernelTable(
    symbol="kernel",
    sites=tuple(
        InstructionSite(
            opcode=f"op{i}",
            space="global",
            kind="load",
            bytes=4,
            block=0,
            spot=SourceSpot(file="kernel.cu", line=10 * (i + 1)),
        )
        for i in range(SITES)
    ),
    blocks=tuple(
        BasicBlock(mix={}, spot=SourceSpot(file="kernel.cu", line=100 + i)) for i in range(BLOCKS)
    ),
)


@dataclass(frozen=True)
class Ran:
    """One scenario that was run."""

    status: int
    record: CallRecord
    arena: npt.NDArray[np.uint8]
    errors: str

    def words(self, offset: int, count: int) -> list[int]:
        """Little-endian words of a buffer, `offset` from where the first one starts."""
        begin = FIRST_BUFFER + offset
        return [int(x) for x in self.arena[begin : begin + 4 * count].view("<u4")]


Run = Callable[..., Ran]


INCLUDES = tuple(f"-I{folder}" for folder in (RUNTIME, NATIVE, DRIVERS))
FLAGS = ("-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", *INCLUDES)
SANITIZED = (*FLAGS, "-O0", "-g1", "-fsanitize=address,undefined")
WATCH = [DRIVERS, NATIVE / "cudart", RUNTIME / "device", RUNTIME / "emu"]


def drivers() -> list[Path]:
    return sorted(DRIVERS.glob("*.cpp"))


def start(driver: Path, name: str, *options: int, buffer: bytes = b"") -> Ran:
    """Run a scenario in a process of its own and read what it left behind.

    Fails where a sanitizer has something to say.

    `buffer` is what the first buffer holds before.
    """
    arena = os.memfd_create("arena")
    report = os.memfd_create("report")
    try:
        os.ftruncate(arena, ARENA_BYTES)
        os.ftruncate(report, REPORT_BYTES)
        os.pwrite(arena, buffer, FIRST_BUFFER)
        done = subprocess.run(
            [str(driver), name, str(arena), str(report), *map(str, options)],
            pass_fds=(arena, report),
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
            env={
                "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
                "ASAN_OPTIONS": "handle_segv=0",
            },
        )
        record = read_report(os.pread(report, REPORT_BYTES, 0), [TABLE], ["A", "B"], 1.5)
        assert not isinstance(record, InfraFailed), record
        assert "runtime error" not in done.stderr and "Sanitizer" not in done.stderr, done.stderr
        memory = np.frombuffer(os.pread(arena, 1 << 20, 0), np.uint8)
        return Ran(done.returncode, record, memory, done.stderr)
    finally:
        os.close(arena)
        os.close(report)
