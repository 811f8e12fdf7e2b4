"""A command that is stopped from outside: by Ctrl-C, by SIGTERM, by a device that breaks."""

import json
import signal
from pathlib import Path

import pytest
from commands import Command
from tiny_tasks import tiny_task

ROOT = Path(__file__).parents[3]
BASELINE = ROOT / "tasks/vector_add/baseline.cu"


def test_sigterm_ends_a_run_as_ctrl_c_does(cuda_llm: Command, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    ran = cuda_llm(
        *("run", tiny_task(tmp_path, "vector_add"), "--device", "emulated"),
        *("--rounds", "9", "--out", runs),
        interrupt_when=lambda: any(runs.glob("*/candidates/r1-*/source.cu")),
        send=signal.SIGTERM,
    )
    assert ran.code == 143, ran.stderr
    assert "go on with: cuda-llm resume" in ran.complaint
    (run,) = runs.iterdir()
    last = json.loads((run / "events.jsonl").read_text().splitlines()[-1])
    assert last["kind"] == "run_interrupted"
    listed = cuda_llm("trace", "list", "--out", runs, "--json")
    assert [one["state"] for one in json.loads(listed.stdout)["runs"]] == ["interrupted"]
    resumed = cuda_llm(
        *("resume", run),
        interrupt_when=lambda: "run_resumed" in (run / "events.jsonl").read_text(),
        send=signal.SIGTERM,
    )
    assert resumed.code == 143, resumed.stderr
    kinds = [json.loads(line)["kind"] for line in (run / "events.jsonl").read_text().splitlines()]
    assert kinds.count("run_interrupted") == 2


@pytest.mark.parametrize("send", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "arguments",
    [("run", "vector_add"), ("evaluate", "vector_add", BASELINE)],
    ids=["run", "evaluate"],
)
def test_the_first_build_of_native_parts_can_be_stopped(
    arguments: tuple[object, ...], send: signal.Signals, cuda_llm: Command, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    ran = cuda_llm(
        *(*arguments, "--device", "emulated"),
        interrupt_when=lambda: any(cache.glob("native/*/.new-*/*.o")),
        send=send,
        CUDA_LLM_CACHE=str(cache),
    )
    assert ran.code == 128 + send, ran.stderr
    assert ran.complaint.startswith("error: interrupted")
    assert not [*cache.rglob(".*")], "something half-made is left"
    # Whoever had waited for the build would have all four.
    assert len([*cache.glob("native/*/*/manifest.json")]) < 4


def test_evaluate_keeps_what_it_has_when_it_is_stopped(cuda_llm: Command, tmp_path: Path) -> None:
    (tmp_path / "broken.cu").write_text("int x")
    files = ["broken.cu"]
    for number in range(12):
        files.append(f"{number}.cu")
        (tmp_path / files[-1]).write_text(f"// {number}\n{BASELINE.read_text()}")
    ran = cuda_llm(
        *("evaluate", "vector_add", *files, "--device", "emulated", "--json"),
        interrupt_after_s=4.0,
    )
    if ran.code in (0, 130) and ran.stdout:
        results = json.loads(ran.stdout)["results"]
        assert 0 < len(results) <= len(files)
        stopped = f"{len(results)} of {len(files)} files were judged"
        assert ran.code == 0 or stopped in ran.complaint
    else:
        assert ran.code == 130, ran.stderr


def test_a_device_of_ones_own_that_breaks_is_one_line(cuda_llm: Command, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from cuda_llm.extend import open_device\n"
        "from cuda_llm.tools.emulator.device import EmulatedDevice\n"
        "class Broken(EmulatedDevice):\n"
        "    def prepare(self): pass\n"
        "    def open(self, candidate): raise OSError(5, 'gone', 'the rack')\n"
        "    def open_cached(self, candidate): raise OSError(5, 'gone', 'the rack')\n"
        "device = Broken(open_device('emulated').hardware)\n"
    )
    ran = cuda_llm("evaluate", "vector_add", BASELINE, "--device", "own.py:device", cwd=tmp_path)
    assert ran.code == 2, ran.stderr
    assert ran.complaint == "error: the rack: gone"
