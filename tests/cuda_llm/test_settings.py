import subprocess
import sys
from pathlib import Path

import pytest

from cuda_llm.settings import Settings, settings


def ask(expression: str, home: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    code = (
        "from cuda_llm.settings import settings\n"
        "from cuda_llm.errors import UsageError\n"
        "try:\n"
        f"    print({expression})\n"
        "except UsageError as error:\n"
        "    print('UsageError:', error)\n"
    )
    return subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={"HOME": str(home), **env},
        capture_output=True,
        text=True,
        check=True,
    )


def test_defaults_need_no_environment(tmp_path: Path) -> None:
    assert ask("settings().device", tmp_path).stdout == "auto\n"
    assert ask("settings().cache", tmp_path).stdout == f"{tmp_path}/.cache/cuda-llm\n"


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    config = tmp_path / ".config/cuda-llm/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('device = "emulated:A100"\ncompile_workers = 3\n')
    shown = ask(
        "(settings().device, settings().compile_workers)", tmp_path, CUDA_LLM_DEVICE="emulated"
    )
    assert shown.stdout == "('emulated', 3)\n"


@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("compile_workers = -1\n", "compile_workers"),
        ("colour = 'red'\n", "colour"),
        ("device = \n", "config.toml"),
    ],
)
def test_a_bad_setting_is_one_line_naming_it(tmp_path: Path, file: str, named: str) -> None:
    config = tmp_path / ".config/cuda-llm/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(file)
    shown = ask("settings()", tmp_path).stdout
    assert shown.startswith("UsageError:")
    assert shown.count("\n") == 1
    assert named in shown


FILE = """
cache = "{home}/elsewhere"
nvcc = "~/toolkit/bin/nvcc"
hardware_dir = "{home}/gpus"
compile_workers = 1
call_limit_s = 3.5
"""

IN_FORCE = """
import asyncio
from cuda_llm.errors import CudaLLMError
from cuda_llm.hardware_profiles.lookup import list_hardware
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.compiler.nvcc import find_toolkit
from cuda_llm.tools.compiler.workspace import compile_slot
from cuda_llm.tools.native import cache_dir
from cuda_llm.tools.validator.buffers import call_options

async def workers():
    return compile_slot()._value

def refusal_of(ask):
    try:
        ask()
    except CudaLLMError as error:
        return str(error)

task = load_task("vector_add")
print(cache_dir())
print(refusal_of(find_toolkit))
print(refusal_of(list_hardware))
print(asyncio.run(workers()))
print(call_options(task, task.sizes.emulated[0]).limit_s)
"""


def test_the_file_is_obeyed_everywhere(tmp_path: Path) -> None:
    config = tmp_path / ".config/cuda-llm/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(FILE.format(home=tmp_path))
    done = subprocess.run(
        [sys.executable, "-P", "-c", IN_FORCE],
        env={"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    cache, toolkit, hardware, workers, limit = done.stdout.splitlines()
    assert cache == f"{tmp_path}/elsewhere"
    assert f"names no nvcc that runs: {tmp_path}/toolkit/bin/nvcc" in toolkit
    assert f"no such folder: {tmp_path}/gpus" in hardware
    assert (workers, limit) == ("1", "3.5")


def test_a_changed_environment_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LLM_CACHE", "here")
    assert settings().cache == Path("here").absolute()
    monkeypatch.setenv("CUDA_LLM_CACHE", "/there")
    assert settings().cache == Path("/there")


def test_every_setting_is_documented_with_its_default() -> None:
    page = (Path(__file__).parents[2] / "docs/settings.md").read_text().partition("\n## ")[0]
    rows = dict(line.strip("| ").split(" | ")[:2] for line in page.splitlines() if "| `" in line)
    assert list(rows) == [f"`{name}`" for name in Settings.model_fields]
    for name, field in Settings.model_fields.items():
        if isinstance(field.default, int | float | str):
            default = str(field.default).removesuffix(".0") or "none"
            assert rows[f"`{name}`"].strip("`") == default
