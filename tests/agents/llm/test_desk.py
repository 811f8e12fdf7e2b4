import asyncio

from model_calls import MemoryVault, make_call, make_desk
from model_server import ModelServer, Say

from cuda_llm.conversation import Reply


def test_an_answer_is_kept_and_never_asked_for_again() -> None:
    with ModelServer([Say("kernel", reasoning="thinking")]) as server:
        vault = MemoryVault()
        desk = make_desk(server, vault=vault)
        first = asyncio.run(desk(make_call("candidates/r1-c1")))
        again = asyncio.run(desk(make_call("candidates/r1-c1")))
    assert isinstance(first, Reply)
    assert (first.text, first.reasoning, first.finish) == ("kernel", "thinking", "stop")
    assert again == first
    assert len(server.requests) == 1
    assert list(vault.prompts) == ["candidates/r1-c1"]
