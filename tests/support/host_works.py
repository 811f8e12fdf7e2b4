"""Sites and works for a real GPU host process: it imports this module by name."""

import asyncio
import logging
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from cuda_llm.errors import (
    CudaLLMError,
    DeviceLost,
    InfrastructureError,
    MissingError,
    NoMemory,
    TaskError,
)
from cuda_llm.log import Log
from cuda_llm.tools.cuda.messages import OpenSite

if TYPE_CHECKING:
    from cuda_llm.tools.device import Site


@asynccontextmanager
async def emulated() -> "AsyncIterator[Site]":
    """A real site; loading it takes as long as all the rest of a GPU host process."""
    from cuda_llm.hardware_profiles.lookup import find_hardware
    from cuda_llm.tools.emulator.device import EmulatedDevice

    yield EmulatedDevice(find_hardware("RTX 3090 Ti"))


@asynccontextmanager
async def arrays() -> AsyncIterator[Any]:
    """As much of a site as a known answer needs."""
    from cuda_llm.tools.device.buffers import HOST

    yield SimpleNamespace(arrays=HOST)


@asynccontextmanager
async def nowhere(closed: Path | None = None) -> AsyncIterator[Any]:
    """A site that costs nothing; writes to `closed` that it ended in good order."""
    yield None
    if closed is not None:
        closed.write_text("closed")


@asynccontextmanager
async def missing() -> "AsyncIterator[Site]":
    raise MissingError("CuPy is missing", "pip install it")
    yield


@asynccontextmanager
async def failing() -> "AsyncIterator[Site]":
    raise ValueError("no such context")
    yield


@asynccontextmanager
async def full() -> "AsyncIterator[Site]":
    raise MemoryError("no room for a context")
    yield


def right(_site: "Site") -> None:
    """A known answer that costs nothing."""


def wrong(_site: "Site") -> None:
    raise InfrastructureError("device", "7 of 9 known words are wrong")


def wrong_while_marked(_site: "Site") -> None:
    """Wrong once for each byte of a file that the environment names."""
    marks = Path(os.environ["MARKS"])
    if left := marks.read_text():
        marks.write_text(left[1:])
        raise InfrastructureError("device", "7 of 9 known words are wrong")


def without_room(_site: "Site") -> None:
    raise MemoryError("no room for the known words")


PLAIN = OpenSite(site=nowhere, known_answer=right)


async def pid(_site: "Site") -> int:
    return os.getpid()


async def double(_site: "Site", number: int, *, plus: int = 0) -> int:
    return 2 * number + plus


async def crash(_site: "Site") -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def crash_once(_site: "Site", mark: Path) -> str:
    if not mark.exists():
        mark.write_text("been here")
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


async def hang(_site: "Site") -> None:
    """Block the event loop, as a call into a broken driver does."""
    time.sleep(3600)


async def hang_once(_site: "Site", mark: Path) -> str:
    if not mark.exists():
        mark.write_text("been here")
        time.sleep(3600)
    return "done"


async def be_slow(_site: "Site", seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "slow"


async def wait_for(_site: "Site", mark: Path) -> str:
    while not mark.exists():
        await asyncio.sleep(0.01)
    return "waited"


async def start_processes(_site: "Site", mark: Path) -> None:
    """A child with a session of its own, and a child of that; then wait without end."""
    script = f"sleep 3600 & echo $$ $! > {mark}.new; mv {mark}.new {mark}; wait"
    subprocess.Popen(["bash", "-c", script], start_new_session=True)
    await asyncio.sleep(3600)


async def refuse(_site: "Site", error: CudaLLMError) -> None:
    raise error


async def stumble(_site: "Site") -> None:
    raise ZeroDivisionError("a bug of ours")


async def run_out_of_space(_site: "Site") -> None:
    raise OSError("no space is left")


async def run_out_of_memory(_site: "Site", module: str, words: str) -> None:
    """As CuPy, PyTorch or Python raise it."""
    if module == "builtins":
        raise MemoryError(words)
    raise type("LibraryError", (RuntimeError,), {"__module__": module})(words)


async def log_something(_site: "Site") -> None:
    """A record of ours, one of a library, and one from another thread."""
    Log("cuda_llm.work").info("from afar", seconds=1.5)
    logging.getLogger("library").warning("so are %s", "libraries")
    await asyncio.to_thread(Log("cuda_llm.work").info, "from a thread", text="x" * 200_000)


async def bring_a_lambda(_site: "Site") -> object:
    return lambda: 0


async def spoil(_site: "Site", marks: str) -> None:
    """Break the device, then fail for it."""
    Path(os.environ["MARKS"]).write_text(marks)
    raise RuntimeError("context is poisoned")


ERRORS = (
    NoMemory("device memory", "8,589,934,592 bytes cannot be allocated"),
    MissingError("nvcc", "install it"),
    InfrastructureError("runner", "did not start"),
    TaskError("reference.py: broken"),
)


async def nothing_there(_site: "Site") -> None:
    """Fail as a site does when a runner does not go."""
    raise DeviceLost("device", "killed, process 99 is still there")


async def be_stuck(_site: "Site", seconds: float) -> None:
    time.sleep(seconds)
