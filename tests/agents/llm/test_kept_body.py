"""A streamed answer is kept as it comes, whatever becomes of its pieces."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from model_server import ModelServer, Say

from cuda_llm.agents.llm.kept_body import keeping_body, keeping_client

TEXT = "a kernel of many pieces; " * 100


def test_a_streamed_answer_is_kept_while_its_first_piece_is_worked_on() -> None:
    kept: list[bytes] = []

    async def take_slowly(stream: Any) -> None:
        pieces = [await anext(stream)]
        async with asyncio.timeout(120):
            while not kept:
                await asyncio.sleep(0.01)
        pieces += [piece async for piece in stream]
        texts = [one.delta.content or "" for piece in pieces for one in piece.choices]
        assert "".join(texts) == TEXT

    ask(take_slowly, Say(TEXT), kept)
    assert len(kept) == 1
    assert kept[0].rstrip().endswith(b"[DONE]")


def test_a_stream_that_is_left_half_way_is_read_no_further() -> None:
    kept: list[bytes] = []

    async def leave(stream: Any) -> None:
        await anext(stream)
        await stream.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    ask(leave, Say(TEXT, pause_s=0.05), kept)
    assert kept == []


def test_who_reads_on_goes_on_where_another_one_stopped() -> None:
    """openai reads what follows the end of an answer anew, while the first reader waits there."""
    kept: list[bytes] = []

    async def read_twice(stream: Any) -> None:
        body = stream.response.stream
        first, second = aiter(body), aiter(body)
        async with asyncio.timeout(120):
            pieces = [await anext(first), *[piece async for piece in second]]
            assert [piece async for piece in body] == []
        assert kept[0].partition(b"\n")[2] == b"".join(pieces)
        await stream.close()

    ask(read_twice, Say(TEXT, pause_s=0.001), kept)
    assert len(kept) == 1


def ask(take: Callable[[Any], Awaitable[None]], answer: Say, kept: list[bytes]) -> None:
    """Ask a server that answers in a stream."""
    import openai

    async def once(base_url: str) -> None:
        client = keeping_client()()
        async with openai.AsyncOpenAI(base_url=base_url, api_key="k", http_client=client) as model:
            with keeping_body(None, kept.append):
                stream = await model.chat.completions.create(
                    model="scripted", messages=[{"role": "user", "content": "hello"}], stream=True
                )
            await take(stream)

    with ModelServer([answer]) as server:
        asyncio.run(once(server.base_url))
