"""Prices of models, and the largest number of tokens of a prompt."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from cuda_llm.agents.prompting.token_budget import count_tokens
from cuda_llm.conversation import Message
from cuda_llm.data_file import Rule, UnfitError, read_as, read_table
from cuda_llm.errors import UsageError

OURS = Path(__file__).with_name("prices.toml")

OPENAI = "api.openai.com"
"""Host of the endpoint that is asked when no other is named."""

TOKENS_A_MESSAGE = 8
"""Roles and separators of a chat template."""


@dataclass(frozen=True, kw_only=True)
class Price:
    """US dollars per million tokens."""

    model: str
    endpoint: str = ""
    """Host that the price holds for; empty for any host."""
    input_usd: float
    cached_usd: float
    """Price of input tokens that the server had cached."""
    output_usd: float
    """Price of output tokens, reasoning included."""
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


def count_prompt_tokens(messages: Sequence[Message]) -> int:
    """Count the tokens that a prompt may have; rather too many."""
    return sum(count_tokens(message.text) + TOKENS_A_MESSAGE for message in messages)
