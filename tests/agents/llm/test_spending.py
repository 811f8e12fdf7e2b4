"""Limits hold however many calls are in flight, and nobody is refused before he must be."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_calls import PRICE, QUICK, EventLog, MemoryStore, make_call, make_client
from model_server import Busy, Drop, ModelServer, Say

from cuda_llm.agents.llm.budget import Bound, Budget, Reservation
from cuda_llm.conversation import CallFailed, Reply, Usage
from cuda_llm.traces.events import ModelCalled

LONG = "y" * 400
"""A hundred tokens by the server's count: all that an answer may have."""


def ask_many(server: ModelServer, budget: Budget, count: int, **more: Any) -> list[object]:
    async def gather() -> list[object]:
        client = make_client(server, budget=budget, price=PRICE, output_tokens=101, **more)
        calls = [make_call(f"candidates/r1-c{number}") for number in range(count)]
        return list(await asyncio.gather(*map(client, calls)))

    return asyncio.run(gather())


def kinds(answers: list[object]) -> list[str]:
    return [one.kind if isinstance(one, CallFailed) else "ok" for one in answers]


@pytest.mark.parametrize("make_budget", [lambda: Budget(tokens=400), lambda: Budget(usd=0.004)])
def test_a_limit_holds_with_calls_in_flight(make_budget: Callable[[], Budget]) -> None:
    budget = make_budget()
    with ModelServer(lambda request: Say(LONG, wait_s=0.05)) as server:
        answers = ask_many(server, budget, 8)
    assert budget.spent.tokens <= 400
    assert budget.spent.usd <= 0.0040
    assert kinds(answers).count("ok") == len(server.requests) == 3
    assert kinds(answers).count("over_budget") == 5
    assert budget.over()


def test_near_a_limit_calls_wait_for_each_other_instead_of_failing() -> None:
    budget = Budget(tokens=400)
    with ModelServer(lambda request: Say("short", wait_s=0.02)) as server:
        answers = ask_many(server, budget, 12)
    assert kinds(answers) == ["ok"] * 12
    assert server.most_at_once == 3
    assert budget.over() == ""


def test_money_cannot_be_kept_to_where_the_price_is_unknown() -> None:
    with ModelServer([]) as server:
        client = make_client(server, budget=Budget(usd=1.0))
        failed = asyncio.run(client(make_call()))
    assert isinstance(failed, CallFailed)
    assert (failed.kind, failed.tries) == ("over_budget", 0)
    assert not server.requests


def test_without_limits_spending_is_counted() -> None:
    budget = Budget()
    counts = {
        "prompt_tokens": 1000,
        "completion_tokens": 200,
        "total_tokens": 1200,
        "prompt_tokens_details": {"cached_tokens": 400},
        "completion_tokens_details": {"reasoning_tokens": 150},
    }
    deepseek = {
        "prompt_tokens": 1000,
        "completion_tokens": 200,
        "total_tokens": 1200,
        "prompt_cache_hit_tokens": 400,
    }
    script = [Say("a", usage=counts), Say("b", usage=deepseek), Say("c", usage={})]
    with ModelServer(script) as server:
        log = EventLog()
        ask_many(server, budget, 3, record=log, slots=asyncio.Semaphore(1))
    openai, deepseek_told, silent = log.calls
    assert (openai.cached_tokens, openai.reasoning_tokens) == (400, 150)
    assert openai.usd == pytest.approx((600 + 40 + 2000) / 1e6)
    assert deepseek_told.usd == openai.usd
    assert silent.estimated
    assert silent.input_tokens > 0
    assert budget.spent.model_calls == 3
    assert budget.spent.usd == pytest.approx(sum(call.usd or 0 for call in log.calls))
    assert budget.over() == ""


def test_what_was_cut_off_stays_booked_and_what_was_refused_does_not() -> None:
    log, budget = EventLog(), Budget()
    with ModelServer([Drop(), Busy(503), Say("ok")]) as server:
        ask_many(server, budget, 1, record=log)
    (call,) = log.calls
    assert (call.outcome, call.tries, call.lost_tries) == ("ok", 3, 1)
    assert call.lost_tokens == budget.spent.lost_tokens > 101
    assert call.lost_usd == pytest.approx(budget.spent.lost_usd)


def test_the_minutes_end_a_call_that_is_under_way() -> None:
    budget = Budget(minutes=0.5 / 60)
    with ModelServer([Say("late", wait_s=5)]) as server:
        (failed,) = ask_many(server, budget, 1, policy=replace(QUICK, try_s=10, deadline_s=10))
    assert isinstance(failed, CallFailed)
    assert failed.kind == "over_budget"
    assert "minutes are over" in failed.detail
    assert failed.seconds < 2


def test_a_resumed_run_goes_on_where_its_spending_stood() -> None:
    log, first = EventLog(), Budget()
    with ModelServer([Say(LONG), Drop(), Say(LONG), Busy(400)]) as server:
        ask_many(server, first, 3, record=log, slots=asyncio.Semaphore(1))
    second = Budget(minutes=1.0, clock=lambda: 0.0)
    second.restore(log.events, seconds=61.0)
    assert second.spent == first.spent
    assert second.seconds_left() == -1.0
    assert "minutes" in second.over()


def test_a_reply_whose_event_was_lost_is_counted_once_and_told() -> None:
    usage = Usage(input_tokens=10, output_tokens=5, usd=0.5)
    store = MemoryStore(replies={"candidates/r1-c1": Reply(text="kept", usage=usage, tries=2)})
    log, budget = EventLog(), Budget()
    with ModelServer([]) as server:
        client = make_client(server, store=store, record=log, budget=budget)
        for _ in range(2):
            reply = asyncio.run(client(make_call("candidates/r1-c1")))
            assert isinstance(reply, Reply)
    assert not server.requests
    (call,) = log.calls
    assert (call.outcome, call.tries, call.usd) == ("ok", 2, 0.5)
    assert budget.spent.usd == 0.5


def test_a_reply_that_was_told_before_the_kill_is_not_told_again() -> None:
    store = MemoryStore(replies={"a": Reply(text="kept")})
    log, budget = EventLog(), Budget()
    budget.restore([ModelCalled(call="a", agent="generator", model="m", outcome="ok", usd=0.5)])
    with ModelServer([]) as server:
        asyncio.run(make_client(server, store=store, record=log, budget=budget)(make_call("a")))
    assert not log.events
    assert budget.spent.usd == 0.5


@given(
    limit=st.integers(0, 300),
    calls=st.lists(
        st.tuples(
            st.integers(1, 100),
            st.floats(0, 1),
            st.integers(0, 3),
            st.sampled_from(["settle", "lose", "free"]),
        ),
        max_size=12,
    ),
)
def test_no_order_of_calls_passes_a_limit(
    limit: int, calls: list[tuple[int, float, int, str]]
) -> None:
    budget = Budget(tokens=limit)

    async def one(bound: int, share: float, turns: int, end: str) -> str:
        found = await budget.reserve(Bound(tokens=bound))
        if not isinstance(found, Reservation):
            return "refused"
        for _ in range(turns):
            await asyncio.sleep(0)
        if end == "settle":
            found.settle("", Usage(input_tokens=int(bound * share)))
        elif end == "lose":
            found.lose()
        else:
            found.free()
        return end

    async def all_of_them() -> list[str]:
        return await asyncio.gather(*[one(*call) for call in calls])

    ends = asyncio.run(all_of_them())
    assert budget.spent.tokens <= limit
    for (bound, *_), end in zip(calls, ends, strict=True):
        assert end != "refused" or budget.spent.tokens + bound > limit
