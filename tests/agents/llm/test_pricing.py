import re
from pathlib import Path

import pytest

from cuda_llm.agents.llm.pricing import OURS, find_price, read_prices
from cuda_llm.errors import UsageError


def test_every_price_of_ours_names_endpoint_source_and_day() -> None:
    prices = read_prices(OURS)
    assert len(prices) >= 8
    for price in prices:
        assert price.endpoint
        assert price.source.startswith("https://")
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", price.date)
        assert 0 < price.cached_usd <= price.input_usd < price.output_usd
    assert len({(price.model, price.endpoint) for price in prices}) == len(prices)


def test_a_price_holds_at_its_own_endpoint_only() -> None:
    assert find_price("deepseek-flash", "https://api.deepseek.com/v1") is not None
    assert find_price("deepseek-flash", "http://localhost:8000/v1") is None
    assert find_price("deepseek-flash") is None
    assert find_price("gpt-5.4") is not None
    assert find_price("never-heard-of") is None


def test_ones_own_table_wins_and_holds_anywhere_unless_it_says_where(tmp_path: Path) -> None:
    table = tmp_path / "prices.toml"
    table.write_text('[[price]]\nmodels = ["gpt-5.4", "mine"]\ninput_usd = 1\noutput_usd = 2.5\n')
    own = find_price("gpt-5.4", table=table)
    assert own is not None
    assert own.usd(input_tokens=1_000_000, output_tokens=2_000_000) == 6.0
    assert own.cached_usd == 1.0
    assert find_price("mine", "http://localhost:8000/v1", table) is not None
    assert find_price("gpt-4.1", table=table) is not None


def test_an_endpoint_may_be_named_with_its_port(tmp_path: Path) -> None:
    table = tmp_path / "prices.toml"
    table.write_text(
        '[[price]]\nmodels = ["a"]\nendpoint = "localhost:8000"\ninput_usd = 1\noutput_usd = 2\n'
    )
    assert find_price("a", "http://localhost:8000/v1", table) is not None
    assert find_price("a", "http://localhost:9000/v1", table) is None


def test_cached_tokens_are_part_of_the_input() -> None:
    price = find_price("deepseek-v4-pro", "https://api.deepseek.com")
    assert price is not None
    usd = price.usd(input_tokens=2_000_000, cached_tokens=1_000_000, output_tokens=0)
    assert usd == pytest.approx(1.32 + 0.044)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[[price]]\n", "price[0].models: found nothing; expected an array"),
        (
            '[[price]]\nmodels = ["a"]\noutput_usd = 1\n',
            "price[0].input_usd: found nothing; expected US dollars",
        ),
        (
            '[[price]]\nmodels = ["a"]\ninput_usd = "1"\noutput_usd = 1\n',
            "price[0].input_usd: found 1; expected US dollars",
        ),
        (
            '[[price]]\nmodels = ["a"]\ninput_usd = -1\noutput_usd = 1\n',
            "found -1; expected US dollars",
        ),
        (
            '[[price]]\nmodels = ["a"]\ninput_usd = 1\noutput_usd = 1\ncolour = 1\n',
            "price[0].colour: found an unknown key; expected one of models",
        ),
        ("price = 1\n", "price: found 1; expected an array"),
        ("[[model]]\ninput = 1\n", "price: found nothing; expected an array"),
        ("[[price\n", "is not TOML"),
    ],
)
def test_a_broken_table_is_one_line_naming_the_place(tmp_path: Path, text: str, named: str) -> None:
    table = tmp_path / "prices.toml"
    table.write_text(text)
    with pytest.raises(UsageError) as caught:
        find_price("a", table=table)
    assert str(table) in str(caught.value)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_table_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not found"):
        find_price("a", table=tmp_path / "none.toml")
