"""What the runners of a GPU are kept from, and what not."""

from dataclasses import dataclass

from cuda_llm.tools.gpu.process import Spaces
from cuda_llm.tools.gpu.protocol import SharedBy


@dataclass(frozen=True, kw_only=True)
class GpuIsolation:
    """What a runner reached on this machine. Its system-call filter is in force in any case: a
    runner that cannot install it gives up.
    """

    shared_by: SharedBy
    spaces: Spaces
    """Namespaces of its own."""
    landlock_abi: int
    """0: this kernel has no Landlock."""
    attempts: tuple[str, ...] | None = None
    """What the self-test tried and could do; None: it has not been run."""

    @property
    def proven(self) -> bool:
        """Whether the self-test has been run and nothing got through."""
        return self.attempts == ()

    @property
    def missing(self) -> tuple[str, ...]:
        """What is missing, each with what it means, fit for a person."""
        told = {
            "buffers pass through host memory: no CUDA IPC, and times hold the copies": (
                self.shared_by is SharedBy.HOST
            ),
            "no process namespace: a runner's helpers, if it had any, are not swept up": (
                not self.spaces & Spaces.PIDS
            ),
            "no network namespace: only the system-call filter keeps it off the network": (
                not self.spaces & Spaces.NETWORK
            ),
            "no Landlock (Linux 5.13 or newer): it can read files of this user": (
                self.landlock_abi == 0
            ),
            f"the self-test got through with: {', '.join(self.attempts or ())}": bool(
                self.attempts
            ),
        }
        return tuple(text for text, holds in told.items() if holds)

    @property
    def summary(self) -> str:
        """One line, e.g. `user, pid, network and ipc namespaces; Landlock 7; seccomp; CUDA IPC`."""
        names = {Spaces.PIDS: "pid", Spaces.NETWORK: "network", Spaces.IPC: "ipc"}
        reached = [name for space, name in names.items() if self.spaces & space]
        return "; ".join(
            (
                f"{', '.join(('user', *reached))} namespaces" if reached else "no namespaces",
                f"Landlock {self.landlock_abi}" if self.landlock_abi else "no Landlock",
                "seccomp",
                "CUDA IPC" if self.shared_by is SharedBy.IPC else "host-shared memory",
                *(("self-test passed",) if self.proven else ()),
            )
        )


def landlock_abi() -> int:
    """Of this kernel; 0: none."""
    import ctypes

    create_ruleset, version_query = 444, 1
    libc = ctypes.CDLL(None, use_errno=True)
    abi = libc.syscall(create_ruleset, None, ctypes.c_size_t(0), version_query)
    return max(0, int(abi))
