"""Options that name a cluster and how many GPUs are used make one text that opens the device."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.errors import UsageError
from cuda_llm.tools.cluster.spec import ClusterSpec, parse_cluster
from cuda_llm.tools.device_options import compose_device

GPUS = st.lists(st.sampled_from(["H200", "RTX 4090", "A100"]), max_size=3, unique=True)
WORKERS = st.one_of(GPUS.map(tuple), st.just(("emulated:RTX 3090 Ti",)))
ADDRESSES = {"auto": "auto", "ray://head:10001": "//head:10001", "10.0.0.1:6379": "10.0.0.1:6379"}


@given(st.sampled_from(sorted(ADDRESSES)), WORKERS, st.none() | st.integers(1, 999))
def test_the_text_of_a_cluster_names_what_the_options_named(
    address: str, workers: tuple[str, ...], most: int | None
) -> None:
    text = compose_device("auto", address, ",".join(workers), most)
    named = ClusterSpec(address=ADDRESSES[address], workers=workers, max_gpus=most)
    assert parse_cluster(text) == named


@given(WORKERS, st.none() | st.integers(1, 999))
def test_a_device_that_is_a_cluster_says_the_same_as_the_option_of_its_address(
    workers: tuple[str, ...], most: int | None
) -> None:
    asked = (",".join(workers), most)
    by_option = compose_device("auto", "ray://head:10001", *asked)
    assert compose_device("ray://head:10001", "", *asked) == by_option


@pytest.mark.parametrize("device", ["auto", "cuda:all", "emulated:RTX 4090", "mine.py:device", ""])
def test_without_these_options_a_device_is_named_as_before(device: str) -> None:
    assert compose_device(device) == device


@pytest.mark.parametrize("device", ["cuda:all", "cuda:0,1"])
def test_several_gpus_of_this_machine_may_be_fewer(device: str) -> None:
    assert compose_device(device, max_gpus=2) == f"{device}?max_gpus=2"


@pytest.mark.parametrize(
    ("device", "cluster", "workers", "most", "complaint"),
    [
        ("cuda:0", "auto", "", None, "--cluster auto and --device cuda:0: name one of them"),
        ("emulated", "auto", "", None, "name one of them; .* --workers emulated:GPU"),
        ("ray:auto", "h:6379", "", None, "--cluster h:6379 and --device ray:auto: name one"),
        ("auto", "head", "", None, "--cluster head: expected auto, ray://HOST:10001 or HOST:6379"),
        ("auto", "ray:h:10001", "", None, "expected auto, ray://HOST:10001 or HOST:6379"),
        ("auto", "http://h:10001", "", None, "expected auto, ray://HOST:10001 or HOST:6379"),
        ("cuda:all", "", "H200", None, "--workers H200: of which cluster"),
        ("auto", "auto", ",", None, "--workers ,: expected names of GPUs"),
        ("auto", "auto", "H200,emulated:A100", None, "emulated devices stand for one GPU, alone"),
        ("ray:auto/H200", "", "A100", None, "--workers A100 and --device ray:auto/H200: say once"),
        ("ray:auto?max_gpus=2", "", "", 3, "--max-gpus 3 and --device ray:auto.*: say once"),
        ("cuda:all?max_gpus=2", "", "", 3, "--max-gpus 3 and --device cuda:all.*: say once"),
        ("cuda:all", "", "", 0, "--max-gpus 0: expected a whole number of at least 1"),
        ("auto", "auto", "", -1, "--max-gpus -1: expected a whole number of at least 1"),
        ("emulated", "", "", 2, "--max-gpus 2 and --device emulated: it counts the GPUs of"),
        ("cuda:0", "", "", 2, "it counts the GPUs of a cluster, cuda:all or cuda:0,1"),
        ("auto", "", "", 2, "it counts the GPUs of a cluster, cuda:all or cuda:0,1"),
        ("mine.py:device", "", "", 2, "it counts the GPUs of a cluster, cuda:all or cuda:0,1"),
    ],
)
def test_options_that_contradict_each_other_are_one_line(
    device: str, cluster: str, workers: str, most: int | None, complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint) as caught:
        compose_device(device, cluster, workers, most)
    assert "\n" not in str(caught.value)
