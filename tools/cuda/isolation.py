"""Isolation of a GPU's runners, and the self-test that tries to escape from it."""

import os
from dataclasses import dataclass, replace

from cuda_llm.errors import InfrastructureError
from cuda_llm.outcomes import PolicyViolation, Verdict
from cuda_llm.tools.cuda.build import attempts_library
from cuda_llm.tools.cuda.protocol import SharedBy
from cuda_llm.tools.cuda.runner import Namespaces
from cuda_llm.tools.cuda.sessions import Sessions
from cuda_llm.tools.cuda.timed_session import GpuTimedSession
from cuda_llm.tools.device import CallOptions, CallReport, Scalar
from cuda_llm.tools.device.buffers import Arrays, BufferSpec, Role
from cuda_llm.tools.device.candidate import Compiled

ATTEMPTS = (
    *("nothing", "reading a file", "opening a device that is no GPU", "making a file"),
    *("making a socket", "forking", "signalling its host process", "running a program", "tracing"),
)
"""Forbidden actions that the self-test tries, indexed by their numbers in `native/attempts.cu`."""
_COULD, _COULD_NOT = 1, 2
_OUT = BufferSpec(name="out", role=Role.OUT, dtype="int32", shape=(1,))


@dataclass(frozen=True, kw_only=True)
class GpuIsolation:
    """Protections of a runner on this machine. The system-call filter is always in force: a runner
    that cannot install the filter gives up."""

    shared_by: SharedBy
    spaces: Namespaces
    """Namespaces that a runner has for itself."""
    landlock_abi: int
    """ABI version of Landlock; 0 where the Linux kernel has no Landlock."""
    attempts: tuple[str, ...] | None = None
    """Forbidden actions in which the self-test succeeded; None before the self-test has run."""

    @property
    def is_tested(self) -> bool:
        """True once the self-test has been run and no forbidden action succeeded."""
        return self.attempts == ()

    @property
    def missing(self) -> tuple[str, ...]:
        """Protections that are missing, each with its consequence, as text for a person."""
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
            f"the self-test succeeded in: {', '.join(self.attempts or ())}": bool(self.attempts),
        }
        return tuple(text for text, holds in lacking.items() if holds)

    @property
    def summary(self) -> str:
        """Protections in one line: `user, pid, network and ipc namespaces; Landlock 7; seccomp;
        CUDA IPC`."""
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


async def self_test(sessions: Sessions, arrays: Arrays, isolation: GpuIsolation) -> GpuIsolation:
    """Try forbidden actions in a runner, loaded as candidates are; return the isolation with the
    actions that succeeded.

    `arrays` holds the buffers of `sessions`. Raises InfrastructureError where not even a kernel
    runs, MissingError without nvcc.
    """
    target = sessions.hardware.target
    library = attempts_library(target)
    attempts = Compiled(
        key=str(library.parent.name),
        name="attempts.cu",
        source="",
        target=target,
        library=library,
        ptx=library,
        kernels=(),
    )
    managed = []
    for number, name in enumerate(ATTEMPTS):
        outcome = await _try_attempt(sessions, arrays, attempts, number)
        if number == 0 and outcome != _COULD:
            raise InfrastructureError("sandbox", f"no kernel runs in it: {outcome}")
        if number > 0 and outcome == _COULD:
            managed.append(name)
    return replace(isolation, attempts=tuple(managed))


async def _try_attempt(
    sessions: Sessions, arrays: Arrays, attempts: Compiled, number: int
) -> int | Verdict:
    """Return what the GPU wrote, or the verdict. Raises InfrastructureError for any other end."""
    async with sessions.open(attempts) as session:
        if not isinstance(session, GpuTimedSession):
            raise InfrastructureError("sandbox", f"its self-test does not load: {session}")
        out = session.place([_OUT])["out"].data
        out.fill(0)
        scalars = [Scalar(value=value, ctype="int") for value in (number, os.getpid())]
        report = await session.call(["out", *scalars], CallOptions())
        if isinstance(report, CallReport):
            return int(arrays.number(out[0]))
        if number > 0 and not isinstance(report, PolicyViolation):
            raise InfrastructureError("sandbox", f"{ATTEMPTS[number]} ended otherwise: {report}")
        return report
