"""The emulated device: nvcc's own output, run on the CPU."""

import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Concatenate

from cuda_llm.capabilities import Capabilities
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import Verdict
from cuda_llm.tools.device import P, Session, Site, T
from cuda_llm.tools.device.buffers import HOST, Arrays
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.emulated.outcome import LoadedCandidate, verdict_on_end
from cuda_llm.tools.emulated.session import (
    ARENA_BYTES,
    EmulatedSession,
    Libraries,
    runner_program,
    start_emulated_runner,
)
from cuda_llm.tools.emulator.codegen.libraries import emulator_library, runtime_library, translate
from cuda_llm.tools.emulator.report import read_report
from cuda_llm.tools.emulator.tables import Translated
from cuda_llm.tools.runner.child import SharedMemory
from cuda_llm.tools.runner.protocol import DeviceFacts, Reply, ReplyFrame, StartFrame
from cuda_llm.tools.runner.runner import Runner, load_failed
from cuda_llm.tools.sandbox.jail import jail_program


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
    )


_REPORT_BYTES = 64 << 20
"""Virtual, as the arena."""
_LOAD_LIMIT_S = 20.0
_TIMING_CODE = ("emulator", "profiler", "emulated")


@dataclass(frozen=True)
class EmulatedDevice:
    """Stands in for the GPU that `hardware` describes. Every time it gives is modelled."""

    hardware: Hardware

    @property
    def name(self) -> str:
        """E.g. `emulated RTX 3090 Ti`."""
        return f"emulated {self.hardware.short_name}"

    @property
    def target(self) -> str:
        """nvcc architecture of the GPU."""
        return self.hardware.target

    @property
    def spec(self) -> str:
        """The text that opens it again after `--device`."""
        return f"emulated:{self.hardware.short_name}"

    @property
    def capabilities(self) -> Capabilities:
        """It sees every access and models times. Its calls wait for a core each (`core_slot`)."""
        from cuda_llm.settings import settings

        at_once = settings().device_workers or len(os.sched_getaffinity(0))
        return Capabilities(sees_races=True, full_isa=False, confines=True, at_once=at_once)

    @property
    def version(self) -> str:
        """Hash of the profile and of all code that counts or models times."""
        return hashlib.blake2b(
            repr(self.hardware).encode() + _timing_code(), digest_size=16
        ).hexdigest()

    @property
    def notes(self) -> tuple[str, ...]:
        """None: no other process changes a modelled time."""
        return ()

    def pinned(self) -> "EmulatedDevice":
        """See `Device.pinned`."""
        return self

    def prepare(self) -> None:
        """See `Device.prepare`: jail, runner, emulator and CUDA runtime."""
        jail_program()
        runner_program()
        emulator_library()
        runtime_library()

    @property
    def confined(self) -> str:
        """Empty: trying it takes longer than many kernels."""
        return ""

    @property
    def arrays(self) -> Arrays:
        """Buffers are shared host memory."""
        return HOST

    def read_clocks(self) -> None:
        """See `Site.read_clocks`: there are none."""

    async def carry_out(
        self,
        work: Callable[Concatenate[Site, P], Awaitable[T]],
        /,
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """See `Device.carry_out`: this process holds the device."""
        return await work(self, *arguments, **named)

    @asynccontextmanager
    async def open(self, candidate: Compiled) -> AsyncIterator[Session | Verdict]:
        """See `Site.open`. Raises MissingError without g++ or a toolkit."""
        translated = await translate(
            candidate.ptx,
            kernels=candidate.kernels,
            source_name=candidate.name,
            source=candidate.source,
        )
        if not isinstance(translated, Translated):
            yield translated
            return
        loaded = LoadedCandidate(candidate=candidate, translated=translated, hardware=self.hardware)
        with _memory("arena", ARENA_BYTES) as arena, _memory("report", _REPORT_BYTES) as report:
            libraries = Libraries(
                emulator=emulator_library(),
                kernels=translated.library,
                cudart=runtime_library(),
                candidate=candidate.library,
            )
            runner = start_emulated_runner(
                runner_program(), libraries, arena.descriptor, report.descriptor
            )
            try:
                failure = await self._load(runner, loaded, report)
                yield failure or EmulatedSession(loaded, runner, arena, report)
            finally:
                await runner.stop()

    def keep(self, candidate: Compiled) -> AbstractAsyncContextManager[Session | Verdict]:
        """See `Site.keep`: a runner starts in milliseconds here, so each is fresh."""
        return self.open(candidate)

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
            return load_failed(outcome) if outcome.reply == Reply.REFUSED else None
        record = read_report(memoryview(report.map), loaded.named_tables(), ())
        return verdict_on_end(outcome, record, _LOAD_LIMIT_S)


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
    tools = Path(__file__).parent.parent
    for folder in _TIMING_CODE:
        for file in sorted((tools / folder).rglob("*")):
            if file.suffix in {".py", ".h", ".cpp"}:
                digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.digest()
