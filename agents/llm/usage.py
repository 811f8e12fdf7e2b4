"""What a call cost, read from a reply, and what one may cost, before it is made."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cuda_llm.agents.llm.prices import Price
from cuda_llm.agents.prompting.tokens import count_tokens
from cuda_llm.conversation import Message, Usage

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

MOST_TOKENS = 10**9
"""No request has used as many."""

TOKENS_A_MESSAGE = 8
"""Roles and separators of a chat template."""


def count_prompt_tokens(messages: Sequence[Message]) -> int:
    """Tokens that a prompt may have; rather too many."""
    return sum(count_tokens(message.text) + TOKENS_A_MESSAGE for message in messages)


def read_usage(
    message: "AIMessage", messages: Sequence[Message], answer: str, price: Price | None
) -> Usage:
    """The server's own count; where it sent none, an estimate that says so.

    `answer` is the text and the reasoning that came back.
    """
    raw = message.response_metadata.get("token_usage") or {}
    found = message.usage_metadata
    if found is None or not _is_count(found["input_tokens"], found["output_tokens"]):
        counts = Usage(
            input_tokens=count_prompt_tokens(messages),
            output_tokens=count_tokens(answer),
            estimated=True,
        )
    else:
        counts = Usage(
            input_tokens=int(found["input_tokens"]),
            output_tokens=int(found["output_tokens"]),
            cached_tokens=_cached(found, raw),
            reasoning_tokens=_detail(found, "output_token_details", "reasoning"),
        )
    return price_usage(counts, price)


def _is_count(*tokens: object) -> bool:
    """Whether a server has counted: numbers below zero or beyond reason say nothing."""
    whole = [one for one in tokens if isinstance(one, (int, float)) and 0 <= one <= MOST_TOKENS]
    return len(whole) == len(tokens) and any(whole)


def price_usage(usage: Usage, price: Price | None) -> Usage:
    """The same tokens with what they cost."""
    if price is None:
        return replace(usage, usd=None)
    usd = price.usd(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
    )
    return replace(usage, usd=usd)


def _cached(found: Mapping[str, Any], raw: Mapping[str, Any]) -> int:
    """DeepSeek counts them under a name of its own, which langchain does not map."""
    cached = _detail(found, "input_token_details", "cache_read")
    cached = cached or int(raw.get("prompt_cache_hit_tokens") or 0)
    return min(max(cached, 0), int(found["input_tokens"]))


def _detail(found: Mapping[str, Any], group: str, name: str) -> int:
    return max(int((found.get(group) or {}).get(name) or 0), 0)
