"""A cluster's spec is read as it is written, and slips are told in one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.errors import UsageError
from cuda_llm.tools.cluster.spec import ClusterSpec, parse_cluster

GPUS = st.sampled_from(["H200", "RTX 4090", "RTX 3090 Ti", "A100"])
SPECS = st.builds(
    ClusterSpec,
    address=st.sampled_from(["auto", "//head:10001", "10.0.0.1:6379"]),
    workers=st.one_of(
        st.lists(GPUS, max_size=3, unique=True).map(tuple),
        GPUS.map(lambda gpu: (f"emulated:{gpu}",)),
    ),
    max_gpus=st.none() | st.integers(1, 999),
)


@given(SPECS)
def test_a_spec_is_read_as_it_is_written(spec: ClusterSpec) -> None:
    assert parse_cluster(str(spec)) == spec


def test_the_gpu_that_emulated_workers_stand_for_is_named() -> None:
    assert parse_cluster("ray:auto/emulated:RTX 3090 Ti").emulated == "RTX 3090 Ti"
    assert parse_cluster("ray:auto/H200").emulated is None
    assert parse_cluster("ray:auto").emulated is None


@pytest.mark.parametrize(
    "spec",
    [
        "ray:",
        "ray:///H200",
        "ray:auto?max_gpus=0",
        "ray:auto?gpus=3",
        "ray:auto/H200,emulated:A100",
    ],
)
def test_a_slip_is_told_in_one_line_that_shows_what_is_expected(spec: str) -> None:
    with pytest.raises(UsageError, match=r"^'ray:.*expected ray:auto or ray://HOST") as caught:
        parse_cluster(spec)
    assert "\n" not in str(caught.value)
