"""Products of a warpgroup in the runtime: what is under way, and who takes part."""

import pytest
from runtime_driver import FAULT_EXIT, Run

from cuda_llm.outcomes import DataRace, InvalidSync


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("scenario", ["group_honest", "group_of_held_rows"])
def test_an_honest_group_multiplies(run: Run, scenario: str, level: int) -> None:
    for seed in (0, 3):
        ran = run(scenario, level=level, seed=seed)
        assert ran.status == 0, ran.record.fault


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize(
    ("scenario", "kind", "reason", "line"),
    [
        ("group_touched", "unwaited", None, 60),
        ("group_no_commit", "unwaited", None, 70),
        ("group_no_fence", "unfenced", None, 30),
        ("group_changed", "unfenced", None, 30),
        ("group_three_warps", "divergent-barrier", "missing-warps", 50),
        ("group_of_three", "divergent-barrier", "missing-warps", 50),
        ("group_unlike", "divergent-barrier", "different-operands", 30),
    ],
)
def test_misuse_is_found_at_its_line(
    run: Run, scenario: str, kind: str, reason: str | None, line: int, level: int
) -> None:
    ran = run(scenario, level=level)
    assert ran.status == FAULT_EXIT
    fault = ran.record.fault
    assert isinstance(fault, InvalidSync), fault
    assert (fault.kind, fault.reason) == (kind, reason)
    assert fault.spot is not None
    assert fault.spot.line == line


@pytest.mark.parametrize(
    ("scenario", "unfenced"), [("group_overwritten", False), ("group_unfenced_store", True)]
)
def test_operands_race(run: Run, scenario: str, unfenced: bool) -> None:
    fault = run(scenario, level=2).record.fault
    assert isinstance(fault, DataRace), fault
    assert fault.unfenced is unfenced
