import asyncio

import pytest
from model_calls import MemoryStore, make_call, make_client
from model_server import ModelServer, Say

from cuda_llm.conversation import CallFailed, Reply


def test_an_answer_is_kept_and_never_asked_for_again() -> None:
    with ModelServer([Say("kernel", reasoning="thinking")]) as server:
        store = MemoryStore()
        client = make_client(server, store=store)
        first = asyncio.run(client(make_call("candidates/r1-c1")))
        again = asyncio.run(client(make_call("candidates/r1-c1")))
    assert isinstance(first, Reply)
    assert (first.text, first.reasoning, first.finish) == ("kernel", "thinking", "stop")
    assert again == first
    assert len(server.requests) == 1
    assert list(store.prompts) == ["candidates/r1-c1"]


@pytest.mark.parametrize("streamed", [False, True])
def test_an_answer_is_on_the_disk_before_it_is_read(streamed: bool) -> None:
    """A process that dies while it reads the answer leaves it to the next one."""

    class DiesWithTheReply(MemoryStore):
        def write_reply(self, call: str, reply: Reply) -> None:
            raise SystemExit

    store, after = DiesWithTheReply(), MemoryStore()
    with ModelServer([Say("kernel", reasoning="thinking")]) as server:
        with pytest.raises(SystemExit):
            asyncio.run(make_client(server, store=store, stream=streamed)(make_call("r1")))
        after.bodies = store.bodies
        client = make_client(server, store=after, stream=streamed)
        again = asyncio.run(client(make_call("r1")))
        asked = len(server.requests)
    assert isinstance(again, Reply)
    assert (again.text, again.reasoning, again.finish, asked) == ("kernel", "thinking", "stop", 1)
    assert after.replies == {"r1": again}
    assert not after.bodies


@pytest.mark.parametrize("body", [b"", b"text/html\n<html>", b"application/json\n{}", b"\xff" * 99])
def test_a_body_that_holds_no_answer_is_asked_for_again(body: bytes) -> None:
    store = MemoryStore(bodies={"r1": body})
    with ModelServer([Say("kernel")]) as server:
        reply = asyncio.run(make_client(server, store=store)(make_call("r1")))
        assert len(server.requests) == 1
    assert isinstance(reply, Reply)
    assert reply.text == "kernel"


@pytest.mark.parametrize("answer", [Say("kernel", cut="broken"), Say("kernel", cut="silent")])
@pytest.mark.parametrize("streamed", [False, True])
def test_an_answer_that_was_cut_off_is_not_kept(answer: Say, streamed: bool) -> None:
    store = MemoryStore()
    with ModelServer(lambda _: answer) as server:
        client = make_client(server, store=store, stream=streamed)
        assert isinstance(asyncio.run(client(make_call("r1"))), CallFailed)
    assert not [body for body in store.bodies.values() if b"DONE" in body]
