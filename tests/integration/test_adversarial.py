"""Kernels that cheat or are broken, and honest ones of unusual habits, the whole way."""

import asyncio
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from small_tasks import small_task

from cuda_llm.cli.evaluate_view import report
from cuda_llm.outcomes import Passed
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.devices.find import open_device
from cuda_llm.tools.judge.baseline import time_baseline
from cuda_llm.tools.judge.judge import judge
from cuda_llm.tools.judge.judged import Judged
from cuda_llm.wording import describe, printable

FIXTURES = Path(__file__).parents[1] / "fixtures"
ATTACKS: Mapping[str, Any] = tomllib.loads((FIXTURES / "adversarial/table.toml").read_text())
HONEST: Mapping[str, str] = tomllib.loads((FIXTURES / "honest_extra/table.toml").read_text())
LIMIT = "CUDA_LLM_CALL_LIMIT_S"
SHORT_S = "2"
LONG_S = "30"
AT_ONCE = 3


@dataclass(frozen=True)
class Kernel:
    """One file and how it is judged."""

    path: Path
    task: str
    whole: bool = False

    @property
    def name(self) -> str:
        return self.path.stem


async def judge_kernel(kernel: Kernel, turn: asyncio.Semaphore) -> Judged:
    task = load_task(kernel.task) if kernel.whole else small_task(kernel.task)
    device = open_device("emulated")
    async with turn:
        baseline = asyncio.ensure_future(time_baseline(task, device))
        judged = await judge(
            task, device, kernel.path.read_text(), kernel.path.name, baseline=baseline
        )
        await baseline
        return judged


def judge_all(kernels: list[Kernel], limit_s: str) -> dict[str, Judged]:
    async def run() -> list[Judged]:
        turn = asyncio.Semaphore(AT_ONCE)
        return await asyncio.gather(*(judge_kernel(kernel, turn) for kernel in kernels))

    before = os.environ.get(LIMIT)
    os.environ[LIMIT] = limit_s
    try:
        return dict(zip((kernel.name for kernel in kernels), asyncio.run(run()), strict=True))
    finally:
        os.environ.pop(LIMIT)
        if before is not None:
            os.environ[LIMIT] = before


def attack(name: str) -> Kernel:
    told = ATTACKS[name]
    return Kernel(FIXTURES / f"adversarial/{name}.cu", told["task"], told.get("whole", False))


@pytest.fixture(scope="module")
def attacked() -> dict[str, Judged]:
    """All attacks side by side; those that are to run out of time do so soon."""
    endless = [name for name in ATTACKS if "limit_s" in ATTACKS[name]]
    others = [name for name in ATTACKS if name not in endless]
    return judge_all([attack(name) for name in others], LONG_S) | judge_all(
        [attack(name) for name in endless], SHORT_S
    )


@pytest.fixture(scope="module")
def trusted() -> dict[str, Judged]:
    """All honest kernels side by side."""
    folder = FIXTURES / "honest_extra"
    return judge_all([Kernel(folder / f"{name}.cu", task) for name, task in HONEST.items()], LONG_S)


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_ends_in_its_verdict(attacked: dict[str, Judged], name: str) -> None:
    verdict, told = attacked[name].verdict, ATTACKS[name]
    assert verdict.code in told["codes"], describe(verdict)
    if "rule" in told:
        assert getattr(verdict, "rule", None) == told["rule"], describe(verdict)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in ATTACKS if "most_speedup" in ATTACKS[n]])
def test_what_is_allowed_gains_nothing(attacked: dict[str, Judged], name: str) -> None:
    verdict = attacked[name].verdict
    gained = verdict.profile.speedup if isinstance(verdict, Passed) and verdict.profile else 0.0
    assert gained is not None
    assert gained <= ATTACKS[name]["most_speedup"]


@pytest.mark.slow
def test_nothing_shown_steers_a_terminal_or_tells_a_file(attacked: dict[str, Judged]) -> None:
    secret = Path("/etc/passwd").read_text().splitlines()[0]
    for judged in attacked.values():
        shown = [printable(text) for _, text in report(judged)]
        assert all(line.isprintable() for line in shown)
        assert not any(secret in line for line in shown)


@pytest.mark.slow
@pytest.mark.parametrize("name", HONEST)
def test_unusual_habits_are_no_offence(trusted: dict[str, Judged], name: str) -> None:
    verdict = trusted[name].verdict
    assert isinstance(verdict, Passed), f"{verdict.code}: {describe(verdict)}"


@pytest.mark.slow
def test_no_attack_leaves_a_process(attacked: dict[str, Judged]) -> None:
    assert attacked
    left = psutil.Process().children(recursive=True)
    assert not [process.name() for process in left if "runner" in process.name()]


def test_every_kernel_on_disk_is_in_its_table() -> None:
    for folder, table in (("adversarial", ATTACKS), ("honest_extra", HONEST)):
        assert {path.stem for path in (FIXTURES / folder).glob("*.cu")} == set(table)
    assert len(ATTACKS) >= 40
    assert len(HONEST) >= 15
