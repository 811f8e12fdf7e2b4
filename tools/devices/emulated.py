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
from cuda_llm.tools.arrays import HOST, Arrays
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.device import P, Session, Site, T
from cuda_llm.tools.devices.arena import ARENA_BYTES
from cuda_llm.tools.devices.endings import ending
from cuda_llm.tools.devices.facts import device_facts
from cuda_llm.tools.devices.loaded import Loaded
from cuda_llm.tools.devices.runner import Libraries, runner_program, start_emulated_runner
from cuda_llm.tools.devices.session import EmulatedSession
from cuda_llm.tools.emulator.report import read_report
from cuda_llm.tools.emulator.runtime_library import emulator_library, runtime_library
from cuda_llm.tools.emulator.tables import Translated
from cuda_llm.tools.emulator.translate import translate
from cuda_llm.tools.runner.load_failure import load_failed
from cuda_llm.tools.runner.memory import SharedMemory
from cuda_llm.tools.runner.process import Runner
from cuda_llm.tools.runner.protocol import Reply, ReplyFrame, StartFrame
from cuda_llm.tools.sandbox.programs import jail_program

_REPORT_BYTES = 64 << 20
"""Virtual, as the arena."""
_LOAD_LIMIT_S = 20.0
_TIMING_CODE = ("emulator", "profiler", "devices")


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
        """What opens it again after `--device`."""
        return f"emulated:{self.hardware.short_name}"

    @property
    def capabilities(self) -> Capabilities:
        """It watches and models. Its calls wait for a core each (`pool`)."""
        from cuda_llm.settings import settings

        at_once = settings().device_workers or len(os.sched_getaffinity(0))
        return Capabilities(sees_races=True, full_isa=False, confines=True, at_once=at_once)

    @property
    def version(self) -> str:
        """Hash of the profile and of all code that counts or models."""
        return hashlib.blake2b(
            repr(self.hardware).encode() + _timing_code(), digest_size=16
        ).hexdigest()

    @property
    def notes(self) -> tuple[str, ...]:
        """Nobody else's work changes a modelled time."""
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
        """Trying takes longer than many a kernel."""
        return ""

    @property
    def arrays(self) -> Arrays:
        """Buffers are shared host memory."""
        return HOST

    def read_clocks(self) -> None:
        """See `Site.read_clocks`: it has none."""

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
        loaded = Loaded(candidate=candidate, translated=translated, hardware=self.hardware)
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
        """See `Site.keep`: a runner is started in no time here, so each is fresh."""
        return self.open(candidate)

    async def _load(self, runner: Runner, loaded: Loaded, report: SharedMemory) -> Verdict | None:
        """Wait until the candidate is loaded; the verdict where it cannot be."""
        frame = StartFrame(
            arena_bytes=ARENA_BYTES,
            report_bytes=_REPORT_BYTES,
            facts=device_facts(self.hardware),
        )
        outcome = await runner.exchange(frame, _LOAD_LIMIT_S)
        if isinstance(outcome, ReplyFrame):
            return load_failed(outcome) if outcome.reply == Reply.REFUSED else None
        record = read_report(memoryview(report.map), loaded.named_tables(), ())
        return ending(outcome, record, _LOAD_LIMIT_S)


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
