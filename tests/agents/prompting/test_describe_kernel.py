"""What limits a kernel, in words."""

from dataclasses import replace

from reflection_scenes import judged, passed
from searches import attempt

from cuda_llm.agents.prompting.describe_kernel import describe_profile


def launch_line(time_us: float) -> str:
    verdict = passed()
    assert verdict.profile is not None
    (launch,) = verdict.profile.launches
    profile = replace(verdict.profile, launches=(replace(launch, time_us=time_us),))
    one = attempt("r001-c1")
    (line,) = describe_profile(judged((one, "", verdict)), one, profile)
    return line


def test_a_launch_is_described_with_its_time() -> None:
    assert launch_line(41.4).startswith("launch transpose<<<(64, 64, 1), (32, 8, 1)>>>: 41.4 us, ")


def test_a_time_that_was_not_measured_is_left_out() -> None:
    line = launch_line(0.0)
    assert line.startswith(
        "launch transpose<<<(64, 64, 1), (32, 8, 1)>>>, 4,096 B of shared memory"
    )
    assert "0 us" not in line
