"""Vector additions, honest and not, as scripts of a measured site, and benches to time them on."""

import asyncio
from dataclasses import replace

import numpy as np
from measured_site import Call, MeasuredSite, Script, named

from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import LaunchFailed, TimedOut, Verdict
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task
from cuda_llm.tools.judge.judge import StepRetry, StepTry
from cuda_llm.tools.timing.failures import without_case
from cuda_llm.tools.timing.measure import measure_candidate
from cuda_llm.tools.timing.options import MeasureOptions
from cuda_llm.tools.timing.times import KernelTimes


def add(call: Call) -> None:
    """What the task asks for."""
    call.buffers["C"][...] = call.buffers["A"] + call.buffers["B"]


def honest(call_us: float) -> Script:
    """Right, and always as fast."""

    def script(call: Call) -> float:
        add(call)
        return call_us

    return script


def wrong_in_the_last_call(call: Call) -> float:
    add(call)
    if call.step == call.calls - 1 and not call.warm_up:
        call.buffers["C"][-1] += 1
    return 50.0


def rounded_in_one_call(call: Call) -> float:
    """Half precision now and then."""
    add(call)
    if call.step == 1:
        call.buffers["C"][...] = call.buffers["C"].astype(np.float16)
    return 50.0


def late(call: Call) -> float:
    """The first half now, the rest after the tags are taken."""
    half = call.buffers["C"].size // 2
    own = call.buffers
    own["C"][:half] = own["A"][:half] + own["B"][:half]

    def finish() -> None:
        own["C"][half:] = own["A"][half:] + own["B"][half:]

    if call.warm_up:
        finish()
    else:
        call.later.append(finish)
    return 25.0


def by_pointer(call: Call) -> float:
    """The result that this slot had before."""
    kept = call.memory.get(call.slot)
    if kept is None or call.warm_up:
        add(call)
        call.memory[call.slot] = call.buffers["C"].copy()
        return 50.0
    call.buffers["C"][...] = kept
    return 10.0


def by_content(call: Call) -> float:
    """The result of the same inputs; a full computation where none is known."""
    print_ = bytes(call.buffers["A"]) + bytes(call.buffers["B"])
    if print_ not in call.memory:
        add(call)
        call.memory[print_] = call.buffers["C"].copy()
        return 50.0
    call.buffers["C"][...] = call.memory[print_]
    return 10.0


def all_in_the_first_call(call: Call) -> float:
    """Every slot's work at once, nothing afterwards."""
    if call.step > 0:
        return 1.0
    for own in call.slots:
        own["C"][...] = own["A"] + own["B"]
    return 50.0


def all_in_the_last_call(call: Call) -> float:
    """Nothing, then every slot's work at once: right in the end, but too late for most."""
    if call.warm_up:
        add(call)
    elif call.step == call.calls - 1:
        for own in call.slots:
            own["C"][...] = own["A"] + own["B"]
    return 1.0


def every_second_call(call: Call) -> float:
    """The work of two calls in the second of them."""
    call.memory.setdefault("waiting", []).append(call.buffers)
    if call.warm_up or call.step % 2 == 1 or call.step == call.calls - 1:
        for own in call.memory.pop("waiting"):
            own["C"][...] = own["A"] + own["B"]
    return 30.0


def writes_its_input(call: Call) -> float:
    add(call)
    call.buffers["A"][0] = 1.0
    return 50.0


def writes_an_input_in_one_call(call: Call) -> float:
    """The second input of the last of several calls."""
    add(call)
    if 0 < call.step == call.calls - 1:
        call.buffers["B"][-1] += 1
    return 50.0


def late_in_one_call(call: Call) -> float:
    """One element of the last of several calls, after the tags are taken."""
    add(call)
    if 0 < call.step == call.calls - 1:
        result = call.buffers["C"][-1:]
        right = result.copy()
        result[...] = 0

        def finish() -> None:
            result[...] = right

        call.later.append(finish)
    return 50.0


def overruns(call: Call) -> float:
    add(call)
    call.guards["C"][1][7] ^= 1
    return 50.0


def underruns(call: Call) -> float:
    add(call)
    call.guards["B"][0][-3] ^= 1
    return 50.0


def slow_to_warm_up(call_us: float) -> Script:
    """Ten times slower at first, to be measured in fewer calls."""

    def script(call: Call) -> float:
        add(call)
        return call_us * (10 if call.warm_up or call.batches <= 2 else 1)

    return script


def slow_in_short_batches(call_us: float) -> Script:
    """Slow where a batch is short, so that longer ones seem to cost little more."""

    def script(call: Call) -> float:
        add(call)
        return call_us * (8 if call.calls < len(call.slots) / 2 else 1)

    return script


def slow_in_long_batches(call_us: float) -> Script:
    """Slow in long batches, which costs only the kernel itself."""

    def script(call: Call) -> float:
        add(call)
        return call_us * (2 if call.calls > len(call.slots) / 2 else 1)

    return script


def merging(call_us: float) -> Script:
    """The work of two calls in the time of one, as who knows the key of its batch could do."""

    def script(call: Call) -> float:
        add(call)
        last_of_odd = call.calls % 2 == 1 and call.step == call.calls - 1
        return call_us if last_of_odd or call.warm_up or call.stepwise else call_us / 2

    return script


def slow_to_begin(call_us: float, more_us: float) -> Script:
    """The first call of a batch takes longer: caches are cold, or it pretends so."""

    def script(call: Call) -> float:
        add(call)
        return call_us + (more_us if call.step == 0 else 0)

    return script


def slow_to_begin_in_company(call_us: float, more_us: float) -> Script:
    """Slow to start short batches, but not single calls."""

    def script(call: Call) -> float:
        add(call)
        is_slow = call.step == 0 and 1 < call.calls < len(call.slots) / 2
        return call_us + (more_us if is_slow else 0)

    return script


def instant(call: Call) -> float:
    """Right, in no time."""
    add(call)
    return 0.0


def writes_nothing(call: Call) -> float:
    if call.warm_up:
        add(call)
    return 1.0


def ended(verdict: Verdict) -> Script:
    """Is ended by the device in its third batch."""

    def script(call: Call) -> float | Verdict:
        add(call)
        return verdict if call.batches == 3 else 50.0

    return script


HANGS = TimedOut(stage="kernel", limit_s=2.0)
REFUSED = LaunchFailed(kernel="k", error="cudaErrorInvalidConfiguration")
CHEATS: dict[str, tuple[Script, str]] = {
    "wrong in the last call": (wrong_in_the_last_call, "WRONG_RESULT"),
    "half precision in one call": (rounded_in_one_call, "WRONG_RESULT"),
    "late": (late, "LATE_WRITE"),
    "result by pointer": (by_pointer, "WRONG_RESULT"),
    "all work in the first call": (all_in_the_first_call, "WRONG_RESULT"),
    "all work in the last call": (all_in_the_last_call, "LATE_WRITE"),
    "every second call": (every_second_call, "LATE_WRITE"),
    "writes its input": (writes_its_input, "INPUT_MUTATED"),
    "writes an input in one call": (writes_an_input_in_one_call, "INPUT_MUTATED"),
    "late in one call": (late_in_one_call, "LATE_WRITE"),
    "overruns its output": (overruns, "GUARD_OVERWRITTEN"),
    "underruns its input": (underruns, "GUARD_OVERWRITTEN"),
    "slow in short batches": (slow_in_short_batches(50.0), "QUARANTINED"),
    "takes no time": (instant, "IMPOSSIBLE_TIME"),
    "writes nothing": (writes_nothing, "WRONG_RESULT"),
    "hangs": (ended(HANGS), "TIMED_OUT"),
    "launch refused": (ended(REFUSED), "LAUNCH_FAILED"),
}
"""Script and the code of its verdict."""


BASELINE_US = 50.0


def small_bench(*sizes: int) -> Task:
    """The task with these lengths as its bench."""
    task = load_task("vector_add")
    return replace(task, sizes=replace(task.sizes, bench=tuple({"n": n} for n in sizes)))


def timed_site(
    candidate: Script, *, baseline_us: float = BASELINE_US, chip: str = "h200_sxm5_141gb"
) -> MeasuredSite:
    """A site where `candidate` competes with an honest baseline."""
    return MeasuredSite(
        hardware=find_hardware(chip),
        scripts={"candidate": candidate, "baseline": honest(baseline_us)},
    )


def timed_by_the_bench(
    site: MeasuredSite, task: Task | None = None, options: MeasureOptions | None = None
) -> KernelTimes | Verdict:
    """Time the candidate of the site, with the tries of a bench."""
    task = task or small_bench(96)
    names = named("candidate"), named("baseline")

    async def step(trial: StepTry) -> KernelTimes | Verdict:
        return without_case(
            await measure_candidate(
                site, task, *names, options or MeasureOptions(), fresh=trial.fresh
            )
        )

    return asyncio.run(StepRetry(first_wait_s=0.0).settle("profiler", step))


def timed(
    site: MeasuredSite, task: Task | None = None, options: MeasureOptions | None = None
) -> KernelTimes | Verdict:
    """Time the candidate of the site."""
    task = task or small_bench(96)
    names = named("candidate"), named("baseline")
    return without_case(
        asyncio.run(measure_candidate(site, task, *names, options or MeasureOptions()))
    )
