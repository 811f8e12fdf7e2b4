import subprocess
import sys
from pathlib import Path

import pytest


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
