"""Calls, clients and a store in memory, for tests that ask the scripted server."""

from dataclasses import dataclass, field
from typing import Any

from model_server import ModelServer

from cuda_llm.agents.llm.chat_model import RequestOptions, open_chat_model
from cuda_llm.agents.llm.client import ModelClient
from cuda_llm.agents.llm.pricing import Price
from cuda_llm.agents.llm.retry import RetryPolicy
from cuda_llm.conversation import Call, Message, Reply
from cuda_llm.traces.events import Event, ModelCalled, ModelRetried

QUICK = RetryPolicy(
    tries=3, try_s=20.0, deadline_s=60.0, first_wait_s=0.02, longest_wait_s=0.05,
    retry_after_limit_s=2.0,
)  # fmt: skip

PRICE = Price(model="scripted", input_usd=1.0, cached_usd=0.1, output_usd=10.0)


@dataclass
class MemoryStore:
    """Prompts and replies, kept as long as the test runs."""

    prompts: dict[str, Call] = field(default_factory=dict)
    replies: dict[str, Reply] = field(default_factory=dict)
    bodies: dict[str, bytes] = field(default_factory=dict)

    def load_reply(self, call: str) -> Reply | None:
        return self.replies.get(call)

    def write_prompt(self, call: Call) -> None:
        self.prompts[call.id] = call

    def write_reply(self, call: str, reply: Reply) -> None:
        self.replies[call] = reply
        self.bodies.pop(call, None)

    def load_body(self, call: str) -> bytes | None:
        return self.bodies.get(call)

    def write_body(self, call: str, body: bytes) -> None:
        self.bodies[call] = body


@dataclass
class EventLog:
    """Events, in the order they were told."""

    events: list[Event] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    @property
    def calls(self) -> list[ModelCalled]:
        return [event for event in self.events if isinstance(event, ModelCalled)]

    @property
    def retries(self) -> list[ModelRetried]:
        return [event for event in self.events if isinstance(event, ModelRetried)]


def make_call(
    name: str = "candidates/r1-c1", text: str = "hello", *, as_json: bool = False
) -> Call:
    """A question of one message."""
    messages = (Message(role="user", text=text),)
    return Call(id=name, agent="generator", messages=messages, as_json=as_json)


def make_client(
    server: ModelServer,
    *,
    name: str = "scripted",
    key: str = "",
    stream: bool = False,
    output_tokens: int = 100,
    **more: Any,
) -> ModelClient:
    """A client in front of the scripted server."""
    options = RequestOptions(try_s=20.0, output_tokens=output_tokens, stream=stream)
    model = open_chat_model(name, base_url=server.base_url, key=key, options=options)
    parts = {"store": MemoryStore(), "record": EventLog(), "policy": QUICK, **more}
    return ModelClient(model=model, name=name, output_tokens=output_tokens, **parts)
