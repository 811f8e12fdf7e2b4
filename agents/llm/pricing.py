"""What calls cost: prices by model, tokens read from a reply, and the most that a call may use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from cuda_llm.agents.prompting.token_budget import count_tokens
from cuda_llm.conversation import Message, Usage
from cuda_llm.data_file import Rule, UnfitError, read_as, read_table
from cuda_llm.errors import UsageError

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

OURS = Path(__file__).with_name("prices.toml")

OPENAI = "api.openai.com"
"""Host of the endpoint that is asked when no other is named."""


@dataclass(frozen=True, kw_only=True)
class Price:
    """US dollars per million tokens."""

    model: str
    endpoint: str = ""
    """Host that it holds for; empty for any."""
    input_usd: float
    cached_usd: float
    """Of the part of the input that the server had cached."""
    output_usd: float
    """Of the answer, reasoning included."""
    source: str = ""
    date: str = ""
    """Day of the source, as YYYY-MM-DD."""
    note: str = ""

    def usd(self, *, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> float:
        """Return what so many tokens cost; `cached_tokens` are part of `input_tokens`."""
        asked = (input_tokens - cached_tokens) * self.input_usd + cached_tokens * self.cached_usd
        return (asked + output_tokens * self.output_usd) / 1e6


def find_price(model: str, base_url: str = "", table: Path | None = None) -> Price | None:
    """Return the price of `model` at an endpoint; None where neither table knows it.

    Raises UsageError: `table`, the user's own, cannot be read.
    """
    address = urlsplit(base_url)
    places = ("", address.hostname or OPENAI, address.netloc.lower())
    tables = (OURS,) if table is None else (table, OURS)
    for price in (price for path in tables for price in read_prices(path)):
        if price.model == model and price.endpoint in places:
            return price
    return None


def read_prices(path: Path) -> tuple[Price, ...]:
    """Return all prices of a table. Raises UsageError naming file, entry and key."""
    try:
        table = read_as(_Table, read_table(path, UsageError))
    except UnfitError as unfit:
        raise UsageError(f"{path}: {unfit}") from None
    return tuple(
        Price(
            model=model,
            endpoint=entry.endpoint,
            input_usd=entry.input_usd,
            cached_usd=entry.input_usd if entry.cached_usd is None else entry.cached_usd,
            output_usd=entry.output_usd,
            source=entry.source,
            date=entry.date,
            note=entry.note,
        )
        for entry in table.price
        for model in entry.models
    )


_Usd = Annotated[
    float,
    Rule(
        lambda core: core.float_schema(ge=0, lt=1e6, allow_inf_nan=False),
        "US dollars a million tokens",
    ),
]


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """Models of one price, as the table spells them."""

    models: tuple[str, ...]
    endpoint: str = ""
    input_usd: _Usd
    cached_usd: _Usd | None = None
    output_usd: _Usd
    source: str = ""
    date: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class _Table:
    price: tuple[_Entry, ...]


MOST_TOKENS = 10**9
"""No request has used as many."""

TOKENS_A_MESSAGE = 8
"""Roles and separators of a chat template."""


def count_prompt_tokens(messages: Sequence[Message]) -> int:
    """Count the tokens that a prompt may have; rather too many."""
    return sum(count_tokens(message.text) + TOKENS_A_MESSAGE for message in messages)


def read_usage(
    message: "AIMessage", messages: Sequence[Message], answer: str, price: Price | None
) -> Usage:
    """Return the server's own count; where it sent none, an estimate that says so.

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
    """Return whether a server has counted: negative or absurd numbers say nothing."""
    whole = [one for one in tokens if isinstance(one, (int, float)) and 0 <= one <= MOST_TOKENS]
    return len(whole) == len(tokens) and any(whole)


def price_usage(usage: Usage, price: Price | None) -> Usage:
    """Return the same tokens with what they cost."""
    if price is None:
        return replace(usage, usd=None)
    usd = price.usd(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
    )
    return replace(usage, usd=usd)


def _cached(found: Mapping[str, Any], raw: Mapping[str, Any]) -> int:
    """Return the cached tokens; DeepSeek's own name for them is one langchain does not map."""
    cached = _detail(found, "input_token_details", "cache_read")
    cached = cached or int(raw.get("prompt_cache_hit_tokens") or 0)
    return min(max(cached, 0), int(found["input_tokens"]))


def _detail(found: Mapping[str, Any], group: str, name: str) -> int:
    return max(int((found.get(group) or {}).get(name) or 0), 0)
