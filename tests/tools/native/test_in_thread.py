"""A build on a thread ends once nobody waits for it, whatever it does then."""

import asyncio
import subprocess
import time
from pathlib import Path

import pytest
from ended import names_of_children
from other_builder import builds_all

from cuda_llm.errors import InfrastructureError
from cuda_llm.tools.native import build, build_in_thread


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A program."""
    path = tmp_path / "sources" / "main.cpp"
    path.parent.mkdir()
    path.write_text("int main() { return 3; }\n")
    return path


async def build_program(source: Path) -> Path:
    return await build_in_thread(lambda: build("part", [source], [], source.parent))


async def cancel_when(begun: asyncio.Event, source: Path) -> float:
    """Return how long the build went on after it was cancelled, in seconds."""
    building = asyncio.ensure_future(build_program(source))
    await begun.wait()
    assert not building.done()
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building
    before_s = time.monotonic()
    await asyncio.get_running_loop().shutdown_default_executor()
    return time.monotonic() - before_s


def test_what_is_built_comes_back(source: Path) -> None:
    assert subprocess.run([asyncio.run(build_program(source))], check=False).returncode == 3


def test_what_a_build_raises_comes_back(source: Path) -> None:
    source.write_text("nonsense")
    with pytest.raises(InfrastructureError, match="part does not build"):
        asyncio.run(build_program(source))


def test_compilers_end_with_the_task_that_waits(source: Path, slow_program: str) -> None:
    """g++ is a driver: what computes is a child of it."""
    source.write_text(slow_program)

    def compilers() -> list[str]:
        return [name for name in names_of_children() if name == "cc1plus"]

    async def run() -> float:
        begun = asyncio.Event()

        async def watch() -> None:
            while not compilers():
                await asyncio.sleep(0.02)
            begun.set()

        _, went_on_s = await asyncio.gather(watch(), cancel_when(begun, source))
        return went_on_s

    assert asyncio.run(run()) < 60, "g++ would work for minutes"
    assert compilers() == []


def test_waiting_for_another_process_ends_with_the_task_that_waits(
    source: Path, own_cache: Path
) -> None:
    """Ctrl-C would otherwise be heard when that process has built all its parts."""

    async def run() -> float:
        begun = asyncio.Event()
        asyncio.get_running_loop().call_later(0.3, begun.set)
        return await cancel_when(begun, source)

    with builds_all(own_cache) as builder:
        asyncio.run(run())
        assert builder.poll() is None


def test_who_waits_for_another_process_builds_after_it(source: Path, own_cache: Path) -> None:
    async def run() -> Path:
        building = asyncio.ensure_future(build_program(source))
        await asyncio.sleep(0.1)
        assert not building.done()
        assert builder.stdin is not None
        builder.stdin.close()
        return await building

    with builds_all(own_cache) as builder:
        assert asyncio.run(run()).is_file()
