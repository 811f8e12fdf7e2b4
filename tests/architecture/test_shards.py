"""Shards of the slow tests: together they are all of them, and each takes about as long."""

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from corpus_sample import WHOLE
from hypothesis import given
from hypothesis import strategies as st
from record_durations import slow_functions
from shards import (
    SHARD,
    SHARDS,
    deal,
    file_of,
    of_shard,
    recorded,
    shard_of_run,
    without_parameters,
)

ROOT = Path(__file__).parents[2]
FUNCTIONS = st.builds("tests/test_{}.py::test_{}".format, st.integers(0, 30), st.integers(0, 5))
SECONDS = st.dictionaries(FUNCTIONS, st.floats(0, 200), max_size=60)
SHARED = """
import time
import pytest

@pytest.fixture(scope="module")
def shared():
    time.sleep(0.4)

@pytest.mark.parametrize("number", range(3))
def test_{name}(shared, number):
    pass
"""


@given(seconds=SECONDS, shards=st.integers(1, 16))
def test_each_function_is_in_one_shard_together_with_its_file(
    seconds: dict[str, float], shards: int
) -> None:
    dealt = deal(seconds, shards)
    assert dealt.keys() == seconds.keys()
    assert set(dealt.values()) <= set(range(shards))
    of_file = {(file_of(function), shard) for function, shard in dealt.items()}
    assert len(of_file) == len({file for file, _ in of_file})


@given(seconds=SECONDS, shards=st.integers(1, 16))
def test_no_shard_is_longer_than_the_others_by_more_than_a_file(
    seconds: dict[str, float], shards: int
) -> None:
    loads = dict.fromkeys(range(shards), 0.0)
    files: defaultdict[str, float] = defaultdict(float)
    for function, shard in deal(seconds, shards).items():
        loads[shard] += seconds[function]
        files[file_of(function)] += seconds[function]
    assert max(loads.values()) <= min(loads.values()) + max(files.values(), default=0.0) + 1e-6


def test_every_recorded_function_is_a_test() -> None:
    for function in recorded():
        file, _, name = function.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text(), (
            f"tests/durations.json: {function} is no test; take its line out"
        )


def test_the_recorded_seconds_are_dealt_evenly() -> None:
    loads = dict.fromkeys(range(SHARDS), 0.0)
    seconds = recorded()
    for function, shard in deal(seconds).items():
        loads[shard] += seconds[function]
    longest, *others = sorted(loads.values(), reverse=True)
    assert longest <= 1.5 * min(others), loads


def test_a_commit_names_a_shard_and_every_shard_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WHOLE, raising=False)
    found: list[int] = []
    for number in range(SHARDS):
        monkeypatch.setenv(SHARD, f"{7 * SHARDS + number:040x}")
        assert shard_of_run() == number
        found += of_shard(range(100))
    assert sorted(found) == list(range(100))


@pytest.mark.parametrize("named", [{}, {SHARD: ""}, {SHARD: "3", WHOLE: "1"}])
def test_without_a_shard_and_in_a_whole_run_nothing_is_left_out(
    monkeypatch: pytest.MonkeyPatch, named: dict[str, str]
) -> None:
    monkeypatch.delenv(WHOLE, raising=False)
    monkeypatch.delenv(SHARD, raising=False)
    for name, value in named.items():
        monkeypatch.setenv(name, value)
    assert shard_of_run() is None
    assert of_shard("abc") == ["a", "b", "c"]


def test_what_a_run_of_pytest_took_is_recorded(tmp_path: Path) -> None:
    """The first run blames one function for what its file shares, the second one the other."""
    (tmp_path / "tests").mkdir()
    file = tmp_path / "tests/test_it.py"
    file.write_text(
        SHARED.replace("0.4", "1.1").format(name="first")
        + "\n\ndef test_second(shared):\n    pass\n\n\ndef test_third():\n    pass\n"
    )
    every, quick = tmp_path / "all.xml", tmp_path / "quick.xml"
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    subprocess.run([*run, f"--junit-xml={every}"], cwd=tmp_path, check=True, timeout=60)
    first = "tests/test_it.py::test_first"
    assert list(slow_functions([every])) == [first]
    assert 1.1 <= slow_functions([every])[first] < 10
    file.write_text(file.read_text().replace("1.1", "3.1"))
    subprocess.run(
        [*run, "-k", "not first", f"--junit-xml={quick}"], cwd=tmp_path, check=True, timeout=60
    )
    assert set(slow_functions([every, quick])) == {
        first,
        "tests/test_it.py::test_second",
        "tests/test_it.py::test_third",
    }


@pytest.mark.parametrize("shift", [0, 1])
def test_a_shard_leaves_out_slow_tests_of_others_but_what_always_runs(shift: int) -> None:
    file = "tests/cuda_llm/cli/test_run.py"
    always = f"{file}::test_a_run_prints_for_a_person_what_won_and_what_that_is_worth"
    slow = {one for one in recorded() if one.startswith(file)} - {always}
    dealt = deal({one: taken for one, taken in recorded().items() if one != always})
    (shard,) = {dealt[one] for one in slow}
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [*collect, file],
        cwd=ROOT,
        env={**os.environ, SHARD: f"{(shard + shift) % SHARDS:x}", WHOLE: ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    collected = {without_parameters(line) for line in ran.stdout.splitlines() if "::" in line}
    assert always in collected
    assert slow & collected == (set() if shift else slow)


def test_what_holds_for_all_files_is_in_every_shard(request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("always")
