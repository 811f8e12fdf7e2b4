import asyncio

from model_calls import MemoryStore, make_call, make_client
from model_server import ModelServer, Say

from cuda_llm.conversation import Reply


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
