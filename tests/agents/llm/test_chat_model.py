"""What is asked is what is sent, whatever the model is called."""

import asyncio

import pytest
from langchain_core.language_models import BaseChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI
from model_calls import PRICE, QUICK, EventLog, MemoryStore, make_call, make_client
from model_server import Busy, ModelServer, Say
from pydantic import SecretStr

from cuda_llm.agents.llm.chat_model import RequestOptions, find_endpoint, open_chat_model
from cuda_llm.agents.llm.client import ModelClient
from cuda_llm.conversation import CallFailed, Reply
from cuda_llm.errors import MissingError, UsageError

NAMES = ["scripted", "gpt-5.2", "gpt-5-codex", "gpt-5.2-pro", "o3-mini", "llama3:8b"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("stream", [False, True])
def test_every_option_reaches_the_body_under_any_name(name: str, stream: bool) -> None:
    more = {"temperature": 0.7, "top_k": 20, "chat_template_kwargs": {"enable_thinking": False}}
    options = RequestOptions(output_tokens=77, stream=stream, more=more)
    with ModelServer([Say("ok")], model=name) as server:
        model = open_chat_model(name, base_url=server.base_url, options=options)
        asyncio.run(model.ainvoke("hello"))
    (request,) = server.requests
    assert server.paths == ["/v1/chat/completions"]
    assert {key: request.body[key] for key in more} == more
    assert request.body["max_tokens"] == 77
    assert "max_completion_tokens" not in request.body
    assert bool(request.body.get("stream")) == stream
    assert request.headers["authorization"] == "Bearer none"


def test_key_and_address_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer([Say("ok")], key="mine") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "mine")
        asyncio.run(open_chat_model("scripted").ainvoke("hello"))
    assert len(server.requests) == 1


def test_a_setting_wins_over_openais_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1")
    monkeypatch.setenv("CUDA_LLM_BASE_URL", "http://localhost:2/v1")
    assert find_endpoint() == "http://localhost:2/v1"
    assert find_endpoint("http://localhost:3/v1") == "http://localhost:3/v1"


def test_openai_without_a_key_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(MissingError, match="set OPENAI_API_KEY"):
        open_chat_model("gpt-5.4")


def test_certificates_that_cannot_be_read_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    open_chat_model("small", base_url="http://localhost:1/v1")
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere.pem")
    with pytest.raises(UsageError, match=r"^SSL_CERT_FILE=/nowhere\.pem: no certificates could"):
        open_chat_model("small", base_url="http://localhost:1/v1")


@pytest.mark.parametrize("address", ["localhost:8000", "ftp://host/v1", "http://"])
def test_a_malformed_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="expected one like http://localhost:8000/v1"):
        open_chat_model("scripted", base_url=address)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("stream", [False, True])
def test_reasoning_is_kept_apart_from_the_answer(field: str, stream: bool) -> None:
    answer = Say("the answer", reasoning="because of the reasons " * 3, reasoning_field=field)
    with ModelServer([answer]) as server:
        reply = asyncio.run(make_client(server, stream=stream)(make_call()))
    assert isinstance(reply, Reply)
    assert (reply.text, reply.reasoning) == (answer.text, answer.reasoning)


def test_a_model_can_be_asked_from_one_event_loop_after_another() -> None:
    with ModelServer([Say("one"), Say("two")]) as server:
        model = open_chat_model("scripted", base_url=server.base_url)
        assert asyncio.run(model.ainvoke("hello")).text == "one"
        assert asyncio.run(model.ainvoke("hello")).text == "two"


def test_json_mode_is_asked_for_where_the_answer_is_to_be_json() -> None:
    with ModelServer([Say("{}"), Say("plain")]) as server:
        client = make_client(server)
        asyncio.run(client(make_call("a", as_json=True)))
        asyncio.run(client(make_call("b")))
    asked, plain = server.requests
    assert asked.body["response_format"] == {"type": "json_object"}
    assert asked.body["max_tokens"] == 100
    assert "response_format" not in plain.body


def test_an_answer_in_json_mode_may_be_cut_at_its_length() -> None:
    with ModelServer([Say('{"a": ', finish="length")]) as server:
        reply = asyncio.run(make_client(server)(make_call(as_json=True)))
    assert isinstance(reply, Reply)
    assert (reply.finish, reply.text) == ("length", '{"a": ')


def test_a_server_without_json_mode_is_asked_plainly_and_remembered() -> None:
    log = EventLog()
    with ModelServer(lambda request: Say("{}"), json_mode=False) as server:
        client = make_client(server, record=log)
        first = asyncio.run(client(make_call("a", as_json=True)))
        asyncio.run(client(make_call("b", as_json=True)))
    assert isinstance(first, Reply)
    assert first.tries == 2
    assert ["response_format" in request.body for request in server.requests] == [
        True,
        False,
        False,
    ]
    (retry,) = log.retries
    assert "response_format" in retry.reason


def test_another_refusal_does_not_end_json_mode() -> None:
    with ModelServer(lambda request: Busy(400, message="bad temperature")) as server:
        client = make_client(server)
        for name in ("a", "b"):
            failed = asyncio.run(client(make_call(name, as_json=True)))
            assert isinstance(failed, CallFailed)
            assert (failed.kind, failed.tries) == ("refused_request", 2)
    asked = ["response_format" in request.body for request in server.requests]
    assert asked == [True, False, True, False]


def desk_of(model: BaseChatModel) -> ModelClient:
    return ModelClient(
        model=model, name="own", store=MemoryStore(), record=EventLog(), policy=QUICK, price=PRICE
    )


def test_any_langchain_model_can_be_asked() -> None:
    counted = AIMessage(
        "kernel",
        usage_metadata={"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100},
        response_metadata={"stop_reason": "max_tokens"},
    )
    model = GenericFakeChatModel(messages=iter([counted, "bare"]))
    first = asyncio.run(desk_of(model)(make_call("a", as_json=True)))
    second = asyncio.run(desk_of(model)(make_call("b", text="x" * 25)))
    assert isinstance(first, Reply)
    assert isinstance(second, Reply)
    assert first.finish == "length"
    assert first.usage.usd == pytest.approx(0.002)
    assert (second.text, second.finish, second.usage.estimated) == ("bare", "stop", True)
    assert second.usage.input_tokens > 0


def test_a_model_that_raises_anything_is_a_failure() -> None:
    failed = asyncio.run(desk_of(GenericFakeChatModel(messages=iter([])))(make_call()))
    assert isinstance(failed, CallFailed)
    assert failed.kind == "server_error"


def test_a_models_own_retries_do_not_multiply_ours() -> None:
    with ModelServer(lambda request: Busy(500)) as server:
        model = ChatOpenAI(
            model="scripted", base_url=server.base_url, api_key=SecretStr("none"), max_retries=5
        )
        asyncio.run(desk_of(model)(make_call()))
    assert len(server.requests) == QUICK.tries
    assert model.root_async_client.max_retries == 5
