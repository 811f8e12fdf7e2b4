"""What limits a kernel, in words."""

from dataclasses import replace

from reflection_scenes import judged, passed
from searches import attempt

from cuda_llm.agents.prompting.describe_kernel import describe_profile


def launch_lines(*times_us: float) -> tuple[str, ...]:
    verdict = passed()
    assert verdict.profile is not None
    (launch,) = verdict.profile.launches
    launches = tuple(replace(launch, time_us=time_us) for time_us in times_us)
    profile = replace(verdict.profile, launches=launches)
    one = attempt("r001-c1")
    return describe_profile(judged((one, "", verdict)), one, profile)


def test_each_of_several_launches_is_described_with_its_time() -> None:
    first, _ = launch_lines(41.4, 3.0)
    assert first.startswith("launch transpose<<<(64, 64, 1), (32, 8, 1)>>>: 41.4 us, ")


def test_the_time_of_the_only_launch_stands_in_the_table_alone() -> None:
    (line,) = launch_lines(41.4)
    assert "us" not in line.split(">>>")[1].split(",")[0]


def test_a_time_that_was_not_measured_is_left_out() -> None:
    line, _ = launch_lines(0.0, 0.0)
    assert line.startswith(
        "launch transpose<<<(64, 64, 1), (32, 8, 1)>>>, 4,096 B of shared memory"
    )
    assert "0 us" not in line
