"""What goes wrong that is not a kernel's fault.

CudaLLMError              exit 70 where nothing else is said
├── UsageError            bad input from the user (exit 2)
│   ├── TaskError         a task folder that cannot be used: file, key, what was expected
│   ├── HardwareError     a GPU name nobody has described
│   ├── UnusableFile      a file of a run that is gone, damaged or of a newer version
│   └── InputRefused      the input of the graph itself; a ValueError, too
├── MissingError          the machine lacks something; the message names the remedy (exit 3)
├── NothingPassed         a run has no kernel to hand on (exit 1)
├── Interrupted           a run stopped before its end; it can be resumed (exit 130)
├── InternalError         a bug of ours in another process; never tried again (exit 70)
└── InfrastructureError   our own parts failed; the only kind worth retrying (exit 70)
    ├── NoMemory          our own buffers found none; smaller ones may
    ├── BrokenByWork      one work broke a device that is fine without it
    ├── WorkerLost        the process that had a work is gone; another takes its place
    ├── MemberLost        one of several devices is lost with its work; the others are left
    └── DeviceLost        a device that stays broken; the message names it and the remedy
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

USAGE, MACHINE, CRASHED, INTERRUPTED, TERMINATED = 2, 3, 70, 130, 143
ERROR_CODES: Mapping[int, str] = MappingProxyType(
    {
        USAGE: "usage",
        MACHINE: "machine",
        CRASHED: "crash",
        INTERRUPTED: "interrupted",
        TERMINATED: "terminated",
    }
)
"""Stable names of why a command ended without its answer, by exit code. 70 is an internal error in
sysexits.h; 130 and 143 are what a shell makes of SIGINT and SIGTERM."""

_NO_MEMORY = ("out of memory", "out_of_memory", "alloc_failed", "memoryallocation")
"""What drivers and libraries write where they find none."""
_LONGEST_DETAIL = 500
"""Characters that are kept of an exception."""


class CudaLLMError(Exception):
    """Every error this package raises on purpose. `str()` is one line fit for a person."""

    exit_code = CRASHED


class UsageError(CudaLLMError):
    """The user asked for something that cannot be done as asked."""

    exit_code = USAGE


class TaskError(UsageError):
    """A task folder is broken."""


class HardwareError(UsageError):
    """A hardware profile is unknown or broken."""


class UnusableFile(UsageError):
    """A file of a run cannot be used: it is gone, damaged or of a newer version."""

    def __init__(self, path: Path, what: str, remedy: str) -> None:
        super().__init__(f"{path}: {what}; {remedy}")
        self.path = path
        self.what = what
        self.remedy = remedy

    def __reduce__(self) -> tuple[Any, ...]:
        """As MissingError's."""
        return type(self), (self.path, self.what, self.remedy)


class InputRefused(UsageError, ValueError):
    """The graph's input does not fit. LangGraph's server hides the text of errors that it does not
    know, but shows that of a ValueError."""


class MissingError(CudaLLMError):
    """The machine lacks something a command needs."""

    exit_code = MACHINE

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}; {remedy}")
        self.what = what
        self.remedy = remedy

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors travel between our processes; an exception's own pickle keeps the text alone."""
        return type(self), (self.what, self.remedy)


class NothingPassed(CudaLLMError):
    """No candidate of a run has passed, and a kernel of the run is asked for."""

    exit_code = 1


class Interrupted(CudaLLMError):
    """A run stopped before its end, as somebody asked; it can be resumed."""

    exit_code = INTERRUPTED


class InternalError(CudaLLMError):
    """A bug of ours that showed itself in another process, which goes on."""

    def __init__(self, what: str, trace: str = "") -> None:
        """`trace` is the traceback where it happened, as text."""
        super().__init__(what)
        self.what = what
        self.trace = trace
        if trace:
            self.add_note(trace)

    def __reduce__(self) -> tuple[Any, ...]:
        """As MissingError's."""
        return type(self), (self.what, self.trace)


class InfrastructureError(CudaLLMError):
    """One of our own processes broke; nothing is known about the kernel."""

    def __init__(self, component: str, detail: str) -> None:
        super().__init__(f"{component}: {detail}")
        self.component = component
        self.detail = detail

    def __reduce__(self) -> tuple[Any, ...]:
        """As MissingError's."""
        return type(self), (self.component, self.detail)


class NoMemory(InfrastructureError):
    """Our own buffers found no memory on the device or the host, which says nothing of a kernel."""


def machinery_error(component: str, detail: str, *, lacked_memory: bool) -> InfrastructureError:
    """Return the error of what broke: NoMemory where it found none."""
    return (NoMemory if lacked_memory else InfrastructureError)(component, detail)


def lacks_memory(error: BaseException) -> bool:
    """Tell whether memory was what lacked: drivers and libraries have errors of their own for it.

    CuPy's is a MemoryError, PyTorch's and those of cuBLAS tell it in words. Ask where they are
    caught: NoMemory alone keeps the fact among our own errors, whatever they say.
    """
    if isinstance(error, NoMemory | MemoryError):
        return True
    by_library = type(error).__module__.partition(".")[0].startswith(("cupy", "torch"))
    return by_library and any(sign in str(error).lower() for sign in _NO_MEMORY)


class BrokenByWork(InfrastructureError):
    """One work broke the device; without it the device is fine."""


class WorkerLost(InfrastructureError):
    """The process that had a work is gone, and whether it did the work is not known; another
    process takes its place."""


class MemberLost(InfrastructureError):
    """One of several devices is lost with the work that it had, and is used no more; the others
    are left."""


class DeviceLost(InfrastructureError):
    """A device that stays broken, or does not let go of what ran on it."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `did you mean max_tokens?`, or all that are known where none is near."""
    import difflib

    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]}?" if close else f"there are: {', '.join(names) or 'none'}"


def describe_error(error: BaseException) -> str:
    """Return `ValueError: what it says` in one line; our own errors are sentences already."""
    text = str(error) if isinstance(error, CudaLLMError) else f"{type(error).__name__}: {error}"
    return " ".join(text[:_LONGEST_DETAIL].split())
