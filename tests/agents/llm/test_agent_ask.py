"""Questions of one turn of an agent: their identity, their time, and their end."""

import asyncio

import pytest
from model_calls import EventLog, MemoryStore, make_client
from model_server import Answer, Busy, ModelServer, Request, Say

from cuda_llm.agents.llm.agent_ask import AgentAsk, folder_of_turn
from cuda_llm.conversation import CallFailed, Message, Reply

FOLDER = "rounds/1/lessons"


def echo(request: Request) -> Answer:
    return Say(f"about {request.prompt}")


def test_a_question_is_asked_in_the_agents_name_and_kept_in_its_folder() -> None:
    store, log = MemoryStore(), EventLog()

    async def run(server: ModelServer) -> Reply | CallFailed:
        client = make_client(server, store=store, record=log)
        with AgentAsk(client, "lessons", FOLDER) as ask:
            return await ask("tiles?", system="be short")

    with ModelServer(echo) as server:
        reply = asyncio.run(run(server))
    assert isinstance(reply, Reply)
    assert reply.text == "about be short\ntiles?"
    roles = [(one["role"], one["content"]) for one in server.requests[0].body["messages"]]
    assert roles == [("system", "be short"), ("user", "tiles?")]
    (name,) = store.replies
    assert name.startswith(f"{FOLDER}/ask-")
    assert [(one.agent, one.call, one.outcome) for one in log.calls] == [("lessons", name, "ok")]


def test_a_turn_that_is_repeated_finds_its_replies_in_whatever_order_it_asks() -> None:
    store = MemoryStore()

    async def turn(server: ModelServer, *questions: str) -> list[str]:
        with AgentAsk(make_client(server, store=store), "lessons", FOLDER) as ask:
            replies = await asyncio.gather(*map(ask, questions))
        return [one.text for one in replies if isinstance(one, Reply)]

    numbered = iter(range(100))
    with ModelServer(lambda request: Say(f"{request.prompt} {next(numbered)}")) as server:
        first = asyncio.run(turn(server, "a", "b", "a"))
        again = asyncio.run(turn(server, "b", "a", "a"))
    assert len(server.requests) == 3, "the same question twice in one turn is two calls"
    assert sorted(first) == sorted(again)


def test_another_system_text_or_form_of_answer_is_another_question() -> None:
    store = MemoryStore()

    async def run(server: ModelServer) -> None:
        with AgentAsk(make_client(server, store=store), "lessons", FOLDER) as ask:
            await ask("a")
            await ask("a", system="s")
            await ask("a", as_json=True)
            await ask([Message(role="user", text="a")])

    with ModelServer(echo) as server:
        asyncio.run(run(server))
    plain = [name for name in store.replies if not name.endswith("-2")]
    assert len(plain) == 3
    assert len(store.replies) == 4, "a message is the same question as its text"


def test_a_question_ends_before_the_agents_own_time_does() -> None:
    async def run(server: ModelServer) -> Reply | CallFailed:
        client = make_client(server)
        with AgentAsk(client, "lessons", FOLDER, limit_s=5.0) as ask:
            async with asyncio.timeout(5.0):
                return await ask("a")

    with ModelServer([Say("late", wait_s=20.0)]) as server:
        failed = asyncio.run(run(server))
    assert isinstance(failed, CallFailed)
    assert failed.kind == "timed_out"


def test_a_task_that_an_agent_leaves_behind_asks_no_more() -> None:
    log = EventLog()

    async def run(server: ModelServer) -> list[Reply | CallFailed]:
        with AgentAsk(make_client(server, record=log), "lessons", FOLDER) as ask:
            left = asyncio.ensure_future(ask("a"))
            while not server.requests:
                await asyncio.sleep(0.01)
        return [await left, await ask("b")]

    with ModelServer([Say("late", wait_s=20.0)]) as server:
        answers = asyncio.run(run(server))
    assert [one.kind for one in answers if isinstance(one, CallFailed)] == ["timed_out"] * 2
    assert len(server.requests) == 1
    assert [one.outcome for one in log.calls] == ["cancelled"]


def test_an_agent_that_is_cancelled_is_cancelled_while_it_asks_too() -> None:
    async def run(server: ModelServer) -> None:
        with AgentAsk(make_client(server), "lessons", FOLDER) as ask:
            async with asyncio.timeout(0.2):
                await ask("a")

    with ModelServer([Say("late", wait_s=20.0)]) as server, pytest.raises(TimeoutError):
        asyncio.run(run(server))


@pytest.mark.parametrize("prompt", [[], ["a"], 7])
def test_what_is_no_prompt_is_refused(prompt: object) -> None:
    async def run(server: ModelServer) -> None:
        with AgentAsk(make_client(server), "lessons", FOLDER) as ask:
            await ask(prompt)  # type: ignore[arg-type]

    with ModelServer([]) as server, pytest.raises(TypeError):
        asyncio.run(run(server))


def test_a_failure_of_the_endpoint_is_an_answer() -> None:
    async def run(server: ModelServer) -> Reply | CallFailed:
        with AgentAsk(make_client(server), "lessons", FOLDER) as ask:
            return await ask("a")

    with ModelServer(lambda request: Busy(500)) as server:
        failed = asyncio.run(run(server))
    assert isinstance(failed, CallFailed)
    assert (failed.kind, failed.tries) == ("server_error", 3)


def test_the_folder_of_a_turn_takes_any_name() -> None:
    assert folder_of_turn(2, "lessons") == "rounds/2/lessons"
    assert folder_of_turn(0, "../my agent!") == "rounds/0/_my_agent_"
