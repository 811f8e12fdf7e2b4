"""Parts of a benchmark that several runs share."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def sharded(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[int], str], list[int]]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import record  # type: ignore[import-not-found, unused-ignore]

    assert "record" in sys.modules
    function: Callable[[list[int], str], list[int]] = record.sharded
    return function


@pytest.mark.parametrize("count", [1, 3, 8])
def test_shards_are_everything_once(
    count: int, sharded: Callable[[list[int], str], list[int]]
) -> None:
    parts = [sharded(list(range(7)), f"{number}/{count}") for number in range(1, count + 1)]
    assert sorted(one for part in parts for one in part) == list(range(7))


@pytest.mark.parametrize("wrong", ["0/2", "3/2", "1", "1/", "a/b", "-1/2"])
def test_a_shard_that_is_none_is_named(
    wrong: str, sharded: Callable[[list[int], str], list[int]]
) -> None:
    with pytest.raises(SystemExit, match=f"--shard {wrong}: .*as in 2/4"):
        sharded([1, 2], wrong)
