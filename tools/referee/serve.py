"""The referee's side: one site, and one work after another until the orchestrator hangs up."""

import asyncio
import contextlib
import socket
import time
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cuda_llm.errors import CudaLLMError, DeviceLost, InfrastructureError, InternalError
from cuda_llm.log import Log, bound
from cuda_llm.tools.referee.messages import (
    Ask,
    Beat,
    Broken,
    Done,
    Failed,
    Opening,
    Ready,
    encode,
    receive,
    send,
)

if TYPE_CHECKING:
    from cuda_llm.tools.device import Site

BEAT_S = 0.25
_log = Log(__name__)


async def serve(connection: socket.socket) -> None:
    """Open the site that the first message names, then answer asks; close it at the end."""
    connection.setblocking(False)
    opening: Opening | None = await receive(connection)
    if opening is None:
        return
    _log.info("referee starts")
    async with contextlib.AsyncExitStack() as stack:
        async with beating(connection):
            opened = await open_site(opening, stack)
        if isinstance(opened, Failed):
            await send(connection, opened)
            return
        await send(connection, Ready())
        while (ask := await heard(connection)) is not None:
            if isinstance(ask, Failed):
                await send(connection, ask)
                continue
            async with beating(connection):
                packet = encoded(await answer(opened, opening, ask))
            await asyncio.get_running_loop().sock_sendall(connection, packet)


async def open_site(opening: Opening, stack: contextlib.AsyncExitStack) -> "Site | Failed":
    """The site, closed with the stack."""
    try:
        return await stack.enter_async_context(opening.site(*opening.arguments))
    except CudaLLMError as error:
        return Failed(error=error)
    except Exception as error:
        _log.error("site cannot be opened", error=one_line(error), exc_info=error)
        return Failed(error=InfrastructureError("referee", one_line(error)))


async def heard(connection: socket.socket) -> Ask | Failed | None:
    """The next ask, or why it cannot be understood: its function may not be found from here."""
    try:
        ask: Ask | None = await receive(connection)
    except OSError:
        raise
    except Exception as error:
        return Failed(error=InternalError(f"the referee cannot be asked this: {error}"))
    return ask


async def answer(site: "Site", opening: Opening, ask: Ask) -> Done | Failed | Broken:
    """Prove the device, do the work, and prove the device again where the work raised."""
    try:
        opening.known_answer(site)
    except Exception as error:
        return Broken(reason=one_line(error), proven=False)
    try:
        with bound(**ask.bound):
            return Done(result=await carried_out(site, ask))
    except DeviceLost as error:
        return Failed(error=error)
    except Exception as error:
        try:
            opening.known_answer(site)
        except Exception as after:
            return Broken(reason=f"{one_line(error)}; then {one_line(after)}", proven=True)
        return Failed(error=portable(error))


async def carried_out(site: "Site", ask: Ask) -> object:
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


def encoded(reply: Done | Failed | Broken) -> bytes:
    """The reply as it travels, or why its value cannot."""
    try:
        return encode(reply)
    except Exception as error:
        return encode(Failed(error=portable(error)))


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
async def beating(connection: socket.socket) -> AsyncIterator[None]:
    """Give signs of life while the context is open; the last one has been sent whole after it."""
    enough = asyncio.Event()

    async def beat() -> None:
        with contextlib.suppress(OSError):
            while not enough.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(BEAT_S):
                        await enough.wait()
                if not enough.is_set():
                    await send(connection, Beat())

    beats = asyncio.create_task(beat())
    try:
        yield
    finally:
        enough.set()
        await beats
