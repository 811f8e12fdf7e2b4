"""What wrong cases have in common."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from cuda_llm.fact_wording import describe_cases
from cuda_llm.tools.device import Level
from cuda_llm.tools.validator.cases import Case
from cuda_llm.tools.validator.find_patterns import JudgedCase, find_case_pattern


def words(cases: Sequence[JudgedCase]) -> str:
    found = find_case_pattern(cases)
    return "" if found is None else describe_cases(found)


def case(label: str = "normal", group: str = "edge", probe: bool = False, **dims: int) -> Case:
    return Case(group=group, dims=dims, distributions={"x": label}, level=Level.CHECK, probe=probe)


def judged(is_wrong: Callable[[Mapping[str, int]], bool], *cases: Case) -> list[JudgedCase]:
    return [JudgedCase(one, not is_wrong(one.dims)) for one in cases]


VECTORS = [case(n=n) for n in (1, 4, 7, 8, 32, 48, 64, 257, 1024, 1026, 4096)]
MATRICES = [case(M=m, N=n) for m, n in ((1, 1), (32, 32), (31, 33), (64, 32), (33, 32), (32, 31))]


@pytest.mark.parametrize(
    ("is_wrong", "phrase"),
    [
        (lambda d: d["n"] % 4 != 0, "n is a multiple of 4 is right: the tail after whole vectors"),
        (lambda d: d["n"] % 64 != 0, "n is a multiple of 64 is right: the last partial tile"),
        (lambda d: d["n"] > 1024, "right up to n = 1,024, wrong from n = 1,026 on"),
        (lambda d: d["n"] < 64, "wrong up to n = 48, right from n = 64 on"),
        (lambda d: d["n"] in (7, 1024), ""),
        (lambda d: True, ""),
    ],
)
def test_rules_on_one_dim(is_wrong: Callable[[Mapping[str, int]], bool], phrase: str) -> None:
    found = words(judged(is_wrong, *VECTORS))
    assert phrase in found
    assert bool(phrase) == bool(found)


@pytest.mark.parametrize(
    ("is_wrong", "phrase"),
    [
        (lambda d: d["M"] % 32 or d["N"] % 32, "M and N are multiples of"),
        (lambda d: d["M"] != d["N"], "right only where M equals N"),
        (lambda d: d["N"] % 32, "where N is a multiple of"),
    ],
)
def test_rules_on_two_dims(is_wrong: Callable[[Mapping[str, int]], bool], phrase: str) -> None:
    assert phrase in words(judged(is_wrong, *MATRICES))


def test_the_failing_distributions_are_named() -> None:
    cases = [case(label, n=n) for n in (5, 6, 7) for label in ("normal", "large", "zeros")]
    found = words([JudgedCase(one, one.label != "large") for one in cases])
    assert found == "only inputs drawn from large are wrong"


def test_a_probe_that_alone_fails_is_named() -> None:
    cases = [case(n=5), case(n=6), case(n=6, probe=True)]
    assert "exactness probe" in words([JudgedCase(one, not one.probe) for one in cases])


def test_hidden_sizes_never_appear_in_a_phrase() -> None:
    cases = [case(n=10), case(n=21), case(n=77_777, group="hidden"), case(n=30)]
    assert words(judged(lambda d: d["n"] > 30, *cases)) == ""
    with_edge = [*cases, case(n=50_000)]
    found = words(judged(lambda d: d["n"] > 30, *with_edge))
    assert "n = 50,000 on" in found
    assert "77" not in found
