"""Tensor cores against what an H200 gave for the same operands, once that has been recorded."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from device_calls import run
from recorded_tensor import CALLS, CAPABILITY, RECORDED, TensorCall
from tensor_cases import ROWS, cases_for
from wmma_cases import FRAGMENTS, wmma_cases, wmma_results
from wmma_cases import ROWS as WMMA_ROWS

ROOT = Path(__file__).parents[4]
Recorded = dict[str, npt.NDArray[np.unsignedinteger]]


@pytest.fixture(scope="module")
def recorded() -> Recorded | None:
    """What an H200 gave; None until that is recorded, which docs/recorded.md has to say."""
    if not RECORDED.exists():
        page = (ROOT / "docs/recorded.md").read_text()
        assert "Not recorded yet. `record_on_gpu.py tensor`" in page
        return None
    with np.load(RECORDED) as arrays:
        return dict(arrays)


def emulated(one: TensorCall) -> Recorded:
    """What the emulated H200 leaves."""
    buffers = {"given": one.given, **dict(zip(one.parts, one.left, strict=True))}
    called = run(one.source, buffers, list(one.parts), one.rows, device="H200")
    assert called.report
    return {part: called.outputs[part] for part in one.parts}  # type: ignore[misc]


@pytest.mark.parametrize("one", CALLS, ids=lambda one: one.name)
def test_every_result_is_that_of_the_hardware(one: TensorCall, recorded: Recorded | None) -> None:
    found = emulated(one)
    assert all(found[part].any() for part in one.parts)
    if recorded is None:
        return
    match one.name:
        case "mma":
            sizes = [ROWS * 32 * case.words("d") for case in cases_for(CAPABILITY)]
            ends = np.cumsum(sizes)[:-1]
            pairs = zip(np.split(found["mma"], ends), np.split(recorded["mma"], ends), strict=True)
            wrong = {
                case.spelling: int((ours != theirs).sum())
                for case, (ours, theirs) in zip(cases_for(CAPABILITY), pairs, strict=True)
            }
        case "wmma":
            ours = wmma_results(CAPABILITY, found["wmma"])
            theirs = wmma_results(CAPABILITY, recorded["wmma"])
            cases = enumerate(wmma_cases(CAPABILITY))
            wrong = {f"{n} {case.label}": int((ours[n] != theirs[n]).sum()) for n, case in cases}
        case _:
            wrong = {one.name: int((found["matrices"] != recorded["matrices"]).sum())}
    assert {name: count for name, count in wrong.items() if count} == {}


def test_fragments_of_wmma_hold_what_those_of_the_hardware_hold(
    recorded: Recorded | None,
) -> None:
    wmma = next(one for one in CALLS if one.name == "wmma")
    shape = (len(wmma_cases(CAPABILITY)), WMMA_ROWS, 3, FRAGMENTS // 3)
    ours = emulated(wmma)["fragments"].reshape(shape)
    assert ours.any(axis=(1, 2, 3)).all()
    if recorded is None:
        return
    theirs = recorded["fragments"].reshape(shape)
    # What a fragment does not fill was never written here, and is zero in the record.
    same = (ours == theirs) | (theirs == 0)
    labels = [case.label for case in wmma_cases(CAPABILITY)]
    assert [label for label, one in zip(labels, same, strict=True) if not one.all()] == []
