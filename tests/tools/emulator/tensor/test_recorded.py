"""Tensor cores against what an H200 gave for the same operands."""

import numpy as np
import numpy.typing as npt
import pytest
from device_calls import run
from recorded_tensor import CALLS, CAPABILITY, KEPT_FRAGMENTS, TensorCall, recorded
from tensor_cases import ROWS, cases_for
from wmma_cases import FRAGMENTS, wmma_cases, wmma_results
from wmma_cases import ROWS as WMMA_ROWS

Words = npt.NDArray[np.unsignedinteger]


def emulated(one: TensorCall) -> dict[str, Words]:
    """What the emulated H200 leaves."""
    buffers = {"given": one.given, **dict(zip(one.parts, one.left, strict=True))}
    called = run(one.source, buffers, list(one.parts), one.rows, device="H200")
    assert called.report
    return {part: called.outputs[part] for part in one.parts}  # type: ignore[misc]


@pytest.mark.parametrize("one", CALLS, ids=lambda one: one.name)
def test_every_result_is_that_of_the_hardware(one: TensorCall) -> None:
    found = emulated(one)
    assert all(found[part].any() for part in one.parts)
    ours = found[one.name]
    theirs = recorded(one.name, ours)
    pairs = zip(by_case(one.name, ours), by_case(one.name, theirs), strict=True)
    wrong = {name: int((a != b).sum()) for (name, a), (_, b) in pairs}
    assert {name: count for name, count in wrong.items() if count} == {}


def by_case(program: str, results: Words) -> list[tuple[str, Words]]:
    """The results of a program, spelling by spelling."""
    match program:
        case "mma":
            cases = cases_for(CAPABILITY)
            ends = np.cumsum([ROWS * 32 * case.words("d") for case in cases])[:-1]
            parts = np.split(results, ends)
            return [(case.spelling, part) for case, part in zip(cases, parts, strict=True)]
        case "wmma":
            kinds = wmma_cases(CAPABILITY)
            found = wmma_results(CAPABILITY, results)
            return [(f"{n} {kinds[n].label}", part) for n, part in found.items()]
        case _:
            return [(program, results)]


def test_fragments_of_wmma_hold_what_those_of_the_hardware_hold() -> None:
    wmma = next(one for one in CALLS if one.name == "wmma")
    shape = (len(wmma_cases(CAPABILITY)), WMMA_ROWS, 3, FRAGMENTS // 3)
    found = emulated(wmma)["fragments"]
    ours, theirs = (
        one.reshape(shape)[:, :KEPT_FRAGMENTS] for one in (found, recorded("fragments", found))
    )
    assert ours.any(axis=(1, 2, 3)).all()
    # What a fragment does not fill was never written here, and is zero in the record.
    same = (ours == theirs) | (theirs == 0)
    labels = [case.label for case in wmma_cases(CAPABILITY)]
    assert [label for label, one in zip(labels, same, strict=True) if not one.all()] == []
