"""What a time goes to is one thing, and what to fix first another."""

from dataclasses import replace

from cuda_llm.figure_wording import describe_time_spent
from cuda_llm.profile import Bottleneck, LaunchProfile, Profile
from cuda_llm.time_terms import dominating_term

LAUNCH = LaunchProfile(
    kernel="solve",
    grid=(1, 1, 1),
    block=(32, 1, 1),
    shared_bytes=0,
    occupancy=1.0,
    time_us=10.0,
    terms_us={"dram": 9.0, "shared": 3.0, "l1": 2.0, "launch": 1.0},
)
CONFLICTS = Bottleneck(
    code="bank_conflicts", share=0.06, explanation="32-way", saved_us=0.6, time_us=10.0
)
PROFILE = Profile(
    device="emulated",
    hardware="RTX 3090 Ti",
    source="modelled",
    launches=(LAUNCH,),
    bottlenecks=(CONFLICTS,),
)


def part_of(launches: list[LaunchProfile]) -> tuple[str, float]:
    found = dominating_term(launches)
    assert found is not None
    return found[0], round(found[1], 3)


def test_the_time_goes_to_the_largest_term_of_all_launches() -> None:
    other = replace(LAUNCH, time_us=20.0, terms_us={"l1": 8.0, "shared": 6.0, "dram": 1.0})
    assert part_of([LAUNCH]) == ("DRAM bandwidth", 0.9)
    assert part_of([LAUNCH, other]) == ("the path of shared memory and L1", round(19 / 30, 3))
    assert dominating_term([replace(LAUNCH, terms_us={})]) is None


def test_a_kernel_is_limited_by_what_its_time_goes_to_not_by_what_is_mended_first() -> None:
    assert describe_time_spent(PROFILE) == "DRAM bandwidth, 90% of the time"


def test_a_bottleneck_that_nothing_mends_is_itself_the_limit() -> None:
    roof = Bottleneck(code="dram_bandwidth", share=0.9, explanation="10 MB of DRAM")
    assert describe_time_spent(replace(PROFILE, bottlenecks=(roof,))) == ""
    assert describe_time_spent(replace(PROFILE, bottlenecks=())) == ""
