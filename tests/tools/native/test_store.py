"""The cache between processes: pinned while in use, trimmed to its limit, repaired."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuda_llm.tools.native.cache import pin_entry, try_exclusive_use
from cuda_llm.tools.native.store import (
    build_once,
    entry_folder,
    find_entries,
    load,
    store,
    trim,
    trim_in_background,
)

PINS_ONE = """
import sys
from cuda_llm.tools.native.store import load
print(load("compiled", sys.argv[1]), flush=True)
sys.stdin.read()
"""
BUSY = """
import random, sys
from pathlib import Path
from cuda_llm.tools.native.store import entry_folder, load, store
from cuda_llm.tools.native.store import trim
dice = random.Random(sys.argv[1])
file = Path(sys.argv[2])
for turn in range(150):
    key = f"{dice.randrange(20):040x}"[::-1]
    if load("compiled", key) is None:
        store("compiled", key, {"key": key}, {"file": file})
    # What was loaded or stored stays while this process lives, though others trim meanwhile.
    assert (entry_folder("compiled", key) / "file").stat().st_size == file.stat().st_size, key
    if turn % 10 == 0:
        trim(100)
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for each test, of which nothing is trimmed unasked."""
    cache = tmp_path / "cache"
    (cache / "locks").mkdir(parents=True)
    (cache / "locks" / "trimmed").touch()
    monkeypatch.setenv("CUDA_LLM_CACHE", str(cache))
    return cache


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of a thousand bytes."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * 1000)
    return path


def in_another_process(code: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True)


STORE = """
import sys
from pathlib import Path
from cuda_llm.tools.native.store import store
for key in sys.argv[2:]:
    store("compiled", key, {"key": key}, {"file": Path(sys.argv[1])})
"""


def keys() -> list[str]:
    """Return the keys of all entries, the least recently used first."""
    return [one.folder.name for one in find_entries()]


def set_last_use(key: str, ago_s: float) -> None:
    """Make an entry look as if it had been used so long ago."""
    manifest = entry_folder("compiled", key) / "manifest.json"
    for path in (manifest, manifest.with_name("file")):
        os.utime(path, (time.time() - ago_s,) * 2)


@pytest.fixture
def five(file: Path) -> Iterator[list[str]]:
    """Entries of a process that is gone, by the time of their last use."""
    names = [f"{letter}0000" for letter in "edcba"]
    in_another_process(STORE, file, *names)
    for number, name in enumerate(names):
        set_last_use(name, 1000 - number)
    yield names


def test_the_least_recently_used_entry_is_removed_first(five: list[str]) -> None:
    size = find_entries()[0].size_bytes
    done = trim(3 * size)
    assert keys() == five[2:]
    assert (done.removed, done.left, done.in_use) == (2, 3, 0)
    assert (done.removed_bytes, done.left_bytes) == (2 * size, 3 * size)


def test_a_cache_within_its_limit_loses_nothing(five: list[str]) -> None:
    assert trim(10**9).removed == 0
    assert keys() == five


def test_using_an_entry_makes_it_the_newest(five: list[str]) -> None:
    assert in_another_process(PINS_ONE, five[0]).stdout == f"{ {'key': five[0]} }\n"
    assert keys() == [*five[1:], five[0]]


def test_an_entry_that_another_process_uses_stays_until_that_ends(five: list[str]) -> None:
    command = [sys.executable, "-c", PINS_ONE, five[0]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdin is not None
        holder.stdout.readline()
        done = trim(0)
        assert keys() == [five[0]]
        assert (done.removed, done.left, done.in_use) == (4, 1, 1)
        holder.kill()
    assert trim(0).left == 0


def test_an_entry_that_this_process_uses_stays(five: list[str]) -> None:
    assert load("compiled", five[1]) is not None
    pin_entry(entry_folder("compiled", five[2]))
    trim(0)
    assert sorted(keys()) == sorted(five[1:3])


PINS_MANY = """
import sys
from pathlib import Path
from cuda_llm.tools.native.cache import MOST_PINNED, pin_entry
from cuda_llm.tools.native.store import entry_folder
for kind, key in [("native", "first"), ("compiled", sys.argv[1])]:
    pin_entry(entry_folder(kind, key))
for number in range(MOST_PINNED - 1):
    pin_entry(entry_folder("compiled", f"{number:08}"))
print("pinned", flush=True)
sys.stdin.read()
"""


def test_a_process_pins_the_entries_used_last_and_our_native_parts_always(five: list[str]) -> None:
    command = [sys.executable, "-c", PINS_MANY, five[0]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with try_exclusive_use(entry_folder("compiled", five[0])) as free:
            assert free
        for kind, key in (("compiled", "00000000"), ("native", "first")):
            with try_exclusive_use(entry_folder(kind, key)) as free:
                assert not free
        holder.kill()


def test_processes_that_store_load_and_trim_at_once_find_the_entries_they_use(
    file: Path, own_cache: Path
) -> None:
    command = [sys.executable, "-c", BUSY]
    running = [
        subprocess.Popen([*command, str(number), str(file)], stderr=subprocess.PIPE, text=True)
        for number in range(4)
    ]
    errors = [process.communicate()[1] for process in running]
    assert errors == [""] * 4
    assert trim(0).in_use == 0
    assert [path.name for path in own_cache.glob("compiled/*/*")] == []


def test_a_damaged_part_is_built_again_and_an_intact_one_is_not(tmp_path: Path) -> None:
    made: list[Path] = []

    def make(scratch: Path) -> Path:
        made.append(scratch / "program")
        made[-1].write_text("#!/bin/sh\nexit 3\n")
        made[-1].chmod(0o755)
        return made[-1]

    first = build_once("program", "digest", make)
    assert build_once("program", "digest", make) == first
    assert len(made) == 1
    os.truncate(first, 5)
    assert build_once("program", "digest", make) == first
    assert len(made) == 2
    assert subprocess.run([first], check=False).returncode == 3
    assert build_once("other", "digest", make) != first


def test_scratch_folders_of_killed_processes_are_removed(own_cache: Path, five: list[str]) -> None:
    old, new = (own_cache / "compiled" / "aa" / f".new-{age}" for age in ("old", "new"))
    for folder in (old, new):
        folder.mkdir(parents=True)
        (folder / "file").write_text("half")
    os.utime(old, (time.time() - 7200,) * 2)
    trim(10**9)
    assert not old.exists()
    assert new.exists()
    assert keys() == five


def test_storing_trims_now_and_then_to_the_setting(
    five: list[str], own_cache: Path, monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    monkeypatch.setenv("CUDA_LLM_CACHE_LIMIT_MB", "1")
    file.write_bytes(b"x" * 1_500_000)
    store("compiled", "f0000", {}, {"file": file})
    assert len(keys()) == 6
    os.utime(own_cache / "locks" / "trimmed", (time.time() - 3600,) * 2)
    trim_in_background()
    deadline = time.monotonic() + 60
    while len(keys()) > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert keys() == ["f0000"]


def test_a_cache_that_can_only_be_read_is_read(five: list[str], own_cache: Path) -> None:
    (own_cache / "locks" / "used").unlink()
    (own_cache / "locks" / "used").mkdir()
    assert load("compiled", five[0]) == {"key": five[0]}


def test_what_a_killed_build_left_goes_when_the_part_is_built(own_cache: Path) -> None:
    def left() -> list[Path]:
        return [one for one in own_cache.rglob(".new-*") if one.is_dir()]

    code = "import os\nfrom cuda_llm.tools.native.store import build_once\n"
    code += "def die(scratch):\n    (scratch / 'part').write_text('half')\n    os._exit(0)\n"
    in_another_process(code + "build_once('part', 'digest', die)")
    assert len(left()) == 1

    def make(scratch: Path) -> Path:
        (scratch / "part").write_text("whole")
        return scratch / "part"

    assert build_once("part", "digest", make).read_text() == "whole"
    assert not left()
