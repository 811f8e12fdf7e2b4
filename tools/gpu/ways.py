"""How runners can live here, found by trying: the most confined way in which CUDA works."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from cuda_llm.errors import InfrastructureError
from cuda_llm.tools.gpu.isolation import GpuIsolation, landlock_abi
from cuda_llm.tools.gpu.memory import Memory
from cuda_llm.tools.gpu.process import GpuRunner, Launch, Spaces, start
from cuda_llm.tools.gpu.protocol import Reply, ReplyFrame, SharedBy, StartFrame
from cuda_llm.tools.gpu.spares import WARM_LIMIT_S

_SPACES = (Spaces.ALL, Spaces.NETWORK | Spaces.IPC, Spaces.NONE)
_START_LIMIT_S = 10.0


async def find_confinement(
    launch: Launch, lend: Callable[[], Memory], host_bytes: int
) -> tuple[Launch, GpuIsolation]:
    """How to start runners: in as many namespaces as CUDA bears, with CUDA IPC if it can be had.

    `lend` gives device memory to try with, `host_bytes` is what is shared where that fails. Raises
    InfrastructureError where no runner comes up at all.
    """
    reasons = []
    for way in _ways(launch, host_bytes):
        runner = start(way)
        try:
            failure = await _try(runner, way, lend)
            if failure is None:
                shared_by = SharedBy.HOST if way.host_bytes else SharedBy.IPC
                reached = GpuIsolation(
                    shared_by=shared_by, spaces=runner.spaces, landlock_abi=landlock_abi()
                )
                return way, reached
            reasons.append(failure)
        finally:
            await runner.stop()
    raise InfrastructureError("runner", f"none comes up: {reasons[-1]}")


def _ways(launch: Launch, host_bytes: int) -> Iterator[Launch]:
    for shared in (0, host_bytes):
        for spaces in _SPACES:
            yield replace(launch, spaces=spaces, host_bytes=shared)


async def _try(runner: GpuRunner, way: Launch, lend: Callable[[], Memory]) -> str | None:
    """Why a runner does not come up, or None.

    What it is given to load is no candidate: that it says so means that all before has worked.
    """
    outcome = await runner.warm_up(WARM_LIMIT_S)
    if not isinstance(outcome, ReplyFrame):
        return _reason(outcome)
    memory = runner.memory if runner.memory is not None else lend()
    frame = StartFrame(arena_bytes=memory.size_bytes, shared_by=memory.shared_by)
    frame.handle[:] = memory.handle
    frame.candidate = str(way.seal).encode()
    outcome = await runner.order(frame, _START_LIMIT_S)
    if isinstance(outcome, ReplyFrame) and outcome.reply == Reply.REFUSED:
        return None
    return _reason(outcome)


def _reason(outcome: object) -> str:
    words = getattr(outcome, "final_reply", None)
    return words.text if isinstance(words, ReplyFrame) else str(outcome)
