"""A request that no run can follow is refused on one line before anything starts."""

from pathlib import Path
from typing import Any

import pytest

from cuda_llm.errors import UsageError
from cuda_llm.graph.request import RunRequest
from cuda_llm.graph.runs.resolve import check_request


def complaint(**asked: Any) -> str:
    with pytest.raises(UsageError) as caught:
        check_request(RunRequest(task="vector_add", **asked))
    return str(caught.value)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"candidates": 0}, "--candidates 0: expected a whole number from 1 to 256"),
        ({"candidates": -3}, "--candidates -3"),
        ({"rounds": 0}, "--rounds 0"),
        ({"seed": -1}, "--seed -1"),
        ({"patience": 0}, "--patience 0"),
        ({"round_quorum": 6}, "--round-quorum 6: expected a whole number from 0 to 5"),
        ({"tune": -1}, "--tune -1"),
        ({"budget_usd": 0.0}, "--budget-usd 0: expected a number above 0"),
        ({"budget_usd": float("nan")}, "--budget-usd nan"),
        ({"max_tokens": -5}, "--max-tokens -5"),
        ({"max_minutes": float("inf")}, "--max-minutes inf"),
        ({"hardware_context": "some"}, "--hardware-context some"),
        ({"hints": (" ",)}, "--hint is empty"),
        ({"start": "nowhere.cu"}, "nowhere.cu: No such file"),
        ({"base_url": "localhost:8000"}, "--base-url localhost:8000"),
        ({"base_url": "http://me:key@localhost/v1"}, "OPENAI_API_KEY"),
    ],
)
def test_an_option_out_of_range_is_refused(asked: dict[str, Any], message: str) -> None:
    assert message in complaint(**asked)


def test_a_key_in_an_address_is_not_repeated() -> None:
    assert "secret" not in complaint(base_url="http://me:secret@localhost/v1")


def test_options_in_range_pass(tmp_path: Path) -> None:
    kernel = tmp_path / "mine.cu"
    kernel.write_text('extern "C" void solve() {}\n')
    check_request(
        RunRequest(
            task="vector_add",
            start=str(kernel),
            prompts=str(tmp_path),
            budget_usd=0.5,
            max_minutes=1.5,
            base_url="http://localhost:8000/v1",
        )
    )
