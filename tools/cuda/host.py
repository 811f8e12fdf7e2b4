"""The GPU host process: holds one GPU and does one work after another until the orchestrator
disconnects.

    python -P -m cuda_llm.tools.cuda.host SOCKET LIFELINE RECORDS LEVEL

SOCKET, LIFELINE and RECORDS are descriptors that the orchestrator left open: the socket for
messages, a pipe that the orchestrator never writes to, and a pipe for log records from LEVEL up.
"""

import asyncio
import contextlib
import fcntl
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuda_llm.errors import (
    CudaLLMError,
    DeviceLost,
    InfrastructureError,
    InternalError,
    lacks_memory,
    machinery_error,
)
from cuda_llm.log import Log, bound
from cuda_llm.log_setup import send_records
from cuda_llm.tools.cuda.messages import (
    DeviceBroken,
    Heartbeat,
    OpenSite,
    SiteReady,
    WorkDone,
    WorkFailed,
    encode,
    receive,
    send,
)

if TYPE_CHECKING:
    from cuda_llm.tools.device import Site, Work

HEARTBEAT_S = 0.25
_log = Log(__name__)


async def serve(connection: socket.socket) -> None:
    """Open the site that the first message names, then answer requests; close it at the end."""
    connection.setblocking(False)
    opening: OpenSite | None = await receive(connection)
    if opening is None:
        return
    _log.info("GPU host process starts")
    async with contextlib.AsyncExitStack() as stack:
        async with heartbeats(connection):
            opened = await open_site(opening, stack)
        if isinstance(opened, WorkFailed):
            await send(connection, opened)
            return
        await send(connection, SiteReady())
        while (work := await next_work(connection)) is not None:
            if isinstance(work, WorkFailed):
                await send(connection, work)
                continue
            async with heartbeats(connection):
                packet = encode_reply(await answer(opened, opening, work))
            await asyncio.get_running_loop().sock_sendall(connection, packet)


async def open_site(opening: OpenSite, stack: contextlib.AsyncExitStack) -> "Site | WorkFailed":
    """Open the site; it is closed with the stack."""
    try:
        return await stack.enter_async_context(opening.site(*opening.arguments))
    except CudaLLMError as error:
        return WorkFailed(error=error)
    except Exception as error:
        _log.error("site cannot be opened", error=one_line(error), exc_info=error)
        return WorkFailed(error=machine_error(error))


async def next_work(connection: socket.socket) -> "Work[Any] | WorkFailed | None":
    """Return the next work, or why it cannot be read: its function may not be found here."""
    try:
        work: Work[Any] | None = await receive(connection)
    except OSError:
        raise
    except Exception as error:
        return WorkFailed(error=InternalError(f"the GPU host process cannot do this work: {error}"))
    return work


async def answer(
    site: "Site", opening: OpenSite, work: "Work[Any]"
) -> WorkDone | WorkFailed | DeviceBroken:
    """Check the device, do the work, and check the device again where the work raised.

    A device whose memory is full, whichever process holds the memory, is not broken.
    """
    before = wrong_answer(opening, site)
    if before is not None and lacks_memory(before):
        return WorkFailed(error=machine_error(before))
    if before is not None:
        return DeviceBroken(reason=one_line(before), was_healthy=False)
    try:
        with bound(**work.bound):
            return WorkDone(result=await do_work(site, work))
    except DeviceLost as error:
        return WorkFailed(error=error)
    except Exception as error:
        after = wrong_answer(opening, site)
        if after is None or lacks_memory(after):
            return WorkFailed(error=portable_error(error))
        return DeviceBroken(reason=f"{one_line(error)}; then {one_line(after)}", was_healthy=True)


def wrong_answer(opening: OpenSite, site: "Site") -> Exception | None:
    """Return what the known answer raises on this device; None where it is right."""
    try:
        opening.known_answer(site)
    except Exception as error:
        return error
    return None


async def do_work(site: "Site", work: "Work[Any]") -> object:
    """Return what the work returns; log how long it took."""
    name = work.function.__qualname__
    started = time.monotonic()
    try:
        return await work(site)
    except Exception as error:
        write = _log.info if isinstance(error, CudaLLMError) else _log.warning
        trace = None if isinstance(error, CudaLLMError) else error
        write("work raised", work=name, error=one_line(error), exc_info=trace)
        raise
    finally:
        took_s = time.monotonic() - started
        _log.debug("work is over", work=name, seconds=took_s)


def encode_reply(reply: WorkDone | WorkFailed | DeviceBroken) -> bytes:
    """Return the reply as it travels, or as WorkFailed where its value cannot."""
    try:
        return encode(reply)
    except Exception as error:
        return encode(WorkFailed(error=portable_error(error)))


def portable_error(error: Exception) -> CudaLLMError:
    """Return our own errors as they are, and those of machine or driver as InfrastructureError.

    Any other is a bug of ours: it becomes an InternalError with its traceback.
    """
    if isinstance(error, CudaLLMError):
        return error
    if comes_from_machine(error) or lacks_memory(error):
        return machine_error(error)
    trace = "".join(traceback.format_exception(error))
    return InternalError(f"GPU host process: {one_line(error)}", trace)


def comes_from_machine(error: Exception) -> bool:
    """Return whether the system raised the error, or the driver through CuPy: files, contexts."""
    by_cupy = type(error).__module__.partition(".")[0].startswith("cupy")
    return by_cupy or isinstance(error, OSError)


def machine_error(error: Exception) -> InfrastructureError:
    """Return the error as an InfrastructureError, whose type shows whether memory lacked. The
    receiving process has none of the libraries that defined the original error."""
    return machinery_error("gpu_host", one_line(error), lacked_memory=lacks_memory(error))


def one_line(error: Exception) -> str:
    """Return the last line of a traceback, and the place it comes from."""
    if isinstance(error, CudaLLMError):
        return str(error)
    message = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return message
    return f"{message} ({Path(frames[-1].filename).name}:{frames[-1].lineno})"


@asynccontextmanager
async def heartbeats(connection: socket.socket) -> AsyncIterator[None]:
    """Send heartbeats while the context is open; the last heartbeat is complete when the context
    closes."""
    done = asyncio.Event()

    async def beat() -> None:
        with contextlib.suppress(OSError):
            while not done.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(HEARTBEAT_S):
                        await done.wait()
                if not done.is_set():
                    await send(connection, Heartbeat())

    beats = asyncio.create_task(beat())
    try:
        yield
    finally:
        done.set()
        await beats


def main(connection: int, lifeline: int, records: int, level: int) -> int:
    """Serve until the orchestrator hangs up; end with it at once when it dies."""
    end_with(lifeline)
    send_records(records, level, process="gpu-host", pid=os.getpid())
    with socket.socket(fileno=connection) as ours:
        ours.set_inheritable(False)
        asyncio.run(serve(ours))
    return 0


def end_with(lifeline: int) -> None:
    """Have the kernel kill us when the other end of the pipe is closed.

    PR_SET_PDEATHSIG would do so when the *thread* that started us ends, and a run may be prepared
    on a thread of its own. This also works while a call into the driver does not return.
    """
    os.set_inheritable(lifeline, False)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    watched = select.poll()
    watched.register(lifeline, select.POLLIN)
    if watched.poll(0):
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
