"""What a candidate may try against its validation."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from array_kernels import add, writes
from measured_site import LAUNCH, Buffers, Candidate, running, untimed
from small_tasks import small_task

from cuda_llm.outcomes import (
    CaseKind,
    CasePattern,
    ElementKind,
    ElementPattern,
    GuardOverwritten,
    IllegalAccess,
    InputMutated,
    LateWrite,
    MemoryAccess,
    Nondeterministic,
    PolicyViolation,
    RegionKind,
    Verdict,
    WrongResult,
)
from cuda_llm.tools.device import CallOptions, Level
from cuda_llm.tools.validator.call_plans import share_that_shows
from cuda_llm.tools.validator.check_case import NO_KERNEL
from cuda_llm.tools.validator.compare import Expected
from cuda_llm.tools.validator.oracle import Expectation
from cuda_llm.tools.validator.validate import Validated, validate

Array = npt.NDArray[Any]
TASK = small_task("vector_add")


def judge(candidate: Candidate) -> Validated | Verdict:
    return asyncio.run(validate(TASK, running(candidate)))


def test_a_validated_candidate_reports_what_was_compared() -> None:
    result = judge(writes("vector_add", add))
    assert isinstance(result, Validated)
    assert result.checked["hidden"] >= 2
    assert result.checked["distributions"] >= 7
    assert result.checked["elements"] > 1000
    assert not result.differential
    assert len(result.nonce) == 16


@pytest.mark.parametrize("seed", range(4))
def test_results_kept_by_sums_that_no_order_changes_are_found(seed: int) -> None:
    kept: dict[Any, Array] = {}

    def candidate(b: Buffers, options: CallOptions) -> None:
        key = (b["C"].size, *(np.sort(b[name], axis=None).tobytes() for name in "AB"))
        b["C"][...] = kept.setdefault(key, b["A"] + b["B"])

    result = asyncio.run(validate(TASK, running(candidate), nonce=bytes([seed]) * 16))
    assert isinstance(result, WrongResult)
    assert result.repeat == "permuted"


def test_all_calls_are_counted_and_bound_what_is_rarely_wrong() -> None:
    session = running(writes("vector_add", add))
    result = asyncio.run(validate(TASK, session, nonce=bytes(16)))
    assert isinstance(result, Validated)
    assert result.checked["calls"] == len(session.calls)
    share = share_that_shows(result.checked["calls"])
    assert (1 - share) ** result.checked["calls"] == pytest.approx(0.05)
    assert 0.01 < share < 0.05


def test_the_same_nonce_gives_the_same_inputs_and_another_nonce_others() -> None:
    def seen(nonce: bytes) -> list[bytes]:
        inputs = []

        def candidate(b: Buffers, options: CallOptions) -> None:
            inputs.append(b["A"].tobytes())
            b["C"][...] = b["A"] + b["B"]

        asyncio.run(validate(TASK, running(candidate), nonce=nonce))
        return inputs

    assert seen(b"1" * 16) == seen(b"1" * 16)
    assert not set(seen(b"1" * 16)[2:]) & set(seen(b"2" * 16)[2:])


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("distance", [0, 3, 255])
def test_a_write_beside_a_buffer_is_found_on_its_side(side: str, distance: int) -> None:
    session = running(lambda b, options: None)

    def candidate(b: Buffers, options: CallOptions) -> None:
        b["C"][...] = b["A"] + b["B"]
        buffer = session.placed["C"]
        guard = buffer.guard_after if side == "after" else buffer.guard_before
        at = distance if side == "after" else guard.size - 1 - distance
        guard[at] ^= 1

    session.script = untimed(candidate)
    verdict = asyncio.run(validate(TASK, session))
    assert verdict == GuardOverwritten(buffer="C", side=side, offset_bytes=distance)


def test_an_input_changed_by_one_bit_is_found() -> None:
    def candidate(b: Buffers, options: CallOptions) -> None:
        b["C"][...] = b["A"] + b["B"]
        b["B"].view(np.uint8)[-1] ^= 1

    assert judge(candidate) == InputMutated(buffer="B")


def test_an_output_that_is_never_written_is_reported_as_unwritten() -> None:
    verdict = judge(lambda b, options: None)
    assert isinstance(verdict, WrongResult)
    assert verdict.looks_like == ElementPattern(kind=ElementKind.UNWRITTEN, share=1.0)
    assert verdict.failed_cases == verdict.cases > 10


def test_reading_the_output_buffer_as_if_it_were_zero_is_wrong() -> None:
    def candidate(b: Buffers, options: CallOptions) -> None:
        b["C"][...] += b["A"] + b["B"]

    assert isinstance(judge(candidate), WrongResult)


def _by_address(b: Buffers) -> Any:
    return 0


def _by_size(b: Buffers) -> Any:
    return b["C"].size


def _by_first_and_last(b: Buffers) -> Any:
    return (b["C"].size, b["A"].flat[0], b["A"].flat[-1])


@pytest.mark.parametrize("key", [_by_address, _by_size, _by_first_and_last])
def test_replayed_outputs_are_wrong(key: Callable[[Buffers], Any]) -> None:
    """Sampled content tells calls apart unless two inputs share it, as all-zero ones do."""
    kept: dict[Any, Array] = {}

    def candidate(b: Buffers, options: CallOptions) -> None:
        name = key(b)
        fits = name in kept and kept[name].size == b["C"].size
        kept[name] = kept[name] if fits else b["A"] + b["B"]
        b["C"][...] = kept[name]

    doubled = replace(TASK, sizes=replace(TASK.sizes, edge=(*TASK.sizes.edge, *TASK.sizes.edge)))
    first = replace(TASK.arguments[0], distributions=("sparse",), probe="")
    if key is _by_first_and_last:
        doubled = replace(doubled, arguments=(first, *TASK.arguments[1:]), linear=False)
    for _ in range(3):
        verdict = asyncio.run(validate(doubled, running(candidate)))
        assert isinstance(verdict, WrongResult)


def test_a_call_without_a_launch_is_host_side_computation() -> None:
    session = running(writes("vector_add", add), launches=())
    verdict = asyncio.run(validate(TASK, session))
    assert isinstance(verdict, PolicyViolation)
    assert verdict.rule == "no-launch"


def test_copies_alone_are_no_kernel() -> None:
    copies = replace(LAUNCH, kernel="copies and fills", grid=(0, 0, 0), block=(0, 0, 0))
    session = running(writes("vector_add", add), launches=(copies,))
    assert asyncio.run(validate(TASK, session)) == NO_KERNEL
    beside = running(writes("vector_add", add), launches=(LAUNCH, copies))
    assert isinstance(asyncio.run(validate(TASK, beside)), Validated)


def test_a_result_that_changes_with_the_schedule_is_not_deterministic() -> None:
    """Wrong only in the second of two calls on the same inputs, in another order."""
    seeds: dict[bytes, int] = {}

    def candidate(b: Buffers, options: CallOptions) -> None:
        contents = b["A"].tobytes() + b["B"].tobytes()
        b["C"][...] = b["A"] + b["B"]
        if seeds.setdefault(contents, options.schedule_seed) != options.schedule_seed:
            b["C"][-1] += 1

    verdict = judge(candidate)
    assert isinstance(verdict, Nondeterministic)
    assert verdict.buffer == "C"


def test_the_order_is_not_blamed_for_what_goes_wrong_in_any_order_from_then_on() -> None:
    seeds: dict[bytes, int] = {}
    wrong = False

    def candidate(b: Buffers, options: CallOptions) -> None:
        nonlocal wrong
        contents = b["A"].tobytes() + b["B"].tobytes()
        wrong |= seeds.setdefault(contents, options.schedule_seed) != options.schedule_seed
        b["C"][...] = b["A"] + b["B"]
        if wrong:
            b["C"][-1] += 1

    verdict = judge(candidate)
    assert isinstance(verdict, WrongResult)
    assert verdict.repeat == "extra"


def test_order_dependent_sums_within_a_quarter_of_the_tolerance_are_noted() -> None:
    def candidate(b: Buffers, options: CallOptions) -> None:
        order = np.random.default_rng(options.schedule_seed).permutation(b["input"].size)
        b["output"][...] = np.cumsum(b["input"][order], dtype=np.float32)[-1:]

    result = asyncio.run(validate(small_task("reduction"), running(candidate)))
    assert isinstance(result, Validated)
    assert len(result.notes) <= 1
    assert all("depends on the order" in note for note in result.notes)


def test_a_write_after_the_call_came_back_is_late() -> None:
    session = running(writes("vector_add", add))

    def compare_while_it_changes(outputs: Buffers) -> dict[str, Array]:
        session.placed["C"].data[...] = 7
        return {"C": np.zeros(outputs["C"].shape)}

    async def oracle(inputs: Buffers, dims: Mapping[str, int]) -> Expectation:
        right = Expected(inputs["A"].astype(np.float64) + inputs["B"])
        return Expectation({"C": right}, compare_while_it_changes)

    verdict = asyncio.run(validate(TASK, session, oracle=oracle))
    assert verdict == LateWrite(buffer="C")


def test_the_verdict_of_a_call_ends_the_evaluation() -> None:
    fault = IllegalAccess(access=MemoryAccess(space="global", kind="read", bytes=4))
    session = running(lambda b, options: fault)
    assert asyncio.run(validate(TASK, session)) == fault
    assert len(session.calls) == 1


def test_hidden_sizes_are_never_revealed() -> None:
    known = {dims["n"] for dims in (*TASK.sizes.edge, *TASK.sizes.emulated)}

    def candidate(b: Buffers, options: CallOptions) -> None:
        b["C"][...] = b["A"] + b["B"]
        if b["C"].size not in known:
            b["C"][-1] += 1

    verdict = judge(candidate)
    assert isinstance(verdict, WrongResult)
    assert verdict.size_class == "hidden"
    assert not verdict.dims
    assert not verdict.index
    assert verdict.elements is verdict.wrong is None


def test_a_forgotten_tail_is_reported_by_its_sizes() -> None:
    def candidate(b: Buffers, options: CallOptions) -> None:
        whole = b["C"].size // 4 * 4
        b["C"][:whole] = (b["A"] + b["B"])[:whole]

    task = small_task("vector_add")
    sizes = replace(task.sizes, edge=({"n": 4}, {"n": 7}, {"n": 64}, {"n": 65}, {"n": 1026}))
    task = replace(task, sizes=sizes)
    # Of other inputs the tail may be NaN, as what is left of the poison is.
    verdict = asyncio.run(validate(task, running(candidate), nonce=bytes(16)))
    assert isinstance(verdict, WrongResult)
    assert verdict.dims == {"n": 7}
    assert verdict.looks_like is not None and verdict.looks_like.region is not None
    assert verdict.looks_like.kind is ElementKind.UNWRITTEN
    assert verdict.looks_like.region.kind is RegionKind.LAST_ELEMENTS
    assert verdict.case_pattern == CasePattern(kind=CaseKind.MULTIPLE_OF, dims=("n",), step=4)
    assert 0 < verdict.failed_cases < verdict.cases


def test_small_cases_run_at_the_full_level_and_schedules_differ() -> None:
    session = running(writes("vector_add", add))
    asyncio.run(validate(TASK, session))
    levels = [options.level for options in session.calls]
    assert set(levels) == {Level.FULL, Level.CHECK}
    # The one case that is called dozens of times may be of either level.
    assert levels.count(Level.FULL) >= 20
    assert len({options.schedule_seed for options in session.calls}) > 3


def test_progress_is_reported_case_by_case() -> None:
    calls = []
    asyncio.run(
        validate(
            TASK,
            running(writes("vector_add", add)),
            on_case=lambda case, number, total: calls.append((number, total)),
        )
    )
    assert sorted(calls) == [(number, len(calls)) for number in range(len(calls))]
