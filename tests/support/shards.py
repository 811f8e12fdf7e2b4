"""Which of the slow tests a submission runs: one shard of them, chosen by its commit."""

import json
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import pytest
from corpus_sample import is_whole

SHARD = "CUDA_LLM_TEST_SHARD"
"""A hexadecimal number, as a commit is: its remainder names the shard. Without it all tests run."""

SHARDS = 16

RECORD = Path(__file__).parents[1] / "durations.json"
"""Seconds that each slow test function took, all its parameters together, on two cores of CI or on
two that other work keeps busy, too."""

Member = TypeVar("Member")


def shard_of_run() -> int | None:
    """Return the shard that this run is confined to; None where it runs every test."""
    named = os.environ.get(SHARD)
    return int(named, 16) % SHARDS if named and not is_whole() else None


def recorded() -> dict[str, float]:
    """Return the seconds of each slow function by its node id without parameters."""
    return dict(json.loads(RECORD.read_text(encoding="utf-8")))


def deal(seconds: Mapping[str, float], shards: int = SHARDS) -> dict[str, int]:
    """Return the shard of each function: much the same seconds in each of them.

    The functions of a file stay together, as they share fixtures. Files are dealt from the longest
    on, each to the shard that has the least by then.
    """
    files: defaultdict[str, list[str]] = defaultdict(list)
    for function in seconds:
        files[file_of(function)].append(function)
    total = {file: sum(seconds[one] for one in functions) for file, functions in files.items()}
    loads = dict.fromkeys(range(shards), 0.0)
    dealt: dict[str, int] = {}
    for file in sorted(total, key=lambda file: (-total[file], file)):
        shard = min(loads, key=lambda shard: (loads[shard], shard))
        loads[shard] += total[file]
        dealt |= dict.fromkeys(files[file], shard)
    return dealt


def file_of(function: str) -> str:
    """Return the file of a node id."""
    return function.partition("::")[0]


def mark_slow(items: Iterable[pytest.Item]) -> None:
    """Give the tests of recorded functions the mark `slow`, for `-m "not slow"`."""
    seconds = recorded()
    for item in items:
        if function_of(item) in seconds:
            item.add_marker("slow")


def of_other_shards(items: Collection[pytest.Item]) -> set[pytest.Item]:
    """Return the slow tests that this run leaves out: all of other shards not marked `always`."""
    shard = shard_of_run()
    if shard is None:
        return set()
    always = {function_of(item) for item in items if item.get_closest_marker("always")}
    dealt = deal({one: taken for one, taken in recorded().items() if one not in always})
    return {item for item in items if dealt.get(function_of(item), shard) != shard}


def function_of(item: pytest.Item) -> str:
    """Return the node id of a test without its parameters."""
    return without_parameters(item.nodeid)


def without_parameters(test: str) -> str:
    """Return the function of a test: its node id or name in front of the parameters."""
    return test.partition("[")[0]


def of_shard(members: Iterable[Member]) -> list[Member]:
    """Return one in `SHARDS` members, others in each shard; all of them where no shard is named."""
    ordered = list(members)
    shard = shard_of_run()
    return ordered if shard is None else ordered[shard::SHARDS]
