"""What the wrong cases of one candidate have in common that the right ones have not."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cuda_llm.patterns import CaseKind, CasePattern
from cuda_llm.tools.validator.cases import Case

STEPS = (2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True)
class Judged:
    """A case and how it came out."""

    case: Case
    right: bool


Rule = tuple[CasePattern, Sequence[bool]]
"""A pattern, and for each case whether it would be wrong by it."""


def find_pattern(judged: Sequence[Judged]) -> CasePattern | None:
    """The first simple rule that splits right from wrong exactly."""
    cases = [one.case for one in judged]
    wrong = [not one.right for one in judged]
    if len(judged) < 3 or all(wrong) or not any(wrong):
        return None
    for pattern, predicted in _rules(cases, wrong):
        if list(predicted) == wrong:
            return pattern
    return None


def _rules(cases: Sequence[Case], wrong: Sequence[bool]) -> Iterator[Rule]:
    yield CasePattern(kind=CaseKind.EXACTNESS_PROBE), [case.probe for case in cases]
    yield from _size_rules(cases)
    names = list(cases[0].dims)
    for name in names:
        yield from _threshold_rules(name, cases, wrong)
    labels = sorted({case.label for case, bad in zip(cases, wrong, strict=True) if bad})
    if len(labels) <= 2:
        yield (
            CasePattern(kind=CaseKind.DISTRIBUTION, distributions=tuple(labels)),
            [case.label in labels for case in cases],
        )


def _size_rules(cases: Sequence[Case]) -> Iterator[Rule]:
    names = list(cases[0].dims)
    pairs = list(itertools.combinations(names, 2))
    for step in STEPS:
        for dims in [(name,) for name in names] + pairs:
            yield (
                CasePattern(kind=CaseKind.MULTIPLE_OF, dims=dims, step=step),
                [any(case.dims[name] % step for name in dims) for case in cases],
            )
    for one, other in pairs:
        yield (
            CasePattern(kind=CaseKind.EQUAL_DIMS, dims=(one, other)),
            [case.dims[one] != case.dims[other] for case in cases],
        )


def _threshold_rules(name: str, cases: Sequence[Case], wrong: Sequence[bool]) -> Iterator[Rule]:
    """Bounds are taken from sizes that may be shown; hidden ones only have to agree."""
    shown = [
        (c.dims[name], bad) for c, bad in zip(cases, wrong, strict=True) if c.group != "hidden"
    ]
    bad_sizes = [size for size, bad in shown if bad]
    good_sizes = [size for size, bad in shown if not bad]
    if not bad_sizes or not good_sizes:
        return
    low, high = max(good_sizes), min(bad_sizes)
    yield (
        CasePattern(kind=CaseKind.ABOVE, dims=(name,), right_at=low, wrong_at=high),
        [case.dims[name] > low for case in cases],
    )
    high, low = max(bad_sizes), min(good_sizes)
    yield (
        CasePattern(kind=CaseKind.BELOW, dims=(name,), right_at=low, wrong_at=high),
        [case.dims[name] < low for case in cases],
    )
