"""What a server echoes, counts or redirects to harms neither the key, the budget nor the policy."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from model_calls import MemoryStore, make_call
from model_server import Answer, Busy, ModelServer, Raw, Say

from cuda_llm.agents.llm.chat_model import RequestOptions, open_chat_model
from cuda_llm.agents.llm.client import ModelClient
from cuda_llm.agents.llm.retry import RetryPolicy, classify_error
from cuda_llm.conversation import CallFailed, Reply
from cuda_llm.traces.events import Event

KEY = "sk-a-very-secret-key"
POLICY = RetryPolicy(tries=2, try_s=60.0, first_wait_s=0.01)


def ask(answer: Answer) -> tuple[Reply | CallFailed, list[Event], int]:
    """Return the reply, what was recorded, and how many requests it took."""
    events: list[Event] = []
    with ModelServer(lambda _: answer) as server:
        options = RequestOptions(try_s=60.0)
        model = open_chat_model("scripted", base_url=server.base_url, key=KEY, options=options)
        client = ModelClient(
            model=model, name="scripted", store=MemoryStore(), record=events.append, policy=POLICY
        )
        reply = asyncio.run(client(make_call("candidates/r1-c1")))
    return reply, events, len(server.requests)


def error(body: Any) -> Raw:
    return Raw(json.dumps({"error": body}).encode(), content_type="application/json")


@pytest.mark.parametrize(
    "answer",
    [
        Busy(401, message=f"Incorrect API key provided: {KEY}"),
        Busy(400, message=f"odd header: Bearer {KEY}"),
        Busy(500, message=f"request failed: {KEY}"),
        error({"message": f"{KEY} is bad", "code": 401}),
        error(f"{KEY} is bad"),
        Say(f"Your key is {KEY}.", reasoning=KEY, refusal=KEY),
    ],
)
def test_a_key_that_a_server_echoes_is_neither_stored_nor_recorded(answer: Answer) -> None:
    reply, events, _ = ask(answer)
    assert KEY not in repr((reply, events))
    assert "(key)" in repr(reply)


@pytest.mark.parametrize(
    ("sent", "counted"),
    [
        ({"prompt_tokens": -500, "completion_tokens": -7}, None),
        ({"prompt_tokens": 10, "completion_tokens": -7}, None),
        ({"prompt_tokens": 10**30, "completion_tokens": 1}, None),
        ({"prompt_tokens": 0, "completion_tokens": 0}, None),
        ({"prompt_tokens": 12.0, "completion_tokens": 3}, (12, 3)),
    ],
)
def test_a_count_that_cannot_be_is_replaced_by_an_estimate(
    sent: Mapping[str, float], counted: tuple[int, int] | None
) -> None:
    reply, _, _ = ask(Say("kernel", usage={**sent, "total_tokens": 1}))
    assert isinstance(reply, Reply)
    used = reply.usage
    assert used.estimated == (counted is None)
    assert used.input_tokens > 0
    assert counted in (None, (used.input_tokens, used.output_tokens))
    assert all(isinstance(one, int) for one in (used.input_tokens, used.output_tokens))


def test_details_below_zero_count_nothing() -> None:
    usage = {
        **{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        "completion_tokens_details": {"reasoning_tokens": -4},
        "prompt_tokens_details": {"cached_tokens": -40},
    }
    reply, _, _ = ask(Say("kernel", usage=usage))
    assert isinstance(reply, Reply)
    assert (reply.usage.cached_tokens, reply.usage.reasoning_tokens) == (0, 0)


def test_a_redirect_is_not_followed_but_reported() -> None:
    where = "http://user:word@elsewhere.example/v1/chat/completions?key=1"
    reply, _, requests = ask(Busy(307, location=where))
    assert isinstance(reply, CallFailed)
    assert reply.kind == "refused_request"
    assert "redirects to http://elsewhere.example/v1; name that address with --base" in reply.detail
    assert requests == 1


def test_terminal_codes_in_an_error_are_not_passed_on() -> None:
    reply, _, _ = ask(Busy(400, message="\x1b]0;mine\x07\x1b[2J\u202e"))
    assert isinstance(reply, CallFailed)
    assert reply.detail.isprintable()


def test_json_that_nests_too_deep_is_no_answer() -> None:
    assert classify_error(RecursionError("maximum recursion depth")).kind == "not_json"
