"""Kernels that cheat or are broken, and honest ones of unusual habits, the whole way."""

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path

import psutil
import pytest
from corpus import FIXTURES, Known, adversarial, fault_of, honest_extra
from corpus_sample import sample
from task_fixtures import read_table

from cuda_llm.cli.evaluate_output import report
from cuda_llm.outcomes import Passed, TimedOut
from cuda_llm.profile import Profile
from cuda_llm.redaction import printable
from cuda_llm.tools.judge.device_bench import open_bench
from cuda_llm.tools.judge.judge import Judged, judge
from cuda_llm.tools.open_device import open_device
from cuda_llm.verdict_wording import describe

ATTACKS = {known.path.stem: known for known in adversarial() if not known.gpu_alone}
HONEST = {known.path.stem: known for known in honest_extra() if not known.gpu_alone}
JUDGED = sample(ATTACKS, every=8)
TRUSTED = sample(HONEST, every=8)
pytestmark = pytest.mark.timeout(1200)
"""The first test of each corpus waits until all of it is judged: six minutes of two idle cores."""

LIMIT = "CUDA_LLM_CALL_LIMIT_S"
SHORT_S = "2"
LONG_S = "30"
AT_ONCE = 3


async def judge_kernel(known: Known, turn: asyncio.Semaphore) -> Judged:
    task = known.load_task(small=True)
    bench = open_bench(task, open_device(known.device))
    async with turn:
        baseline = asyncio.ensure_future(bench.time_baseline())
        judged = await judge(bench, known.path.read_text(), known.path.name, baseline=baseline)
        await baseline
        return judged


def judge_all(kernels: Iterable[Known], limit_s: str) -> dict[str, Judged]:
    async def run() -> dict[str, Judged]:
        turn = asyncio.Semaphore(AT_ONCE)
        every = list(kernels)
        async with asyncio.TaskGroup() as group:
            judged = [group.create_task(judge_kernel(known, turn)) for known in every]
        return {known.path.stem: one.result() for known, one in zip(every, judged, strict=True)}

    before = os.environ.get(LIMIT)
    os.environ[LIMIT] = limit_s
    try:
        return asyncio.run(run())
    finally:
        os.environ.pop(LIMIT)
        if before is not None:
            os.environ[LIMIT] = before


def profile_with(speedup: float) -> Profile:
    return Profile(device="", hardware="", source="measured", sizes=(), speedup=speedup)


@pytest.fixture(scope="module")
def attacked() -> dict[str, Judged]:
    """All attacks side by side; those that are to run out of time do so soon."""
    endless = [ATTACKS[name] for name in JUDGED if ATTACKS[name].endless]
    others = [ATTACKS[name] for name in JUDGED if not ATTACKS[name].endless]
    return judge_all(others, LONG_S) | judge_all(endless, SHORT_S)


@pytest.fixture(scope="module")
def trusted() -> dict[str, Judged]:
    """All honest kernels side by side."""
    return judge_all([HONEST[name] for name in TRUSTED], LONG_S)


@pytest.mark.parametrize("name", JUDGED)
def test_an_attack_ends_in_its_verdict_or_gains_nothing(
    attacked: dict[str, Judged], name: str
) -> None:
    verdict = attacked[name].verdict
    assert not fault_of(ATTACKS[name], verdict, gpu=False), describe(verdict)


def test_no_shown_text_controls_a_terminal_or_names_a_file(attacked: dict[str, Judged]) -> None:
    secret = Path("/etc/passwd").read_text().splitlines()[0]
    for judged in attacked.values():
        shown = [printable(text) for _, text in report(judged)]
        assert all(line.isprintable() for line in shown)
        assert not any(secret in line for line in shown)


@pytest.mark.parametrize("name", TRUSTED)
def test_unusual_habits_are_no_offence(trusted: dict[str, Judged], name: str) -> None:
    verdict = trusted[name].verdict
    assert not fault_of(HONEST[name], verdict, gpu=False), f"{verdict.code}: {describe(verdict)}"


def test_no_attack_leaves_a_process(attacked: dict[str, Judged]) -> None:
    assert attacked
    left = psutil.Process().children(recursive=True)
    assert not [process.name() for process in left if "runner" in process.name()]


def test_every_kernel_on_disk_is_in_its_table() -> None:
    for folder in ("adversarial", "honest_extra"):
        table = read_table(FIXTURES / folder / "table.toml")
        assert {path.stem for path in (FIXTURES / folder).glob("*.cu")} == set(table)
    assert len(list(adversarial())) >= 100
    assert len(ATTACKS) >= 75
    assert len(list(honest_extra())) >= 25
    assert len(HONEST) >= 20


def test_every_known_attack_is_tried_or_listed_as_impossible() -> None:
    catalogue = dict(read_table(FIXTURES / "adversarial/catalogue.toml"))
    impossible = catalogue.pop("without_a_kernel")
    known = {int(number) for family in catalogue.values() for number in family}
    table = read_table(FIXTURES / "adversarial/table.toml")
    attempted = {number for row in table.values() for number in row["items"]}
    assert known == set(range(1, 55))
    assert attempted == known - {int(number) for number in impossible}


@pytest.mark.parametrize("name", [name for name in ATTACKS if "PASSED" in ATTACKS[name].codes])
def test_an_attack_that_may_pass_has_a_bound_on_what_it_gains(name: str) -> None:
    assert ATTACKS[name].most_speedup is not None


def test_a_verdict_that_is_not_right_is_a_fault() -> None:
    honest = HONEST["whole_warps_leave_early"]

    assert "TIMED_OUT instead" in fault_of(honest, TimedOut(stage="kernel", limit_s=1.0), gpu=True)
    assert "PASSED instead" in fault_of(ATTACKS["never_ends"], Passed(), gpu=True)
    assert not fault_of(honest, Passed(), gpu=True)


def test_an_attack_that_gains_is_a_fault_wherever_passing_is_right() -> None:
    attack = ATTACKS["slow_at_first"]
    fast = Passed(profile=profile_with(speedup=1.5))
    assert "1.50x as fast" in fault_of(attack, fast, gpu=True)
    assert not fault_of(attack, Passed(profile=profile_with(speedup=1.05)), gpu=True)
