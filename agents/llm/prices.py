"""What a model costs: a dated table, with the user's own before ours. An unknown price is None."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cuda_llm.errors import UsageError

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
        """What so many tokens cost; `cached_tokens` are part of `input_tokens`."""
        asked = (input_tokens - cached_tokens) * self.input_usd + cached_tokens * self.cached_usd
        return (asked + output_tokens * self.output_usd) / 1e6


def find_price(model: str, base_url: str = "", table: Path | None = None) -> Price | None:
    """The price of `model` at an endpoint; None where neither table knows it.

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
    """All prices of a table. Raises UsageError naming file, entry and key."""
    try:
        entries = tomllib.loads(path.read_text()).get("price")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: no price table: {error}") from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UsageError(f"{path}: expected [[price]] entries")
    return tuple(
        price for number, entry in enumerate(entries, 1) for price in _prices(path, number, entry)
    )


_KEYS = {"models", "endpoint", "input_usd", "cached_usd", "output_usd", "source", "date", "note"}


def _prices(path: Path, number: int, entry: dict[str, Any]) -> Iterator[Price]:
    where = f"{path}: price {number}"
    if unknown := sorted(set(entry) - _KEYS):
        raise UsageError(f"{where}: unknown key {unknown[0]}; expected {', '.join(sorted(_KEYS))}")
    models = entry.get("models")
    if not isinstance(models, list) or not all(isinstance(name, str) for name in models):
        raise UsageError(f"{where}: models: expected a list of names")
    input_usd = _figure(where, "input_usd", entry)
    day = entry.get("date", "")
    for model in models:
        yield Price(
            model=model,
            endpoint=str(entry.get("endpoint", "")),
            input_usd=input_usd,
            cached_usd=_figure(where, "cached_usd", {"cached_usd": input_usd, **entry}),
            output_usd=_figure(where, "output_usd", entry),
            source=str(entry.get("source", "")),
            date=day.isoformat() if isinstance(day, date) else str(day),
            note=str(entry.get("note", "")),
        )


def _figure(where: str, name: str, entry: dict[str, Any]) -> float:
    value = entry.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e6:
        raise UsageError(f"{where}: {name}: expected US dollars a million tokens, not {value!r}")
    return float(value)
