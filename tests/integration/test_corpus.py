"""Kernels whose verdict is known, judged the whole way: cheats and faults end in their verdict, and
no honest kernel is refused."""

import asyncio
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from corpus import (
    FIXTURES,
    Known,
    adversarial,
    fault_of,
    honest_extra,
    honest_styles,
    mutants,
    parameter_readers,
    races,
    styles,
)
from corpus_sample import is_whole, sample
from ended import names_of_children
from modelled_calls import roofline_us
from small_tasks import with_one_bench_size
from task_fixtures import read_table

from cuda_llm.cli.evaluate_output import report
from cuda_llm.outcomes import Passed, TimedOut
from cuda_llm.profile import Profile
from cuda_llm.redaction import printable
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.judge.judge import DeviceBench, judge, open_bench
from cuda_llm.tools.judge.judged import Judged
from cuda_llm.tools.open_device import open_device
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.verdict_wording import describe

RACE_CLASSES = {
    name: row["class"] for name, row in read_table(FIXTURES / "races/table.toml").items()
}
ATTACKS = {known.path.stem: known for known in adversarial() if not known.gpu_alone}
HONEST = {known.path.stem: known for known in honest_extra() if not known.gpu_alone}
RACES = [known for known in races() if not known.honest]
FIXED_RACES = [known for known in races() if known.honest]
JUDGED = [
    *sample(ATTACKS.values(), kind=lambda known: known.codes[0], every=40),
    *sample(HONEST.values(), kind=lambda known: (known.device, known.whole), every=20),
    *(known for known in honest_styles() if is_whole() or known.path in styles()),
    *sample(mutants(), kind=lambda known: known.codes[0], every=80),
    *sample(RACES, kind=lambda known: RACE_CLASSES[known.path.stem], every=8),
    *sample(FIXED_RACES, every=20),
    *sample(parameter_readers(), kind=lambda known: known.codes[0], every=8),
]
"""One attack for each verdict, one mutant for each verdict, one race for each class."""
SMALL = ("adversarial", "honest_extra", "races")
"""Folders of kernels that show their fault, or their innocence, at sizes of a millisecond."""
LIMIT_S, ENDLESS_LIMIT_S = 60, 2
SEED = 1
"""The same inputs in each run: a mutant that few inputs miss would pass one run of many."""


@dataclass(frozen=True)
class Baseline:
    """The time of the task's own kernel, measured where a kernel is right and needs the time."""

    bench: DeviceBench

    def __await__(self) -> Generator[Any, Any, KernelTimes]:
        return self.bench.time_baseline().__await__()


def judge_known(known: Known) -> Judged:
    """Judge one kernel of the corpus on the emulated GPU that it needs."""
    task = known.load_task(small=True)
    if known.path.parts[-2] not in SMALL or (known.whole and not is_whole()):
        task = with_one_bench_size(known.load_task(small=False))

    async def run() -> Judged:
        bench = open_bench(task, open_device(known.device), seed=SEED)
        return await judge(bench, known.read(), known.path.name, baseline=Baseline(bench))

    return asyncio.run(run())


@pytest.mark.parametrize("known", JUDGED, ids=lambda known: known.name)
def test_a_kernel_ends_in_its_verdict_and_an_attack_gains_nothing(
    known: Known, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_s = ENDLESS_LIMIT_S if known.endless else LIMIT_S
    monkeypatch.setenv("CUDA_LLM_CALL_LIMIT_S", str(limit_s))
    judged = judge_known(known)
    verdict = judged.verdict
    assert not fault_of(known, verdict, gpu=False), f"{verdict.code}: {describe(verdict)}"
    if isinstance(verdict, Passed):
        assert verdict.profile is not None and verdict.profile.speedup is not None
        task, hardware = known.load_task(small=False), open_device(known.device).hardware
        for size in verdict.profile.sizes:
            least_us = roofline_us(task, hardware, size.dims)
            assert size.time_us >= least_us, "no modelled time is below the roofline"

    secret = Path("/etc/passwd").read_text().splitlines()[0]
    shown = [printable(text) for _, text in report(judged)]
    assert all(line.isprintable() for line in shown), "no text of a kernel controls a terminal"
    assert not any(secret in line for line in shown)
    assert not [name for name in names_of_children() if "runner" in name]


def test_the_baseline_passes_and_ties_with_itself() -> None:
    task = with_one_bench_size(load_task("reduction"))
    known = Known(path=task.baseline, task="reduction", honest=True)
    verdict = judge_known(known).verdict
    assert isinstance(verdict, Passed) and verdict.profile is not None, describe(verdict)
    assert verdict.profile.speedup == pytest.approx(1.0, rel=0.1)


def test_every_kernel_on_disk_is_in_its_table() -> None:
    for folder in ("adversarial", "honest_extra", "races"):
        table = read_table(FIXTURES / folder / "table.toml")
        assert {path.stem for path in (FIXTURES / folder).glob("*.cu")} == set(table)


def test_every_known_attack_is_tried_or_listed_as_impossible() -> None:
    catalogue = dict(read_table(FIXTURES / "adversarial/catalogue.toml"))
    impossible = catalogue.pop("without_a_kernel")
    known = {int(number) for family in catalogue.values() for number in family}
    table = read_table(FIXTURES / "adversarial/table.toml")
    attempted = {number for row in table.values() for number in row["items"]}
    assert known == set(range(1, 55))
    assert attempted == known - {int(number) for number in impossible}


def test_an_attack_that_may_pass_has_a_bound_on_what_it_gains() -> None:
    passing = [known for known in ATTACKS.values() if "PASSED" in known.codes]
    assert not [known.name for known in passing if known.most_speedup is None]


def profile_with(speedup: float) -> Profile:
    return Profile(device="", hardware="", source="measured", sizes=(), speedup=speedup)


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


def test_every_race_has_an_honest_twin() -> None:
    assert not [known.name for known in RACES if "MENDED" not in known.read()]
