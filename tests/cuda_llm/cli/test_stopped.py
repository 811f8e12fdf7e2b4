"""A command that is stopped from outside: by Ctrl-C, by a device that breaks."""

import json
import signal
from pathlib import Path

from commands import Command
from tiny_tasks import tiny_task

ROOT = Path(__file__).parents[3]
BASELINE = ROOT / "tasks/vector_add/baseline.cu"


def test_the_first_build_of_native_parts_can_be_stopped(process: Command, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    ran = process(
        *("evaluate", "vector_add", BASELINE, "--device", "emulated"),
        until=lambda: any(cache.glob("native/*/.new-*/*.o")),
        CUDA_LLM_CACHE=str(cache),
    )
    assert ran.code == 128 + signal.SIGINT, ran.stderr
    assert ran.complaint.startswith("error: interrupted")
    assert not [*cache.rglob(".*")], "something half-made is left"
    # Whoever had waited for the build would have all four.
    assert len([*cache.glob("native/*/*/manifest.json")]) < 4


OWN_DEVICE = """
import asyncio, os, signal
from contextlib import asynccontextmanager
from cuda_llm.extend import open_device
from cuda_llm.tools.emulator.device import EmulatedDevice

class Broken(EmulatedDevice):
    def open(self, candidate):
        raise OSError(5, "gone", "the rack")

class Interrupted(EmulatedDevice):
    @asynccontextmanager
    async def open(self, candidate):
        while sum(one.get_coro().__name__ == "judge_and_advise" for one in asyncio.all_tasks()) > 1:
            await asyncio.sleep(0.01)
        # The baseline is opened, too: Ctrl-C is pressed once.
        if not pressed:
            pressed.append(os.kill(os.getpid(), signal.SIGINT))
        await asyncio.sleep(600)
        yield

pressed = []
broken = Broken(open_device("emulated").hardware)
interrupted = Interrupted(open_device("emulated").hardware)
"""


def test_evaluate_keeps_what_it_has_when_it_is_stopped(command: Command, tmp_path: Path) -> None:
    """A device at which somebody presses Ctrl-C as soon as one of two kernels is judged."""
    (tmp_path / "own.py").write_text(OWN_DEVICE)
    (tmp_path / "broken.cu").write_text("int x")
    task = tiny_task(tmp_path, "vector_add")
    ran = command(
        "evaluate", task, "broken.cu", BASELINE, "--device", "own.py:interrupted", "--json"
    )
    assert ran.code == 130, ran.stderr
    assert "1 of 2 files were judged" in ran.complaint
    (result,) = json.loads(ran.stdout)["results"]
    assert result["verdict"]["code"] == "COMPILE_FAILED"


def test_a_device_of_ones_own_that_breaks_is_one_line(command: Command, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN_DEVICE)
    ran = command("evaluate", "vector_add", BASELINE, "--device", "own.py:broken")
    assert ran.code == 2, ran.stderr
    assert ran.complaint == "error: the rack: gone"
