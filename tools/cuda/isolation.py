"""The isolation of a GPU's runners: as many namespaces as CUDA works in, found by trying."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from cuda_llm.errors import InfrastructureError
from cuda_llm.tools.cuda.memory import Memory
from cuda_llm.tools.cuda.protocol import GpuStartFrame, SharedBy
from cuda_llm.tools.cuda.runner import (
    WARM_LIMIT_S,
    GpuRunner,
    Namespaces,
    RunnerLaunch,
    start_gpu_runner,
)
from cuda_llm.tools.runner.protocol import Reply, ReplyFrame


@dataclass(frozen=True, kw_only=True)
class GpuIsolation:
    """What isolates a runner on this machine. Its system-call filter is in force in any case: a
    runner that cannot install it gives up.
    """

    shared_by: SharedBy
    spaces: Namespaces
    """Namespaces of its own."""
    landlock_abi: int
    """0: this kernel has no Landlock."""
    attempts: tuple[str, ...] | None = None
    """What the self-test managed to do; None: it has not been run."""

    @property
    def is_tested(self) -> bool:
        """True once the self-test has been run and managed nothing."""
        return self.attempts == ()

    @property
    def missing(self) -> tuple[str, ...]:
        """What is missing, each with what that means, as text for a person."""
        lacking = {
            "buffers pass through host memory: no CUDA IPC, and times hold the copies": (
                self.shared_by is SharedBy.HOST
            ),
            "no process namespace: a runner's helpers, if it had any, are not swept up": (
                not self.spaces & Namespaces.PIDS
            ),
            "no network namespace: only the system-call filter keeps it off the network": (
                not self.spaces & Namespaces.NETWORK
            ),
            "no Landlock (Linux 5.13 or newer): it can read files of this user": (
                self.landlock_abi == 0
            ),
            f"the self-test got through with: {', '.join(self.attempts or ())}": bool(
                self.attempts
            ),
        }
        return tuple(text for text, holds in lacking.items() if holds)

    @property
    def summary(self) -> str:
        """One line, e.g. `user, pid, network and ipc namespaces; Landlock 7; seccomp; CUDA IPC`."""
        names = {Namespaces.PIDS: "pid", Namespaces.NETWORK: "network", Namespaces.IPC: "ipc"}
        reached = [name for space, name in names.items() if self.spaces & space]
        return "; ".join(
            (
                f"{', '.join(('user', *reached))} namespaces" if reached else "no namespaces",
                f"Landlock {self.landlock_abi}" if self.landlock_abi else "no Landlock",
                "seccomp",
                "CUDA IPC" if self.shared_by is SharedBy.IPC else "host-shared memory",
                *(("self-test passed",) if self.is_tested else ()),
            )
        )


def landlock_abi() -> int:
    """Return the version of Landlock in this kernel; 0: none."""
    import ctypes

    create_ruleset, version_query = 444, 1
    libc = ctypes.CDLL(None, use_errno=True)
    abi = libc.syscall(create_ruleset, None, ctypes.c_size_t(0), version_query)
    return max(0, int(abi))


_SPACES = (Namespaces.ALL, Namespaces.NETWORK | Namespaces.IPC, Namespaces.NONE)
_START_LIMIT_S = 10.0


async def find_confinement(
    launch: RunnerLaunch, allocate: Callable[[], Memory], host_bytes: int
) -> tuple[RunnerLaunch, GpuIsolation]:
    """Find how to start runners: in as many namespaces as CUDA bears, with CUDA IPC if possible.

    `allocate` gives device memory to try with, `host_bytes` is what is shared where that fails.
    Raises InfrastructureError where no runner comes up at all.
    """
    reasons = []
    for launched in _launches(launch, host_bytes):
        runner = start_gpu_runner(launched)
        try:
            failure = await _trial_failure(runner, launched, allocate)
            if failure is None:
                shared_by = SharedBy.HOST if launched.host_bytes else SharedBy.IPC
                isolation = GpuIsolation(
                    shared_by=shared_by, spaces=runner.spaces, landlock_abi=landlock_abi()
                )
                return launched, isolation
            reasons.append(failure)
        finally:
            await runner.stop()
    raise InfrastructureError("runner", f"none comes up: {reasons[-1]}")


def _launches(launch: RunnerLaunch, host_bytes: int) -> Iterator[RunnerLaunch]:
    for shared in (0, host_bytes):
        for spaces in _SPACES:
            yield replace(launch, spaces=spaces, host_bytes=shared)


async def _trial_failure(
    runner: GpuRunner, launch: RunnerLaunch, allocate: Callable[[], Memory]
) -> str | None:
    """Return why a runner does not come up, or None.

    What it is given to load is no candidate: where it replies so, all before has worked.
    """
    outcome = await runner.warm_up(WARM_LIMIT_S)
    if not isinstance(outcome, ReplyFrame):
        return _reason(outcome)
    memory = runner.memory if runner.memory is not None else allocate()
    frame = GpuStartFrame(arena_bytes=memory.size_bytes, shared_by=memory.shared_by)
    frame.handle[:] = memory.handle
    frame.candidate = str(launch.seal).encode()
    outcome = await runner.order(frame, _START_LIMIT_S)
    if isinstance(outcome, ReplyFrame) and outcome.reply == Reply.REFUSED:
        return None
    return _reason(outcome)


def _reason(outcome: object) -> str:
    reply = getattr(outcome, "final_reply", None)
    return reply.text if isinstance(reply, ReplyFrame) else str(outcome)
