"""A device of one's own: a worker process runs the kernels, reached over a loopback socket.

    cuda-llm evaluate vector_add mine.cu --device examples/devices/loopback.py:open_loopback

The worker is this file as well, started as a program. It holds the emulated device; with a GPU in
another machine it would hold that one. What travels is a work, which is a
function of cuda_llm with its arguments, and what it returns; files of a kernel are named by path,
for here both see the same disk.
"""

import asyncio
import hmac
import pickle
import secrets
import subprocess
import sys
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from cuda_llm.extend import (
    Capabilities,
    CudaLLMError,
    ForwardingDevice,
    InfrastructureError,
    Work,
    open_device,
)

HOST = "127.0.0.1"
TOKEN_BYTES = 32
LENGTH_BYTES = 8
END_S = 5.0
T = TypeVar("T")


class LoopbackDevice(ForwardingDevice):
    """The emulated device, but for its works, which a worker process does.

    Nothing is started before `prepare` or the first work.
    """

    def __init__(self) -> None:
        super().__init__(open_device("emulated"))
        self._token = secrets.token_bytes(TOKEN_BYTES)
        self._port = 0

    @property
    def name(self) -> str:
        """What a person reads."""
        return f"loopback to {super().name}"

    @property
    def capabilities(self) -> Capabilities:
        """Those of the emulated device, two works at once."""
        return replace(super().capabilities, at_once=2)

    def prepare(self) -> None:
        """Build what the worker needs, and start it. It ends when this process does."""
        super().prepare()
        if not self._port:
            self._port = self._start()

    async def carry_out(self, work: Work[T]) -> T:
        """Have the worker do the work. Cancelled, it hangs up, and the worker stops."""
        if not self._port:
            self._port = self._start()
        try:
            reader, writer = await asyncio.open_connection(HOST, self._port)
            try:
                writer.write(self._token)
                await send(writer, work)
                succeeded, answer = await receive(reader)
            finally:
                writer.close()
        except (OSError, EOFError) as error:
            raise InfrastructureError("worker", f"it is gone: {error}") from error
        if succeeded:
            result: T = answer
            return result
        raise answer

    def _start(self) -> int:
        """Start the worker; the port on which it listens."""
        program = [sys.executable, "-P", str(Path(__file__).resolve())]
        worker = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        weakref.finalize(self, end, worker)
        assert worker.stdin is not None and worker.stdout is not None
        worker.stdin.write(self._token)
        worker.stdin.flush()
        told = worker.stdout.readline()
        if not told.strip().isdigit():
            raise InfrastructureError("worker", f"it did not start (status {worker.wait()})")
        return int(told)


def end(worker: "subprocess.Popen[bytes]") -> None:
    """Close its input, by which it knows; kill it where it does not go."""
    with worker:
        try:
            worker.communicate(timeout=END_S)
        except subprocess.TimeoutExpired:
            worker.kill()


def open_loopback() -> LoopbackDevice:
    """What `--device` names."""
    return LoopbackDevice()


async def serve(token: bytes) -> None:
    """The worker: carry out what whoever knows the token sends, until our own input is closed."""
    device = open_device("emulated")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Unpickling runs what was sent, so whoever sends must be known first.
        if hmac.compare_digest(await reader.readexactly(TOKEN_BYTES), token):
            working = asyncio.ensure_future(device.carry_out(await receive(reader)))
            hung_up = asyncio.ensure_future(reader.read(1))
            await asyncio.wait((working, hung_up), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                await send(writer, reply(working))
            working.cancel()
            hung_up.cancel()
        writer.close()

    async with await asyncio.start_server(answer, HOST, 0) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.to_thread(sys.stdin.buffer.read)


def reply(done: "asyncio.Future[Any]") -> tuple[bool, Any]:
    """Whether work succeeded, and what it returned or raised."""
    error = done.exception()
    if error is None:
        return True, done.result()
    if isinstance(error, CudaLLMError):
        return False, error
    return False, InfrastructureError("worker", f"{type(error).__name__}: {error}")


async def send(writer: asyncio.StreamWriter, message: object) -> None:
    """Length and pickle."""
    packet = pickle.dumps(message)
    writer.write(len(packet).to_bytes(LENGTH_BYTES, "little") + packet)
    await writer.drain()


async def receive(reader: asyncio.StreamReader) -> Any:
    """The next message. Raises EOFError where the other end is gone."""
    size = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "little")
    return pickle.loads(await reader.readexactly(size))


if __name__ == "__main__":
    asyncio.run(serve(sys.stdin.buffer.read(TOKEN_BYTES)))
