import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cuda_llm.agents.llm.chat_model import find_endpoint
from cuda_llm.errors import CudaLLMError
from cuda_llm.settings import Settings, settings
from cuda_llm.tools.compiler.nvcc import find_toolkit
from cuda_llm.tools.open_device import open_device

Ask = Callable[..., str]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Returns what is found where nothing but these variables is set, or the error as a line."""
    for name in os.environ:
        if name.lower().startswith(("cuda_llm_", "xdg_", "openai_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))

    def answer(look: Callable[[], object], **env: str) -> str:
        with pytest.MonkeyPatch.context() as during:
            for name, value in env.items():
                during.setenv(name, value)
            try:
                return str(look())
            except CudaLLMError as error:
                return f"{type(error).__name__}: {error}"

    return answer


def configure(home: Path, text: str) -> Path:
    """Write the user's file below a home."""
    config = home / ".config/cuda-llm/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(text)
    return config


def test_defaults_need_no_environment(ask: Ask, tmp_path: Path) -> None:
    assert ask(lambda: settings().device) == "auto"
    assert ask(lambda: settings().cache) == f"{tmp_path}/.cache/cuda-llm"


def test_the_environment_wins_over_the_file(ask: Ask, tmp_path: Path) -> None:
    configure(tmp_path, 'device = "emulated:A100"\ncompile_workers = 3\n')
    assert ask(lambda: settings().device, CUDA_LLM_DEVICE="emulated") == "emulated"
    assert ask(lambda: settings().compile_workers, CUDA_LLM_DEVICE="emulated") == "3"


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
        (
            {"CUDA_LLM_DEVICES": "emulated"},
            "CUDA_LLM_DEVICES: no setting 'devices'; did you mean CUDA_LLM_DEVICE?",
        ),
    ],
)
def test_a_bad_variable_is_blamed_alone_not_a_file_that_is_not_there(
    ask: Ask, env: dict[str, str], complaint: str
) -> None:
    shown = ask(settings, **env)
    assert shown.startswith(f"UsageError: {complaint}")
    assert "config.toml" not in shown and "\n" not in shown


@pytest.mark.parametrize(
    ("file", "complaint"),
    [
        ("\n# mine\nl2 = 'hot'\n", "config.toml:3: setting l2 is 'hot'; expected 'cold' or"),
        ("modle = 'm'\n", "config.toml:1: no setting 'modle'; did you mean model?"),
        ("\n[agent_models]\nplan = 3\n", "config.toml:2: setting agent_models is 3"),
        (
            "device = cuda\n",
            "config.toml: is not TOML: Invalid value (at line 1, column 10); text stands in quotes",
        ),
        ("colour = 'red'\n", "config.toml:1: no setting 'colour'"),
        ("compile_workers = -1\n", "config.toml:1: setting compile_workers is -1"),
        ("device = 'tpu'\n", "config.toml:1 names it)"),
        ("hardware_dir = '/nowhere'\n", "config.toml:1): no such folder: /nowhere"),
        ("nvcc = '/nowhere'\n", "config.toml:1) names no nvcc that runs: /nowhere"),
        ("base_url = 'x'\n", "config.toml:1 'x': expected one like http"),
    ],
)
def test_a_bad_line_of_the_file_is_blamed_with_its_number(
    ask: Ask, tmp_path: Path, file: str, complaint: str
) -> None:
    config = configure(tmp_path, file)
    asked = ask(use_all)
    assert complaint in asked
    assert f"{config}:" in asked and "CUDA_LLM_" not in asked.partition("; point ")[0]
    assert "\n" not in asked


def use_all() -> None:
    """Read the settings whose values are looked at later, too."""
    find_endpoint()
    open_device(settings().device)
    find_toolkit()


def test_a_variable_that_resembles_no_setting_is_left_to_others(ask: Ask) -> None:
    assert ask(lambda: settings().device, CUDA_LLM_EVIDENCE="1", CUDA_LLM_MINE="x") == "auto"


def test_the_page_of_settings_has_a_row_for_each() -> None:
    page = (Path(__file__).parents[2] / "docs/settings.md").read_text()
    listed = re.findall(r"^\| `(\w+)` \| ", page.partition("## Options of a run")[0], re.MULTILINE)
    assert listed == list(Settings.model_fields)


def test_a_variable_wins_the_blame_as_it_wins_the_choice(ask: Ask, tmp_path: Path) -> None:
    configure(tmp_path, "l2 = 'cold'\n")
    assert ask(settings, CUDA_LLM_L2="hot").startswith("UsageError: CUDA_LLM_L2: ")


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
    configure(tmp_path, FILE.format(home=tmp_path))
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
