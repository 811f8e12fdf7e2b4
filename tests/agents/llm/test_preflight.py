"""What is wrong with a model is reported in one line, with the remedy, before any work."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from model_calls import PRICE, QUICK
from model_server import Busy, ModelServer, Raw, Say

from cuda_llm.agents.llm.budget import Budget, Round
from cuda_llm.agents.llm.chat_model import RequestOptions, open_chat_model
from cuda_llm.agents.llm.preflight import check_model
from cuda_llm.errors import CudaLLMError, MissingError, UsageError
from cuda_llm.traces.events import ModelCalled


def check(server: ModelServer, name: str = "scripted", **more: Any) -> ModelCalled:
    options = RequestOptions(try_s=30.0, output_tokens=1000)
    address = more.pop("address", server.base_url)
    model = open_chat_model(name, base_url=address, key=more.pop("key", ""), options=options)
    parts = {"budget": Budget(), "price": PRICE, "round": Round(calls=5), **more}
    return asyncio.run(
        check_model(model, name, endpoint=address, output_tokens=1000, policy=QUICK, **parts)
    )


def complaint(server: ModelServer, kind: type[CudaLLMError], **more: Any) -> str:
    with pytest.raises(kind) as caught:
        check(server, **more)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_model_that_answers_passes_and_the_probe_is_counted() -> None:
    budget = Budget()
    with ModelServer([Say("ready")]) as server:
        probe = check(server, budget=budget)
    assert len(server.requests) == 1
    assert server.requests[0].body["max_tokens"] == 1000
    assert (probe.agent, probe.outcome) == ("preflight", "ok")
    assert budget.spent.usd == probe.usd
    assert budget.spent.model_calls == 1


def test_a_wrong_key() -> None:
    with ModelServer([], key="right") as server:
        message = complaint(server, MissingError, key="wrong")
    assert "Incorrect API key" in message
    assert "check OPENAI_API_KEY" in message
    assert len(server.requests) == 1


def test_an_endpoint_that_is_not_there() -> None:
    with ModelServer([]) as server:
        pass
    message = complaint(server, MissingError, address="http://user:secret@127.0.0.1:9/v1")
    assert "http://127.0.0.1:9/v1 does not answer" in message
    assert "secret" not in message
    assert "--base-url" in message


def test_an_unknown_model_is_told_with_the_nearest_there_is() -> None:
    with ModelServer([], model="qwen3-coder") as server:
        message = complaint(server, UsageError, name="qwen3-codr")
    assert "has no model 'qwen3-codr'" in message
    assert "it has qwen3-coder" in message


def test_an_unknown_model_where_nothing_lists_models() -> None:
    with ModelServer([], lists_models=False) as server:
        message = complaint(server, UsageError, name="other")
    assert "has no model 'other'" in message


def test_an_endpoint_that_speaks_no_json() -> None:
    with ModelServer(lambda request: Raw(b"<html>welcome</html>")) as server:
        message = complaint(server, UsageError)
    assert "is no OpenAI-compatible endpoint" in message
    assert len(server.requests) == 2


def test_an_address_that_lacks_its_path() -> None:
    with ModelServer([]) as server:
        message = complaint(server, UsageError, address=server.base_url.removesuffix("/v1"))
    assert "is no OpenAI-compatible endpoint" in message
    assert message.endswith("most addresses end in /v1")


@pytest.mark.parametrize("answer", [Busy(500), Busy(429, retry_after="90")])
def test_an_endpoint_that_cannot_answer_now(answer: Busy) -> None:
    with ModelServer(lambda request: answer) as server:
        message = complaint(server, MissingError)
    assert "cannot answer now" in message
    assert message.endswith("try again later")


def test_answers_longer_than_the_server_allows() -> None:
    refusal = Busy(400, message="max_tokens is too large: 1000. It supports at most 512")
    with ModelServer([refusal]) as server:
        message = complaint(server, UsageError)
    assert "lower CUDA_LLM_MODEL_OUTPUT_TOKENS" in message


@pytest.mark.parametrize(
    ("budget", "price", "expected"),
    [
        (Budget(usd=0.07), PRICE, "--budget-usd 0.07 is too small: one round takes $0.0800"),
        (Budget(tokens=9_000), PRICE, "--max-tokens 9,000 is too small: one round takes 35,000"),
        (Budget(usd=5.0), None, "--budget-usd: the price of scripted"),
    ],
)
def test_a_budget_too_small_for_one_round(budget: Budget, price: Any, expected: str) -> None:
    with ModelServer([]) as server:
        message = complaint(server, UsageError, budget=budget, price=price)
    assert expected in message
    assert not server.requests


def test_the_estimate_of_a_round_is_stated() -> None:
    with ModelServer([]) as server:
        message = complaint(server, UsageError, budget=Budget(usd=0.01))
    assert "5 prompts of about 6,000 tokens and answers of about 4,000" in message
    assert message.endswith("raise it, or ask for fewer --candidates")


def test_a_budget_too_small_for_the_longest_single_answer() -> None:
    budget = Budget(tokens=6_900)
    with ModelServer([]) as server:
        message = complaint(
            server, UsageError, budget=budget, round=Round(calls=1, answer_tokens=10)
        )
    assert "one request may take 7,000 tokens: 6,000 in, 1,000 out" in message
    assert "lower CUDA_LLM_MODEL_OUTPUT_TOKENS" in message


def test_checking_leaves_nothing_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with ModelServer([Say("ready")]) as server:
        check(server)
    assert not list(tmp_path.iterdir())
