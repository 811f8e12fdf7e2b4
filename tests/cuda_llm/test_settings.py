import subprocess
import sys
from pathlib import Path

import pytest

from cuda_llm.settings import Settings, settings


def ask(expression: str, home: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    code = (
        "from cuda_llm.settings import settings\n"
        "from cuda_llm.errors import CudaLLMError\n"
        "try:\n"
        f"    print({expression})\n"
        "except CudaLLMError as error:\n"
        "    print(f'{type(error).__name__}:', error)\n"
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


@pytest.mark.parametrize(
    ("env", "complaint"),
    [
        (
            {"CUDA_LLM_COMPILE_WORKERS": "-1"},
            "CUDA_LLM_COMPILE_WORKERS: setting compile_workers is '-1'; expected greater than",
        ),
        ({"CUDA_LLM_L2": "hot"}, "CUDA_LLM_L2: setting l2 is 'hot'; expected 'cold' or 'warm'"),
        ({"CUDA_LLM_AGENT_MODELS": "x"}, "CUDA_LLM_AGENT_MODELS: 'x' is not JSON"),
        ({"CUDA_LLM_AGENT_MODELS": "3"}, "CUDA_LLM_AGENT_MODELS: setting agent_models is 3"),
        ({"CUDA_LLM_CACHE": "~nobody9/x"}, "CUDA_LLM_CACHE: setting cache is '~nobody9/x'"),
        ({"cuda_llm_l2": "hot"}, "cuda_llm_l2: setting l2 is 'hot'"),
    ],
)
def test_a_bad_variable_is_blamed_alone_not_a_file_that_is_not_there(
    tmp_path: Path, env: dict[str, str], complaint: str
) -> None:
    shown = ask("settings()", tmp_path, **env).stdout
    assert shown.startswith(f"UsageError: {complaint}")
    assert "config.toml" not in shown and shown.count("\n") == 1


@pytest.mark.parametrize(
    ("file", "complaint"),
    [
        ("\n# mine\nl2 = 'hot'\n", "config.toml:3: setting l2 is 'hot'; expected 'cold' or"),
        ("modle = 'm'\n", "config.toml:1: no setting 'modle'; did you mean model?"),
        ("\n[agent_models]\nplan = 3\n", "config.toml:2: setting agent_models is 3"),
        ("device = \n", "config.toml: is not TOML: Invalid value (at line 1, column 10)"),
        ("device = 'tpu'\n", "config.toml:1 names it)"),
        ("hardware_dir = '/nowhere'\n", "config.toml:1): no such folder: /nowhere"),
        ("nvcc = '/nowhere'\n", "config.toml:1) names no nvcc that runs: /nowhere"),
        ("base_url = 'x'\n", "config.toml:1 'x': expected one like http"),
    ],
)
def test_a_bad_line_of_the_file_is_blamed_with_its_number(
    tmp_path: Path, file: str, complaint: str
) -> None:
    config = tmp_path / ".config/cuda-llm/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(file)
    asked = ask(USE_ALL, tmp_path).stdout
    assert complaint in asked
    assert f"{config}:" in asked and "CUDA_LLM_" not in asked.partition("; point ")[0]


USE_ALL = """(
        __import__("cuda_llm.tools.open_device").tools.open_device.open_device(settings().device),
        __import__("cuda_llm.agents.llm.chat_model").agents.llm.chat_model.find_endpoint(),
        __import__("cuda_llm.tools.compiler.nvcc").tools.compiler.nvcc.find_toolkit(),
    )"""
"""What reads settings whose values are looked at later."""


def test_a_variable_wins_the_blame_as_it_wins_the_choice(tmp_path: Path) -> None:
    config = tmp_path / ".config/cuda-llm/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("l2 = 'cold'\n")
    shown = ask("settings()", tmp_path, CUDA_LLM_L2="hot").stdout
    assert shown.startswith("UsageError: CUDA_LLM_L2: ")


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
