from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.agents.llm.retry import classify_error, read_retry_after

NOW = datetime(2026, 1, 31, 10, 0, tzinfo=UTC)


@given(st.integers(0, 10**6))
def test_a_wait_is_read_from_seconds_and_from_a_date(seconds: int) -> None:
    when = format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)
    assert read_retry_after({"retry-after": str(seconds)}, NOW) == seconds
    assert read_retry_after({"retry-after": when}, NOW) == seconds


def test_a_date_that_has_passed_asks_for_no_wait() -> None:
    assert read_retry_after({"retry-after": "Fri, 30 Jan 2026 10:00:00 GMT"}, NOW) == 0.0


@pytest.mark.parametrize("header", ["", "soon", "-5", "1e9", "nan"])
def test_what_is_no_wait_is_none(header: str) -> None:
    assert read_retry_after({"retry-after": header}, NOW) is None


class OfAnotherProvider(Exception):
    status_code = 529


def test_another_providers_error_is_named_by_its_status() -> None:
    assert classify_error(OfAnotherProvider("overloaded")).kind == "server_error"


def test_what_an_endpoint_says_cannot_steer_a_terminal() -> None:
    failure = classify_error(RuntimeError("red \x1b[31m\nand a second line " + "x" * 1000))
    assert failure.detail.isprintable()
    assert len(failure.detail) < 400
