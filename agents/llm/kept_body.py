"""The body of an answer, kept as soon as its last byte is read.

Between that byte and the reply stand a parser, a chat model and a count of tokens: milliseconds, in
which a kill would lose an answer that is paid for. So the body is on the disk before anything else
sees it, and the next process reads it in place of the network.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from typing import Any

_END_OF_STREAM = (b"data: [DONE]", b"data:[DONE]")
_ENCODING = "content-encoding"

KeepBody = Callable[[bytes], None]
"""Receives content type, a line end, and the body, decoded."""
_slot: ContextVar["tuple[bytes | None, KeepBody] | None"] = ContextVar("kept_body", default=None)


@contextmanager
def keeping_body(earlier: bytes | None, keep: KeepBody) -> Iterator[None]:
    """Have the request sent meanwhile answered by `earlier`; without it, `keep` its answer.

    Clients of `keeping_client` alone do so.
    """
    token = _slot.set((earlier, keep))
    try:
        yield
    finally:
        _slot.reset(token)


@cache
def client_library() -> Any:
    """Return the HTTP library of openai's clients: versions of openai differ in which httpx."""
    import openai

    base: Any = openai.DefaultAsyncHttpxClient.__base__
    return import_module(base.__module__.partition(".")[0])


@cache
def keeping_client() -> Any:
    """Return the class; made on first use because importing openai takes a while."""
    import openai

    plain: Any = openai.DefaultAsyncHttpxClient
    httpx: Any = client_library()

    class KeptStream(httpx.AsyncByteStream):  # type: ignore[misc]
        """The stream of a response, kept when it is whole, before its last piece is passed on.

        It is read as it comes: a chat model works on pieces while the last ones have long come.
        Who iterates again goes on where the one before stopped, as openai does for what follows the
        end of an answer.
        """

        def __init__(self, response: Any, keep: KeepBody) -> None:
            self._stream = response.stream
            self._headers = response.headers
            self._left: KeepBody | None = keep
            self._body = bytearray()
            self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
            self._reading: asyncio.Task[None] | None = None
            self._failure: Exception | None = None

        async def __aiter__(self) -> AsyncIterator[bytes]:
            if self._reading is None:
                self._reading = asyncio.create_task(self._read())
            try:
                while (piece := await self._pieces.get()) is not None:
                    yield piece
                self._pieces.put_nowait(None)
                if self._failure is not None:
                    raise self._failure
            finally:
                await self._stop_reading()

        async def _read(self) -> None:
            try:
                async for piece in self._stream:
                    self._body += piece
                    if self._is_whole():
                        self._keep()
                    self._pieces.put_nowait(piece)
                self._keep()
            except Exception as error:
                self._failure = error
            finally:
                self._pieces.put_nowait(None)

        async def _stop_reading(self) -> None:
            if self._reading is not None:
                self._reading.cancel()
                await asyncio.gather(self._reading, return_exceptions=True)

        def _is_whole(self) -> bool:
            if "content-length" in self._headers:
                return bool(str(len(self._body)) == self._headers["content-length"])
            if _ENCODING in self._headers:
                return False
            tail = bytes(self._body[-64:]).rstrip()
            return tail.rpartition(b"\n")[2] in _END_OF_STREAM

        def _keep(self) -> None:
            keep, self._left = self._left, None
            if keep is None:
                return
            kind = self._headers.get("content-type", "")
            body = bytes(self._body)
            if _ENCODING in self._headers:
                try:
                    headers = {_ENCODING: self._headers[_ENCODING]}
                    body = httpx.Response(200, headers=headers, content=body).content
                except httpx.DecodingError:
                    return
            keep(kind.encode() + b"\n" + body)

        async def aclose(self) -> None:
            await self._stop_reading()
            await self._stream.aclose()

    class KeepingClient(plain):  # type: ignore[misc]
        async def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
            slot = _slot.get()
            if slot is None:
                return await super().send(request, stream=stream, **options)
            earlier, keep = slot
            if earlier is not None:
                kind, _, body = earlier.partition(b"\n")
                headers = {"content-type": kind.decode(errors="replace")}
                return httpx.Response(200, headers=headers, content=body, request=request)
            response = await super().send(request, stream=True, **options)
            try:
                if response.status_code == 200:
                    response.stream = KeptStream(response, keep)
                if not stream:
                    await response.aread()
            except BaseException:
                await response.aclose()
                raise
            return response

    return KeepingClient
