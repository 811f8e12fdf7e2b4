"""Kernels that race, or trust what nobody has set, are refused; fixed, each of them passes."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from corpus import FIXTURES, races
from corpus_sample import sample
from small_tasks import small_task
from task_fixtures import read_table

from cuda_llm.outcomes import Passed, Verdict
from cuda_llm.tools.judge.device_bench import open_bench
from cuda_llm.tools.judge.judge import judge
from cuda_llm.tools.open_device import open_device
from cuda_llm.verdict_wording import describe

pytestmark = pytest.mark.timeout(600)
"""The first test waits until all kernels are judged."""

RACES = FIXTURES / "races"
TABLE: Mapping[str, Any] = read_table(RACES / "table.toml")
JUDGED = sample(TABLE, kind=lambda name: TABLE[name]["class"], every=8)
AT_ONCE = 3


async def judge_text(task: str, text: str, name: str, turn: asyncio.Semaphore) -> Verdict:
    bench = open_bench(small_task(task), open_device("emulated"))
    async with turn:
        baseline = asyncio.ensure_future(bench.time_baseline())
        judged = await judge(bench, text, name, baseline=baseline)
        await baseline
        return judged.verdict


def judge_all(*, fixed: bool) -> dict[str, Verdict]:
    """Judge every kernel of the table, as written or fixed, side by side."""

    async def run() -> dict[str, Verdict]:
        turn = asyncio.Semaphore(AT_ONCE)
        kernels = [one for one in races() if one.honest is fixed and one.path.stem in JUDGED]
        async with asyncio.TaskGroup() as group:
            judging = {
                one.path.stem: group.create_task(
                    judge_text(one.task, one.read(), one.path.name, turn)
                )
                for one in kernels
            }
        return {name: one.result() for name, one in judging.items()}

    return asyncio.run(run())


@pytest.fixture(scope="module")
def as_written() -> Iterator[dict[str, Verdict]]:
    yield judge_all(fixed=False)


@pytest.fixture(scope="module")
def fixed() -> Iterator[dict[str, Verdict]]:
    yield judge_all(fixed=True)


@pytest.mark.parametrize("name", JUDGED)
def test_what_races_is_refused(as_written: dict[str, Verdict], name: str) -> None:
    verdict = as_written[name]
    assert verdict.code in TABLE[name]["codes"], describe(verdict)


@pytest.mark.parametrize("name", JUDGED)
def test_the_same_kernel_mended_passes(fixed: dict[str, Verdict], name: str) -> None:
    verdict = fixed[name]
    assert isinstance(verdict, Passed), f"{verdict.code}: {describe(verdict)}"


def test_every_class_has_five_kernels_and_each_of_them_a_twin() -> None:
    assert {path.stem for path in RACES.glob("*.cu")} == set(TABLE)
    classes = [row["class"] for row in TABLE.values()]
    assert all(classes.count(name) >= 5 for name in set(classes))
    assert all("MENDED" in (RACES / f"{name}.cu").read_text() for name in TABLE)
