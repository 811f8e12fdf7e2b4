"""What is wrong with a model is said by the command before any work, with exit code and mend."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from model_server import ModelServer, Raw, Say
from scripted_kernels import ScriptedModel

NOWHERE = "http://127.0.0.1:9/v1"


def refuse(
    folder: Path, address: str, *options: str, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """`cuda-llm run`, which must end before it makes anything."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    environment: Mapping[str, str] = {**kept, "OPENAI_BASE_URL": address, **variables}
    command = [sys.executable, "-P", "-m", "cuda_llm", "run", "vector_add", "--device", "emulated"]
    done = subprocess.run(
        [*command, "--model", "scripted", "--out", str(folder / "runs"), *options],
        env={name: value for name, value in environment.items() if value},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not list(folder.iterdir())
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done


def test_no_key_for_openai(tmp_path: Path) -> None:
    done = refuse(tmp_path, "")
    assert done.returncode == 3
    assert "set OPENAI_API_KEY" in done.stderr


def test_nothing_that_answers(tmp_path: Path) -> None:
    done = refuse(tmp_path, NOWHERE)
    assert done.returncode == 3
    assert f"{NOWHERE} does not answer" in done.stderr


@pytest.mark.parametrize(
    ("server", "options", "code", "mend"),
    [
        (ModelServer([], key="right"), (), 3, "check OPENAI_API_KEY"),
        (ModelServer([], model="qwen3"), ("--model", "qwen2"), 2, "it has qwen3"),
        (ModelServer(lambda request: Raw(b"<html>")), (), 2, "no OpenAI-compatible endpoint"),
        (ModelServer([]), ("--max-tokens", "5000"), 2, "raise it, or ask for fewer --candidates"),
        (ModelServer([]), ("--budget-usd", "1"), 2, "name your price table with CUDA_LLM_PRICES"),
    ],
    ids=["wrong key", "unknown model", "no json", "few tokens", "no price"],
)
def test_what_the_endpoint_or_the_budget_refuses(
    tmp_path: Path, server: ModelServer, options: tuple[str, ...], code: int, mend: str
) -> None:
    with server:
        done = refuse(tmp_path, server.base_url, *options, OPENAI_API_KEY="wrong")
    assert done.returncode == code, done.stderr
    assert mend in done.stderr
    assert len(server.requests) <= 2


def test_a_budget_in_money_too_small_for_one_round(tmp_path: Path) -> None:
    table = tmp_path.parent / f"{tmp_path.name}.toml"
    table.write_text('[[price]]\nmodels = ["scripted"]\ninput_usd = 1.0\noutput_usd = 10.0\n')
    with ModelServer(ScriptedModel([[Say("never asked")]])) as server:
        done = refuse(tmp_path, server.base_url, "--budget-usd", "0.1", CUDA_LLM_PRICES=str(table))
    assert done.returncode == 2
    assert "--budget-usd 0.1 is too small: one round takes $" in done.stderr
    assert not server.requests
