"""Runners of candidates that launch nothing."""

import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from cuda_llm.tools.device import protocol
from cuda_llm.tools.device.channel import SharedMemory
from cuda_llm.tools.device.protocol import ReplyFrame, RunnerReply, StartFrame
from cuda_llm.tools.device.runner import Runner
from cuda_llm.tools.emulator.codegen.libraries import emulator_library, runtime_library
from cuda_llm.tools.emulator.device import Libraries, runner_program, start_emulated_runner
from cuda_llm.tools.native import find_gxx

FIXTURES = Path(__file__).parents[2] / "fixtures" / "runner"
RUNTIME = Path(protocol.__file__).parent.parent / "emulator" / "runtime"
ARENA_BYTES = 1 << 30
REPORT_BYTES = 4 << 20
LOAD_LIMIT_S = 120.0


Start = Callable[[Path], AbstractAsyncContextManager[Runner]]
Build = Callable[[str], Path]


@pytest.fixture(scope="session")
def build_library(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Makes a library of a fixture, as nvcc's host compiler would."""
    folder = tmp_path_factory.mktemp("libraries")

    def build(name: str) -> Path:
        target = folder / f"{name}.so"
        flags = ["-std=c++20", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-Wno-all"]
        source = str(FIXTURES / f"{name}.cpp")
        command = [find_gxx(), *flags, f"-I{RUNTIME}", source, "-o", str(target)]
        subprocess.run(command, check=True)
        return target

    return build


@pytest.fixture(scope="session")
def no_kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translated module of nothing."""
    target = tmp_path_factory.mktemp("kernels") / "kernels.so"
    source = FIXTURES / "no_kernels.cpp"
    flags = ["-std=c++20", "-shared", "-fPIC", f"-I{RUNTIME}"]
    subprocess.run([find_gxx(), *flags, source, "-o", target], check=True)
    return target


@pytest.fixture(scope="session")
def hostile(build_library: Build) -> Path:
    """The candidate that misbehaves on request."""
    return build_library("hostile")


@pytest.fixture
def start_runner(no_kernels: Path) -> Start:
    """Starts a runner and waits until it is ready; leaving the context stops it."""

    @asynccontextmanager
    async def start(candidate: Path) -> AsyncIterator[Runner]:
        arena = SharedMemory("test-arena", ARENA_BYTES)
        report = SharedMemory("test-report", REPORT_BYTES)
        libraries = Libraries(
            emulator=emulator_library(),
            kernels=no_kernels,
            cudart=runtime_library(),
            candidate=candidate,
        )
        runner = start_emulated_runner(
            runner_program(), libraries, arena.descriptor, report.descriptor
        )
        try:
            frame = StartFrame(arena_bytes=ARENA_BYTES, report_bytes=REPORT_BYTES)
            reply = await runner.exchange(frame, LOAD_LIMIT_S)
            assert isinstance(reply, ReplyFrame), reply
            assert reply.reply == RunnerReply.READY, reply.text
            yield runner
        finally:
            await runner.stop()
            arena.close()
            report.close()

    return start
