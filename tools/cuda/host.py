"""The process that holds one GPU: `python -P -m cuda_llm.tools.cuda.host SOCKET LIFELINE`.

It opens a site and does one work after another until the orchestrator hangs up. Both arguments are
descriptors that the orchestrator left open: the socket to talk over, and a pipe that it never
writes to.
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
from typing import TYPE_CHECKING

from cuda_llm.errors import CudaLLMError, DeviceLost, InfrastructureError, InternalError
from cuda_llm.log import Log, bound
from cuda_llm.tools.cuda.messages import (
    DeviceBroken,
    Heartbeat,
    OpenSite,
    SiteReady,
    WorkDone,
    WorkFailed,
    WorkRequest,
    encode,
    receive,
    send,
)

if TYPE_CHECKING:
    from cuda_llm.tools.device import Site

HEARTBEAT_S = 0.25
_log = Log(__name__)


async def serve(connection: socket.socket) -> None:
    """Open the site that the first message names, then answer asks; close it at the end."""
    connection.setblocking(False)
    opening: OpenSite | None = await receive(connection)
    if opening is None:
        return
    _log.info("referee starts")
    async with contextlib.AsyncExitStack() as stack:
        async with heartbeats(connection):
            opened = await open_site(opening, stack)
        if isinstance(opened, WorkFailed):
            await send(connection, opened)
            return
        await send(connection, SiteReady())
        while (ask := await next_request(connection)) is not None:
            if isinstance(ask, WorkFailed):
                await send(connection, ask)
                continue
            async with heartbeats(connection):
                packet = encoded(await answer(opened, opening, ask))
            await asyncio.get_running_loop().sock_sendall(connection, packet)


async def open_site(opening: OpenSite, stack: contextlib.AsyncExitStack) -> "Site | WorkFailed":
    """The site, closed with the stack."""
    try:
        return await stack.enter_async_context(opening.site(*opening.arguments))
    except CudaLLMError as error:
        return WorkFailed(error=error)
    except Exception as error:
        _log.error("site cannot be opened", error=one_line(error), exc_info=error)
        return WorkFailed(error=InfrastructureError("referee", one_line(error)))


async def next_request(connection: socket.socket) -> WorkRequest | WorkFailed | None:
    """The next ask, or why it cannot be understood: its function may not be found from here."""
    try:
        ask: WorkRequest | None = await receive(connection)
    except OSError:
        raise
    except Exception as error:
        return WorkFailed(error=InternalError(f"the referee cannot be asked this: {error}"))
    return ask


async def answer(
    site: "Site", opening: OpenSite, ask: WorkRequest
) -> WorkDone | WorkFailed | DeviceBroken:
    """Prove the device, do the work, and prove the device again where the work raised."""
    try:
        opening.known_answer(site)
    except Exception as error:
        return DeviceBroken(reason=one_line(error), proven=False)
    try:
        with bound(**ask.bound):
            return WorkDone(result=await carried_out(site, ask))
    except DeviceLost as error:
        return WorkFailed(error=error)
    except Exception as error:
        try:
            opening.known_answer(site)
        except Exception as after:
            return DeviceBroken(reason=f"{one_line(error)}; then {one_line(after)}", proven=True)
        return WorkFailed(error=portable(error))


async def carried_out(site: "Site", ask: WorkRequest) -> object:
    """What the work returns; how long it took goes to the log."""
    started = time.monotonic()
    try:
        return await ask.work(site, *ask.arguments, **ask.named)
    except Exception as error:
        write = _log.info if isinstance(error, CudaLLMError) else _log.warning
        trace = unexpected(error)
        write("work raised", work=ask.work.__qualname__, error=one_line(error), exc_info=trace)
        raise
    finally:
        took_s = time.monotonic() - started
        _log.debug("work is over", work=ask.work.__qualname__, seconds=took_s)


def encoded(reply: WorkDone | WorkFailed | DeviceBroken) -> bytes:
    """The reply as it travels, or why its value cannot."""
    try:
        return encode(reply)
    except Exception as error:
        return encode(WorkFailed(error=portable(error)))


def portable(error: Exception) -> CudaLLMError:
    """Our own errors as they are; what the machine or the driver raises as an infrastructure error.

    Any other is a bug of ours, and travels with its traceback.
    """
    if isinstance(error, CudaLLMError):
        return error
    if is_machines(error):
        return InfrastructureError("referee", one_line(error))
    trace = "".join(traceback.format_exception(error))
    return InternalError(f"referee: {one_line(error)}", trace)


def is_machines(error: Exception) -> bool:
    """Whether the system raised it, or the driver by way of CuPy: memory, files, lost contexts."""
    by_cupy = type(error).__module__.partition(".")[0].startswith("cupy")
    return by_cupy or isinstance(error, OSError | MemoryError)


def unexpected(error: Exception) -> Exception | None:
    """An error whose traceback is worth a look: our own are sentences already."""
    return None if isinstance(error, CudaLLMError) else error


def one_line(error: Exception) -> str:
    """The last line of a traceback, and the place it comes from."""
    if isinstance(error, CudaLLMError):
        return str(error)
    said = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
    frames = traceback.extract_tb(error.__traceback__)
    return f"{said} ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else said


@asynccontextmanager
async def heartbeats(connection: socket.socket) -> AsyncIterator[None]:
    """Give signs of life while the context is open; the last one has been sent whole after it."""
    enough = asyncio.Event()

    async def beat() -> None:
        with contextlib.suppress(OSError):
            while not enough.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(HEARTBEAT_S):
                        await enough.wait()
                if not enough.is_set():
                    await send(connection, Heartbeat())

    beats = asyncio.create_task(beat())
    try:
        yield
    finally:
        enough.set()
        await beats


def main(connection: int, lifeline: int, records: int, level: int) -> int:
    """Serve until the orchestrator hangs up; end with it at once when it dies."""
    from cuda_llm.log_setup import send_records

    end_with(lifeline)
    send_records(records, level, process="referee", pid=os.getpid())
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
