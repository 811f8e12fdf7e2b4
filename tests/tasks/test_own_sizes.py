"""Sizes of the user's own: what is timed changes, what is checked does not."""

import pytest

from cuda_llm.errors import UsageError
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.own_sizes import spell_size, with_sizes

MATMUL = load_task("matrix_multiplication")
CONV = load_task("conv2d")


def test_no_size_leaves_the_task_as_it_is() -> None:
    assert with_sizes(MATMUL, ()) is MATMUL


def test_the_timed_sizes_are_those_given_in_their_order() -> None:
    sized = with_sizes(MATMUL, ["M=4096,N=2048,K=1_024", "K=7, M=5, N=6"])
    assert sized.sizes.bench == ({"M": 4096, "N": 2048, "K": 1024}, {"M": 5, "N": 6, "K": 7})
    assert sized.sizes.edge == MATMUL.sizes.edge
    assert sized.sizes.hidden == MATMUL.sizes.hidden
    assert sized.weights == ()


def test_a_size_is_spelled_as_it_is_read() -> None:
    (size,) = with_sizes(MATMUL, ["K=7,M=5,N=6"]).sizes.bench
    assert spell_size(size) == "M=5,N=6,K=7"
    assert with_sizes(MATMUL, [spell_size(size)]).sizes.bench == (size,)


@pytest.mark.parametrize(
    ("sizes", "complaint"),
    [
        (["M=5"], "N, K not given"),
        (["M=5,N=6,K=7,M=8"], "M is given twice"),
        (["M=5,N=6,Q=7"], "matrix_multiplication has no 'Q'"),
        (["M=5,N=6,K=0"], "K is 0; expected at least 1"),
        (["M=5,N=6,K=-1"], "'K=-1' is no NAME=NUMBER"),
        (["M=5,N=6,K=1e3"], "'K=1e3' is no NAME=NUMBER"),
        (["M 5"], "'M 5' is no NAME=NUMBER"),
        ([""], "'' is no NAME=NUMBER"),
        (["M=1,N=1,K=3000000000"], "K would be 3,000,000,000, beyond its 32 bits"),
        (["M=1,N=1,K=1", "K=1,N=1,M=1"], "given twice"),
    ],
)
def test_what_is_no_size_is_told_in_one_line(sizes: list[str], complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        with_sizes(MATMUL, sizes)
    message = str(caught.value)
    assert message.startswith("--size")
    assert complaint in message
    assert "\n" not in message


def test_a_size_has_to_meet_what_the_task_requires() -> None:
    with pytest.raises(UsageError, match="requires"):
        with_sizes(CONV, ["H=8,W=8,R=9,S=3"])
