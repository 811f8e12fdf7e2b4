"""Every way in which an endpoint can fail, by its name, and how often it is asked."""

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from model_calls import PRICE, QUICK, EventLog, MemoryStore, make_call, make_client
from model_server import Answer, Busy, Drop, ModelServer, Raw, Say

from cuda_llm.agents.llm.budget import Budget
from cuda_llm.conversation import CallFailed, Reply

CUT = Say("a long answer that never ends " * 4, cut="broken")
SILENT = Say("a long answer that never ends " * 4, cut="silent")
HTML = Raw(b"<html>gateway</html>")

RETRIED = [
    ("rate_limited", Busy(429)),
    ("server_error", Busy(500)),
    ("server_error", Busy(503)),
    ("server_error", Raw(b'{"error": {"message": "upstream broke", "code": 502}}')),
    ("cut_off", CUT),
    ("cut_off", Drop()),
    ("cut_off", Say("text", finish=None)),
    ("not_json", HTML),
    ("not_json", Raw(b"{oops", content_type="application/json")),
    ("not_json", Raw(b"{}", content_type="application/json")),
    ("not_json", Say(choices=0)),
]

FINAL = [
    ("no_access", Busy(401, code="invalid_api_key")),
    ("no_access", Busy(402, message="Insufficient Balance")),
    ("no_access", Busy(403)),
    ("no_access", Busy(429, message="You exceeded your current quota")),
    ("unknown_model", Busy(404, message="The model `x` does not exist")),
    ("unknown_model", Busy(400, message="Model Not Exist")),
    ("refused_request", Busy(404, message="no such page")),
    ("refused_request", Busy(400, message="temperature must be 1")),
    ("too_long", Busy(400, message="This model's maximum context length is 8 tokens")),
    ("too_long", Busy(500, message="the request exceeds the available context size")),
    ("too_long", Busy(400, code="context_length_exceeded", message="shorten it")),
]


@pytest.mark.parametrize(("kind", "answer"), RETRIED)
def test_what_may_pass_is_asked_as_often_as_the_policy_says(kind: str, answer: Answer) -> None:
    log = EventLog()
    with ModelServer(lambda request: answer) as server:
        failed = asyncio.run(make_client(server, record=log)(make_call()))
    assert isinstance(failed, CallFailed)
    assert (failed.kind, failed.tries) == (kind, QUICK.tries)
    assert len(server.requests) == QUICK.tries
    assert [retry.attempt for retry in log.retries] == [1, 2]
    assert [(call.outcome, call.tries) for call in log.calls] == [(kind, QUICK.tries)]


@pytest.mark.parametrize(("kind", "answer"), FINAL)
def test_what_cannot_pass_is_asked_once(kind: str, answer: Answer) -> None:
    log = EventLog()
    with ModelServer(lambda request: answer) as server:
        failed = asyncio.run(make_client(server, record=log)(make_call()))
    assert isinstance(failed, CallFailed)
    assert (failed.kind, failed.tries) == (kind, 1)
    assert len(server.requests) == 1
    assert not log.retries


@pytest.mark.parametrize("answer", [CUT, SILENT, HTML, Say(choices=0), Busy(429), Drop()])
def test_a_stream_that_fails_is_asked_again(answer: Answer) -> None:
    with ModelServer([answer, Say("whole", reasoning="why")]) as server:
        reply = asyncio.run(make_client(server, stream=True)(make_call()))
    assert isinstance(reply, Reply)
    assert (reply.text, reply.reasoning, reply.tries) == ("whole", "why", 2)
    assert reply.usage.output_tokens > 0
    assert all(request.body["stream"] for request in server.requests)


def test_the_seconds_that_a_server_asks_for_are_waited() -> None:
    with ModelServer([Busy(retry_after="1"), Say("yes")]) as server:
        reply = asyncio.run(make_client(server)(make_call()))
    assert isinstance(reply, Reply)
    first, second = server.requests
    assert second.at_s - first.at_s >= 0.95


def test_the_moment_that_a_server_names_is_waited_for() -> None:
    moment = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2)
    answers: list[Answer] = [Busy(retry_after=format_datetime(moment, usegmt=True)), Say("yes")]
    with ModelServer(answers) as server:
        named_s = time.monotonic() + (moment - datetime.now(UTC)).total_seconds()
        reply = asyncio.run(make_client(server)(make_call()))
    assert isinstance(reply, Reply)
    assert server.requests[1].at_s >= named_s - 0.05


def test_a_wait_beyond_the_limit_is_a_failure_that_says_so() -> None:
    with ModelServer([Busy(retry_after="90")]) as server:
        failed = asyncio.run(make_client(server)(make_call()))
    assert isinstance(failed, CallFailed)
    assert failed.kind == "rate_limited"
    assert "asks to wait 90 s, more than 2 s" in failed.detail
    assert len(server.requests) == 1


def test_no_wait_is_begun_that_ends_after_the_deadline() -> None:
    policy = replace(QUICK, deadline_s=60.0, retry_after_limit_s=600.0)
    with ModelServer([Busy(retry_after="90"), Say("too late")]) as server:
        failed = asyncio.run(make_client(server, policy=policy)(make_call()))
    assert isinstance(failed, CallFailed)
    assert failed.kind == "rate_limited"
    assert len(server.requests) == 1


def test_a_slow_first_byte_ends_the_try_and_the_next_one_may_answer() -> None:
    policy = replace(QUICK, try_s=3.0)
    with ModelServer([Say("late", wait_s=30), Say("soon")]) as server:
        reply = asyncio.run(make_client(server, policy=policy)(make_call()))
    assert isinstance(reply, Reply)
    assert (reply.text, reply.tries) == ("soon", 2)


@pytest.mark.parametrize("stream", [False, True])
def test_one_deadline_holds_around_all_tries(stream: bool) -> None:
    policy = replace(QUICK, try_s=60.0, deadline_s=3.0)
    dripping = Say("drip " * 100, pause_s=0.1, wait_s=0 if stream else 30)
    with ModelServer(lambda request: dripping) as server:
        failed = asyncio.run(make_client(server, policy=policy, stream=stream)(make_call()))
    assert isinstance(failed, CallFailed)
    assert failed.kind == "timed_out"
    assert len(server.requests) == 1


def test_nothing_that_listens_is_unreachable() -> None:
    with ModelServer([]) as server:
        client = make_client(server)
    failed = asyncio.run(client(make_call()))
    assert isinstance(failed, CallFailed)
    assert (failed.kind, failed.tries) == ("unreachable", QUICK.tries)


def test_a_wrong_key_and_an_unknown_model_are_failures_of_different_kinds() -> None:
    with ModelServer([], key="right") as server:
        wrong = asyncio.run(make_client(server, key="wrong")(make_call()))
        unknown = asyncio.run(make_client(server, key="right", name="other")(make_call()))
    assert isinstance(wrong, CallFailed)
    assert isinstance(unknown, CallFailed)
    assert (wrong.kind, unknown.kind) == ("no_access", "unknown_model")


def test_a_prompt_too_long_for_the_model_is_not_asked_again() -> None:
    with ModelServer([], context_tokens=10) as server:
        failed = asyncio.run(make_client(server)(make_call(text="word " * 50)))
    assert isinstance(failed, CallFailed)
    assert failed.kind == "too_long"
    assert len(server.requests) == 1


def test_without_access_the_run_has_to_end() -> None:
    budget = Budget()
    with ModelServer([Busy(401, message="bad key")]) as server:
        asyncio.run(make_client(server, budget=budget)(make_call("candidates/r1-c1")))
        again = asyncio.run(make_client(server, budget=budget)(make_call("candidates/r1-c2")))
    assert "bad key" in budget.over()
    assert isinstance(again, CallFailed)
    assert again.kind == "over_budget"
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("answer", "finish", "refusal", "text"),
    [
        (Say("half a ker", finish="length"), "length", "", "half a ker"),
        (Say("", finish="content_filter"), "content_filter", "", ""),
        (Say(None, refusal="I cannot"), "stop", "I cannot", ""),
        (Say(""), "stop", "", ""),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_a_model_says_is_handed_on_as_it_is(
    answer: Say, finish: str, refusal: str, text: str, stream: bool
) -> None:
    with ModelServer([answer]) as server:
        reply = asyncio.run(make_client(server, stream=stream)(make_call()))
    assert isinstance(reply, Reply)
    assert (reply.finish, reply.refusal, reply.text) == (finish, refusal, text)


def test_a_cancelled_call_is_recorded_and_its_spend_stays_booked() -> None:
    log, budget, store = EventLog(), Budget(), MemoryStore()

    async def cancel_soon(server: ModelServer) -> None:
        client = make_client(server, record=log, budget=budget, store=store, price=PRICE)
        asking = asyncio.create_task(client(make_call()))
        while not server.requests:
            await asyncio.sleep(0.01)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    with ModelServer([Say("never read", wait_s=5)]) as server:
        asyncio.run(cancel_soon(server))
    (call,) = log.calls
    assert (call.outcome, call.lost_tries) == ("cancelled", 1)
    assert call.lost_tokens == budget.spent.lost_tokens > 100
    assert not store.replies


def test_calls_in_flight_keep_to_their_slots() -> None:
    async def ask_many(server: ModelServer) -> None:
        client = make_client(server, slots=asyncio.Semaphore(3))
        calls = [make_call(f"candidates/r1-c{number}") for number in range(9)]
        answers = await asyncio.gather(*map(client, calls))
        assert all(isinstance(answer, Reply) for answer in answers)

    with ModelServer(lambda request: Say("ok", wait_s=0.05)) as server:
        asyncio.run(ask_many(server))
    assert server.most_at_once == 3


def test_waits_are_the_same_for_the_same_seed_in_whatever_order_calls_come() -> None:
    def waits(seed: int, names: list[str]) -> dict[str, list[float]]:
        log = EventLog()
        with ModelServer(lambda request: Busy(500)) as server:
            client = make_client(server, record=log, seed=seed)
            for name in names:
                asyncio.run(client(make_call(name)))
        return {name: [r.wait_s for r in log.retries if r.call == name] for name in names}

    first, turned, other = waits(1, ["a", "b"]), waits(1, ["b", "a"]), waits(2, ["a", "b"])
    assert first == turned
    assert first["a"] != first["b"]
    assert first != other
