"""What is wrong with a model is said by the command before any work, with exit code and remedy."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest
from model_server import ModelServer, Raw, Say
from scripted_kernels import ScriptedModel

from cuda_llm.cli.app import run as main

NOWHERE = "http://127.0.0.1:9/v1"
RUN = ("run", "vector_add", "--device", "emulated", "--model", "scripted")


@dataclass(frozen=True)
class Refused:
    """How the command ended."""

    code: int
    stdout: str
    stderr: str


Refuse: TypeAlias = Callable[..., Refused]


@pytest.fixture
def refuse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Refuse:
    """`cuda-llm run` in this process, which must end before it makes anything."""
    monkeypatch.chdir(tmp_path)
    for name in [one for one in os.environ if one.startswith("OPENAI_")]:
        monkeypatch.delenv(name)

    def answer(address: str, *options: str, **variables: str) -> Refused:
        for name, value in {"OPENAI_BASE_URL": address, **variables}.items():
            if value:
                monkeypatch.setenv(name, value)
        code = main([*RUN, "--out", "runs", *options])
        captured = capsys.readouterr()
        return judge_refusal(tmp_path, Refused(code, captured.out, captured.err))

    return answer


def judge_refusal(folder: Path, refused: Refused) -> Refused:
    """Nothing was made or printed but one line."""
    assert not list(folder.iterdir())
    assert refused.stdout == ""
    assert len(refused.stderr.splitlines()) == 1, refused.stderr
    return refused


def test_no_key_for_openai(refuse: Refuse) -> None:
    done = refuse("")
    assert done.code == 3
    assert "set OPENAI_API_KEY" in done.stderr


def test_nothing_that_answers(tmp_path: Path) -> None:
    """The command as a user starts it."""
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "cuda_llm", *RUN, "--out", str(tmp_path / "runs")],
        env={**os.environ, "OPENAI_BASE_URL": NOWHERE, "OPENAI_API_KEY": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    done = judge_refusal(tmp_path, Refused(ran.returncode, ran.stdout, ran.stderr))
    assert done.code == 3
    assert f"{NOWHERE} does not answer" in done.stderr


@pytest.mark.parametrize(
    ("server", "options", "code", "remedy"),
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
    refuse: Refuse, server: ModelServer, options: tuple[str, ...], code: int, remedy: str
) -> None:
    with server:
        done = refuse(server.base_url, *options, OPENAI_API_KEY="wrong")
    assert done.code == code, done.stderr
    assert remedy in done.stderr
    assert len(server.requests) <= 2


def test_a_budget_in_money_too_small_for_one_round(refuse: Refuse, tmp_path: Path) -> None:
    table = tmp_path.parent / f"{tmp_path.name}.toml"
    table.write_text('[[price]]\nmodels = ["scripted"]\ninput_usd = 1.0\noutput_usd = 10.0\n')
    with ModelServer(ScriptedModel([[Say("never asked")]])) as server:
        done = refuse(server.base_url, "--budget-usd", "0.1", CUDA_LLM_PRICES=str(table))
    assert done.code == 2
    assert "--budget-usd 0.1 is too small: one round takes $" in done.stderr
    assert not server.requests
