"""A baseline that takes another time beside a candidate than it is known to take."""

import asyncio
import json
import math
import random
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_site import MeasuredSession, MeasuredSite, Script, named
from timed_vector_adds import BASELINE_US, honest, small_bench, timed, timed_by_the_bench

from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import BaselineDoubt, InfraFailed, Verdict
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import ClockReading
from cuda_llm.tools.device.candidate import Baseline
from cuda_llm.tools.judge.judge import assemble_passed
from cuda_llm.tools.open_device import open_emulated
from cuda_llm.tools.timing.baseline_doubt import (
    SizeKey,
    describe_apart,
    judge_processes,
    sizes_apart,
    slower_sizes,
)
from cuda_llm.tools.timing.baseline_time import BaselineReading
from cuda_llm.tools.timing.measure import measure_baseline
from cuda_llm.tools.timing.options import MeasureOptions
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.tools.validator.validate import Validated
from cuda_llm.verdict_wording import describe, phrase

pytestmark = pytest.mark.usefixtures("own_cache")
CORPUS = Path(__file__).parents[3] / "benchmarks" / "results" / "h200_corpus.json"
CALL_US = 25.0
SMALL, LARGE = 96, 4096
NORMAL: Script = honest(BASELINE_US)
SLOW: Script = honest(4.0 * BASELINE_US)
"""As a sitting on one H200 had it, by 3.1 to 4.8."""


def slow_at(count: int) -> Script:
    """Slow with so many elements, else as ever."""
    return lambda call: (SLOW if call.buffers["C"].size == count else NORMAL)(call)


@dataclass
class ProcessesSite(MeasuredSite):
    """A site that uses the baseline's process again until it is retired.

    `processes` are those of the baseline in the order in which they are opened: the cached one, the
    one that takes the reference, one beside a candidate once more, one alone once more ...
    """

    processes: list[Script] = field(default_factory=list)
    """The last one stands for all that follow."""
    begun: int = 0
    retired: int = 0
    sm_mhz: float = 1980.0
    _cached: MeasuredSession | None = None

    @asynccontextmanager
    async def open(self, candidate: Baseline) -> AsyncIterator[MeasuredSession | Verdict]:
        if candidate.name == "baseline":
            script = self.processes[min(self.begun, len(self.processes) - 1)]
            self.scripts = {**self.scripts, "baseline": script}
            self.begun += 1
        async with super().open(candidate) as opened:
            yield opened

    @asynccontextmanager
    async def open_cached(self, candidate: Baseline) -> AsyncIterator[MeasuredSession | Verdict]:
        if self._cached is None:
            async with self.open(candidate) as opened:
                assert isinstance(opened, MeasuredSession)
                self._cached = opened
        yield self._cached

    def retire_cached(self) -> None:
        self._cached = None
        self.retired += 1

    def read_clocks(self) -> ClockReading:  # type: ignore[override]
        return ClockReading(sm_mhz=self.sm_mhz, celsius=None, watts=None, throttled=False)


def site_of(*processes: Script, candidate: Script | None = None) -> ProcessesSite:
    return ProcessesSite(
        hardware=find_hardware("h200_sxm5_141gb"),
        scripts={"candidate": candidate or honest(CALL_US)},
        processes=list(processes),
    )


def speedups(outcome: object) -> list[float]:
    assert isinstance(outcome, KernelTimes), outcome
    return [size.speedup or math.nan for size in outcome.sizes]


def doubt_of(outcome: object) -> BaselineDoubt:
    assert isinstance(outcome, KernelTimes), outcome
    assert outcome.doubt is not None
    return outcome.doubt


def test_nothing_is_done_twice_where_nothing_is_wrong() -> None:
    site = site_of(NORMAL)
    first = timed(site)
    assert site.begun == 2, "the cached one, and one that takes the reference"
    second = timed(site)
    assert (site.begun, site.retired) == (2, 0)
    for outcome in (first, second):
        assert speedups(outcome) == pytest.approx([2.0], rel=0.02)
        assert isinstance(outcome, KernelTimes) and outcome.doubt is None
    assert [name for name, _ in site.opened].count("candidate") == 2


def test_what_was_timed_beside_an_odd_process_is_thrown_away() -> None:
    site = site_of(SLOW, NORMAL)
    outcome = timed(site, small_bench(SMALL, LARGE))
    assert speedups(outcome) == pytest.approx([2.0, 2.0], rel=0.02)
    doubt = doubt_of(outcome)
    assert doubt.outcome == "odd-process"
    assert doubt.beside_us == pytest.approx(4 * BASELINE_US, rel=0.02)
    assert doubt.reference_us == pytest.approx(BASELINE_US, rel=0.02)
    assert doubt.again_us == pytest.approx(BASELINE_US, rel=0.02)
    assert doubt.alone_us is None


def test_an_odd_process_is_not_used_again() -> None:
    site = site_of(SLOW, NORMAL)
    timed(site)
    assert (site.begun, site.retired) == (3, 1)
    later = timed(site)
    assert isinstance(later, KernelTimes) and later.doubt is None
    assert speedups(later) == pytest.approx([2.0], rel=0.02)
    assert (site.begun, site.retired) == (4, 1)


def test_the_baselines_own_time_is_not_that_of_the_process_that_candidates_meet() -> None:
    site = site_of(SLOW, NORMAL)
    own = asyncio.run(
        measure_baseline(site, small_bench(SMALL), named("baseline"), MeasureOptions())
    )
    assert own.times[0][1] == pytest.approx(BASELINE_US, rel=0.02)
    assert doubt_of(timed(site)).outcome == "odd-process"


def test_a_process_that_is_odd_at_one_size_is_found_at_that_size() -> None:
    for order in ((SMALL, LARGE), (LARGE, SMALL)):
        site = site_of(slow_at(SMALL), NORMAL)
        # The cached times of the order before would stand in for the reference's process.
        site.name = f"a GPU for {order}"
        outcome = timed(site, small_bench(*order))
        assert speedups(outcome) == pytest.approx([2.0, 2.0], rel=0.02)
        assert doubt_of(outcome).dims == {"n": SMALL}


def test_a_gpu_that_has_another_pace_gets_a_new_reference_once() -> None:
    pace = [1.0]

    def paced(call_us: float) -> Script:
        return lambda call: honest(call_us * pace[0])(call)

    site = site_of(paced(BASELINE_US), candidate=paced(CALL_US))
    timed(site)
    pace[0] = 2.0
    changed = timed(site)
    assert doubt_of(changed).outcome == "stale-reference"
    assert doubt_of(changed).alone_us == pytest.approx(2 * BASELINE_US, rel=0.02)
    begun = site.begun
    later = timed(site)
    assert isinstance(later, KernelTimes) and later.doubt is None
    assert site.begun == begun + 1, "the cached one, which had been retired"
    pace[0] = 1.0
    back = timed(site)
    assert doubt_of(back).outcome == "stale-reference"
    assert doubt_of(back).alone_us is None, "a process is slower than it has to be, never faster"
    for outcome in (changed, later, back):
        assert speedups(outcome) == pytest.approx([2.0], rel=0.02)


def test_lower_clocks_explain_lower_pace_and_nothing_is_done_twice() -> None:
    pace = [1.0]
    site = site_of(lambda call: honest(BASELINE_US * pace[0])(call))
    timed(site)
    begun, pace[0], site.sm_mhz = site.begun, 1.5, 1320.0
    later = timed(site)
    assert isinstance(later, KernelTimes) and later.doubt is None
    assert site.begun == begun


def test_lower_clocks_do_not_explain_what_they_cannot_do() -> None:
    site = site_of(SLOW, NORMAL)
    asyncio.run(measure_baseline(site, small_bench(SMALL), named("baseline"), MeasureOptions()))
    site.sm_mhz = 345.0
    assert doubt_of(timed(site)).outcome == "odd-process"


def test_a_kernel_beside_which_alone_the_baseline_is_slow_gets_no_time() -> None:
    site = site_of(SLOW, NORMAL, SLOW, NORMAL)
    outcome = timed(site)
    assert isinstance(outcome, InfraFailed)
    assert outcome.code == "INFRA_NOISE"
    assert outcome.figures["beside_us"] == pytest.approx(4 * BASELINE_US, rel=0.02)
    assert outcome.figures["alone_us"] == pytest.approx(BASELINE_US, rel=0.02)
    assert "alone in another new one" in describe(outcome)[0]


def test_what_is_not_decided_is_tried_again_with_new_processes() -> None:
    site = site_of(SLOW, NORMAL, SLOW, NORMAL)
    outcome = timed_by_the_bench(site)
    assert speedups(outcome) == pytest.approx([2.0], rel=0.02)
    assert isinstance(outcome, KernelTimes) and outcome.doubt is None
    assert site.begun == 5


def test_processes_of_which_no_two_agree_leave_the_reference_as_it_was() -> None:
    site = site_of(SLOW, NORMAL, honest(2 * BASELINE_US), NORMAL)
    assert isinstance(timed(site), InfraFailed)
    later = timed(site)
    assert isinstance(later, KernelTimes) and later.doubt is None


def test_the_verdict_tells_what_was_not_used() -> None:
    task = small_bench(SMALL)
    timing = timed(site_of(SLOW, NORMAL), task)
    assert isinstance(timing, KernelTimes)
    device, proved = open_emulated("t4"), Validated(checked={}, notes=())
    passed = assemble_passed(task, device, named("candidate"), proved, timing, timing)
    (told,) = [note for note in passed.notes if "baseline" in note]
    assert told == phrase(doubt_of(timing))
    assert told.startswith("at n = 96 the baseline took ")
    assert told.endswith("the first process was odd, and nothing timed beside it is used")


def test_a_reference_too_slow_to_be_met_again_is_taken_in_two_processes() -> None:
    site, task = site_of(NORMAL, honest(400 * BASELINE_US), NORMAL), small_bench(SMALL)
    assert timed_alone(site, task) == pytest.approx(BASELINE_US, rel=0.02)
    outcome = timed(site, task)
    assert isinstance(outcome, KernelTimes) and outcome.doubt is None
    assert speedups(outcome) == pytest.approx([2.0], rel=0.02)


def test_a_slow_baseline_is_compared_with_the_time_it_is_timed_against() -> None:
    site = site_of(honest(20_000.0))
    outcome = timed(site)
    assert isinstance(outcome, KernelTimes) and outcome.doubt is None
    assert site.retired == 0


Figures = dict[SizeKey, BaselineReading]
TIMES = st.builds(
    BaselineReading,
    call_us=st.floats(0.02, 1e6),
    spread=st.floats(0.0, 0.2),
    sm_mhz=st.sampled_from([0.0, 345.0, 1320.0, 1980.0]),
)


@given(st.lists(st.tuples(TIMES, TIMES, TIMES), min_size=1, max_size=6), st.randoms())
def test_the_order_of_the_sizes_decides_nothing(
    rows: list[tuple[BaselineReading, BaselineReading, BaselineReading]], rng: random.Random
) -> None:
    keys: list[SizeKey] = [(("n", 1 << number),) for number in range(len(rows))]

    def column(number: int) -> tuple[Figures, Figures]:
        """As it comes, and in another order."""
        figures = {key: row[number] for key, row in zip(keys, rows, strict=True)}
        return figures, {key: figures[key] for key in rng.sample(keys, len(keys))}

    (first, one), (second, other), (reference, known) = (column(number) for number in range(3))
    assert sizes_apart(first, reference) == sizes_apart(one, known)
    assert slower_sizes(second, reference) == slower_sizes(other, known)
    if sizes_apart(first, reference):
        outcome = judge_processes(first, second, reference)
        assert judge_processes(one, other, known) == outcome
        told = describe_apart(outcome, first, second, reference, {})
        assert describe_apart(outcome, one, other, known, {}) == told


@given(TIMES, TIMES)
def test_to_differ_is_mutual(one: BaselineReading, other: BaselineReading) -> None:
    key: SizeKey = (("n", 1),)
    assert sizes_apart({key: one}, {key: other}) == sizes_apart({key: other}, {key: one})
    assert not sizes_apart({key: one}, {key: one})


def recorded_baselines() -> dict[str, list[float]]:
    """Microseconds of each task's baseline at its largest size, beside each honest kernel."""
    found: dict[str, list[float]] = defaultdict(list)
    for row in json.loads(CORPUS.read_text())["rows"]:
        folder, task = row["name"].split("/")[:2]
        if folder in {"honest", "tasks"} and row.get("largest_baseline_us"):
            found[task].append(row["largest_baseline_us"])
    return found


def test_baselines_recorded_on_two_gpus_agree_and_those_of_the_odd_sitting_would_not() -> None:
    recorded = recorded_baselines()
    assert len(recorded) == 6 and all(len(times) >= 10 for times in recorded.values())
    key: SizeKey = (("largest", 1),)

    def apart(one_us: float, other_us: float) -> bool:
        one, other = (BaselineReading(call_us=us, spread=0.0) for us in (one_us, other_us))
        return bool(sizes_apart({key: one}, {key: other}))

    for times in recorded.values():
        assert not any(apart(one, other) for one in times for other in times)
        assert all(apart(3.1 * one, other) for one in times for other in times)


def timed_alone(site: ProcessesSite, task: Task) -> float:
    own = asyncio.run(measure_baseline(site, task, named("baseline"), MeasureOptions()))
    return own.times[0][1]


def test_a_reference_that_every_process_undercuts_is_replaced() -> None:
    site, task = site_of(NORMAL, SLOW, NORMAL), small_bench(SMALL)
    assert timed_alone(site, task) == pytest.approx(4 * BASELINE_US, rel=0.02)
    assert doubt_of(timed(site, task)).outcome == "stale-reference"
    assert timed_alone(site, task) == pytest.approx(BASELINE_US, rel=0.02)
