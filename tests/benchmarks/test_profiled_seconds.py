"""Where the profiled time of a referee goes, told by what functions are there for."""

import cProfile
import pstats
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
REST = "the rest of the referee"
SLEEPER = "import time\n\ndef library(seconds):\n    time.sleep(seconds)\n"
CALLER = "def {name}(library, seconds):\n    library(seconds)\n"


def load(path: Path, text: str) -> ModuleType:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    module = ModuleType(path.stem)
    exec(compile(text, str(path), "exec"), module.__dict__)
    return module


@pytest.fixture
def spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[str, float]]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from record import by_kind  # type: ignore[import-not-found, unused-ignore]

    library = load(tmp_path / "site/wait.py", SLEEPER).library
    drawing = load(tmp_path / "tools/stage.py", CALLER.format(name="stage")).stage
    comparing = load(tmp_path / "tools/compare.py", CALLER.format(name="compare")).compare
    other = load(tmp_path / "tools/other.py", CALLER.format(name="other")).other

    def run() -> dict[str, float]:
        profile = cProfile.Profile()
        started = time.perf_counter()
        profile.enable()
        drawing(library, 0.1)
        comparing(library, 0.3)
        other(library, 0.05)
        profile.disable()
        found: dict[str, float] = by_kind(pstats.Stats(profile))
        assert sum(found.values()) == pytest.approx(time.perf_counter() - started, abs=0.05)
        return found

    return run


def test_a_librarys_time_is_that_of_those_who_call_it(
    spent: Callable[[], dict[str, float]],
) -> None:
    found = spent()
    assert found["drawing and sealing inputs"] == pytest.approx(0.1, abs=0.04)
    assert found["expected values and comparison"] == pytest.approx(0.3, abs=0.04)
    assert found[REST] == pytest.approx(0.05, abs=0.04)
