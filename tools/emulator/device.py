"""The emulated device: nvcc's own output, run on the CPU."""

import hashlib
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from cuda_llm.capabilities import Capabilities
from cuda_llm.errors import InfrastructureError
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.roofline import wgmma_per_clk
from cuda_llm.outcomes import Verdict
from cuda_llm.settings import settings
from cuda_llm.tools.device import Session, T, Work
from cuda_llm.tools.device.buffers import HOST, Arrays
from cuda_llm.tools.device.candidate import Baseline, Compiled
from cuda_llm.tools.device.channel import RunnerSocket, SharedMemory
from cuda_llm.tools.device.child import spawn
from cuda_llm.tools.device.protocol import DeviceFacts, ReplyFrame, RunnerReply, StartFrame
from cuda_llm.tools.device.runner import Runner
from cuda_llm.tools.device.verdicts import load_failed
from cuda_llm.tools.emulator.call_report import LoadedCandidate, verdict_on_end
from cuda_llm.tools.emulator.codegen.libraries import emulator_library, runtime_library, translate
from cuda_llm.tools.emulator.library_session import HostLibrarySession
from cuda_llm.tools.emulator.report import read_report
from cuda_llm.tools.emulator.session import ARENA_BYTES, EmulatedSession, StartedCandidate
from cuda_llm.tools.native import add_files, build, build_in_thread
from cuda_llm.tools.profiler.tables import Translated
from cuda_llm.tools.sandbox.jail import jail_program

_TOOLS = Path(__file__).parent.parent
_NATIVE = _TOOLS / "device" / "native"
_SANDBOX = _TOOLS / "sandbox" / "native"
_SANDBOX_PARTS = ("calls", "filter", "landlock", "limits", "seccomp", "violation")
_RUNTIME = _TOOLS / "emulator" / "runtime"
_REPORT_BYTES = 64 << 20
"""Bytes of virtual memory of a report; pages are allocated when touched."""
_LOAD_LIMIT_S = 20.0
_TIMING_CODE = ("emulator", "profiler")


def device_facts(hardware: Hardware) -> DeviceFacts:
    """Return what `cudaGetDeviceProperties` and the launch checks need of `hardware`."""
    limits = hardware.limits
    major, minor = hardware.compute_capability
    return DeviceFacts(
        name=hardware.name.encode()[:63],
        compute_major=major,
        compute_minor=minor,
        sm_count=hardware.sm_count,
        max_threads_per_block=limits.threads_per_block,
        max_threads_per_sm=limits.threads_per_sm,
        max_blocks_per_sm=limits.blocks_per_sm,
        registers_per_sm=limits.registers_per_sm,
        registers_per_block=limits.registers_per_block,
        shared_bytes_per_block=limits.shared_bytes_per_block,
        shared_bytes_per_block_optin=limits.shared_bytes_per_block_optin,
        shared_bytes_per_sm=limits.shared_bytes_per_sm,
        shared_bytes_reserved=limits.shared_bytes_reserved_per_block,
        l2_bytes=hardware.l2_bytes,
        l1_bytes=hardware.l1_and_shared_bytes_per_sm or limits.shared_bytes_per_sm,
        clock_khz=round(hardware.boost_clock_mhz * 1000),
        memory_clock_khz=round(hardware.memory_clock_mhz * 1000),
        memory_bus_bits=hardware.memory_bus_bits,
        memory_bytes=hardware.memory_bytes,
        latency_alu=round(hardware.model.latency_alu_clk),
        latency_shared=round(hardware.model.latency_shared_clk),
        latency_l1=round(hardware.model.latency_l1_clk),
        latency_l2=round(hardware.model.latency_l2_clk),
        latency_dram=round(hardware.model.latency_dram_clk),
        load_store=round(hardware.pipes.load_store),
        **{
            f"wgmma_{kind}": round(wgmma_per_clk(hardware, kind))
            for kind in ("fp16", "tf32", "fp8", "int8")
        },
    )


@dataclass(frozen=True, kw_only=True)
class Libraries:
    """Libraries that a runner of the emulated device loads: `emulator` and `kernels` in its device
    part, `cudart` and `candidate` in its host part, in this order."""

    emulator: Path
    kernels: Path
    cudart: Path
    candidate: Path


def start_emulated_runner(program: Path, libraries: Libraries, arena: int, report: int) -> Runner:
    """Start both parts of a runner, each with its own process group and empty folder, connected by
    a socket.

    The memory files and the orchestrator's socket go to the device part alone. Neither part
    inherits the environment or any other descriptor. Raises InfrastructureError where a part cannot
    be started.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link, far_link = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    parent = os.getpid()
    with theirs, link, far_link:
        device = (theirs.fileno(), link.fileno(), parent, arena, report)
        host = (far_link.fileno(), parent)
        try:
            first = spawn(
                [program, "device", *map(str, device), libraries.emulator, libraries.kernels],
                (theirs.fileno(), link.fileno(), arena, report),
            )
            try:
                second = spawn(
                    [program, "host", *map(str, host), libraries.cudart, libraries.candidate],
                    (far_link.fileno(),),
                )
            except BaseException:
                first.process.kill()
                first.process.wait()
                raise
        except OSError as error:
            ours.close()
            raise InfrastructureError("runner", f"cannot be started: {error}") from error
    return Runner(first, [second], RunnerSocket(ours), alarm=True)


def runner_program() -> Path:
    """Return the path of the runner, built at first use. Raises MissingError without g++."""
    sandbox = [_SANDBOX / f"{part}.c" for part in _SANDBOX_PARTS]
    sources = [*sorted(_NATIVE.glob("*.cpp")), *sandbox]
    flags = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror"]
    includes = [f"-I{folder}" for folder in (_NATIVE, _RUNTIME, _SANDBOX)]
    # Libraries are loaded before the process is confined: candidates open only their own file.
    libraries = ["-Wl,--no-as-needed", "-lstdc++", "-lm", "-lgcc_s", "-ldl", "-Wl,-z,now"]
    watch = [_NATIVE, _SANDBOX, _RUNTIME / "emu"]
    return build("runner", sources, [*flags, *includes, *libraries], watch)


def native_parts() -> tuple[Path, Path, Path]:
    """Return the paths of runner, emulator and CUDA runtime, with which every candidate runs, built
    at first use. Raises MissingError without g++ or a CUDA toolkit."""
    return runner_program(), emulator_library(), runtime_library()


@dataclass(frozen=True)
class EmulatedDevice:
    """Stands in for the GPU that `hardware` describes. Every time it gives is modelled."""

    hardware: Hardware

    @property
    def name(self) -> str:
        """Name of the device, e.g. `emulated RTX 3090 Ti`."""
        return f"emulated {self.hardware.short_name}"

    @property
    def spec(self) -> str:
        """Argument of `--device` that opens the device again."""
        return f"emulated:{self.hardware.short_name}"

    @property
    def capabilities(self) -> Capabilities:
        """The device sees every access and models times. Each call waits for a core's slot."""
        at_once = settings().device_workers or len(os.sched_getaffinity(0))
        return Capabilities(
            bench_sizes=True,
            samples=True,
            sees_races=True,
            full_isa=False,
            confines=True,
            at_once=at_once,
        )

    @property
    def version(self) -> str:
        """Hash of the profile and of all code that counts or models times."""
        return hashlib.blake2b(
            repr(self.hardware).encode() + _timing_code(), digest_size=16
        ).hexdigest()

    @property
    def notes(self) -> tuple[str, ...]:
        """Always empty: no other process changes a modelled time."""
        return ()

    def pinned(self) -> "EmulatedDevice":
        """Return this device: the emulated device is always the same."""
        return self

    def prepare(self) -> None:
        """Build jail, runner, emulator and CUDA runtime. Raises MissingError without g++ or a CUDA
        toolkit."""
        jail_program()
        native_parts()

    @property
    def confined(self) -> str:
        """Empty: trying it takes longer than many kernels."""
        return ""

    @property
    def arrays(self) -> Arrays:
        """Buffers are shared host memory."""
        return HOST

    def read_clocks(self) -> None:
        """Return None: the emulated device has no clocks."""

    async def carry_out(self, work: Work[T]) -> T:
        """Do `work` in this process, which is the site, and return its result."""
        return await work(self)

    @asynccontextmanager
    async def open(self, candidate: Baseline) -> AsyncIterator[Session | Verdict]:
        """Translate the candidate and load it in a fresh runner. Raises MissingError without g++, a
        toolkit, or the library."""
        if not isinstance(candidate, Compiled):
            yield HostLibrarySession(candidate, self.hardware)
            return
        with _memory("arena", ARENA_BYTES) as arena, _memory("report", _REPORT_BYTES) as report:
            async with AsyncExitStack() as runners:
                start = partial(self._start, candidate, arena, report, runners)
                started = await start(tracks=False)
                if not isinstance(started, StartedCandidate):
                    yield started
                    return
                yield EmulatedSession(started, partial(start, tracks=True), arena, report)

    async def _start(
        self,
        candidate: Compiled,
        arena: SharedMemory,
        report: SharedMemory,
        runners: AsyncExitStack,
        *,
        tracks: bool,
    ) -> StartedCandidate | Verdict:
        """Translate a candidate and load it in a fresh runner, which `runners` stops; return the
        verdict where it cannot be."""
        translated = await translate(
            candidate.ptx,
            kernels=candidate.kernels,
            source_name=candidate.name,
            source=candidate.source,
            tracks=tracks,
        )
        if not isinstance(translated, Translated):
            return translated
        # Building takes up to minutes, while other tasks on this loop wait for their processes.
        program, emulator, cudart = await build_in_thread(native_parts)
        libraries = Libraries(
            emulator=emulator,
            kernels=translated.library,
            cudart=cudart,
            candidate=candidate.library,
        )
        runner = start_emulated_runner(program, libraries, arena.descriptor, report.descriptor)
        runners.push_async_callback(runner.stop)
        loaded = LoadedCandidate(candidate=candidate, translated=translated, hardware=self.hardware)
        failure = await self._load(runner, loaded, report)
        return failure or StartedCandidate(loaded=loaded, runner=runner)

    def open_cached(self, candidate: Baseline) -> AbstractAsyncContextManager[Session | Verdict]:
        """Load the candidate in a fresh runner: a runner starts in milliseconds."""
        return self.open(candidate)

    def retire_cached(self) -> None:
        """Do nothing: no runner is cached."""

    @property
    def shares(self) -> dict[str, float]:
        """Return an empty mapping: no measurement plans memory here."""
        return {}

    async def release_unused(self) -> None:
        """Do nothing: no memory is kept."""

    async def _load(
        self, runner: Runner, loaded: LoadedCandidate, report: SharedMemory
    ) -> Verdict | None:
        """Wait until the candidate is loaded; return the verdict where it cannot be."""
        frame = StartFrame(
            arena_bytes=ARENA_BYTES,
            report_bytes=_REPORT_BYTES,
            facts=device_facts(self.hardware),
        )
        outcome = await runner.exchange(frame, _LOAD_LIMIT_S)
        if isinstance(outcome, ReplyFrame):
            return load_failed(outcome) if outcome.reply == RunnerReply.REFUSED else None
        record = read_report(memoryview(report.map), loaded.named_tables(), ())
        return verdict_on_end(outcome, record, loaded, _LOAD_LIMIT_S)


@contextmanager
def _memory(name: str, size: int) -> Iterator[SharedMemory]:
    memory = SharedMemory(f"cuda-llm-{name}", size)
    try:
        yield memory
    finally:
        memory.close()


@lru_cache
def _timing_code() -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    add_files(digest, [_TOOLS / folder for folder in _TIMING_CODE], {".py", ".h", ".cpp"})
    return digest.digest()
