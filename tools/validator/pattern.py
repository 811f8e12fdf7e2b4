"""What the wrong cases of one candidate have in common that the right ones have not."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cuda_llm.tools.validator.cases import Case

STEPS = (2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True)
class Judged:
    """A case and how it came out."""

    case: Case
    right: bool


Rule = tuple[str, Sequence[bool]]
"""A phrase, and for each case whether it would be wrong by that rule."""


def find_pattern(judged: Sequence[Judged]) -> str:
    """One phrase where a simple rule splits right from wrong exactly, else nothing."""
    cases = [one.case for one in judged]
    wrong = [not one.right for one in judged]
    if len(judged) < 3 or all(wrong) or not any(wrong):
        return ""
    for phrase, predicted in _rules(cases, wrong):
        if list(predicted) == wrong:
            return phrase
    return ""


def _rules(cases: Sequence[Case], wrong: Sequence[bool]) -> Iterator[Rule]:
    yield (
        "only the exactness probe is wrong: sums of whole numbers that float32 holds exactly "
        "come out rounded",
        [case.probe for case in cases],
    )
    yield from _size_rules(cases)
    names = list(cases[0].dims)
    for name in names:
        yield from _threshold_rules(name, cases, wrong)
    labels = sorted({case.label for case, bad in zip(cases, wrong, strict=True) if bad})
    if len(labels) <= 2:
        yield (
            f"only inputs drawn from {' or '.join(labels)} are wrong",
            [case.label in labels for case in cases],
        )


def _size_rules(cases: Sequence[Case]) -> Iterator[Rule]:
    names = list(cases[0].dims)
    for step in STEPS:
        rest = "the tail after whole vectors" if step <= 8 else "the last partial tile"
        for name in names:
            yield (
                f"every size where {name} is a multiple of {step} is right: {rest} is not handled",
                [case.dims[name] % step != 0 for case in cases],
            )
        for one, other in itertools.combinations(names, 2):
            yield (
                f"right only where {one} and {other} are multiples of {step}",
                [bool(case.dims[one] % step or case.dims[other] % step) for case in cases],
            )
    for one, other in itertools.combinations(names, 2):
        yield (
            f"right only where {one} equals {other}",
            [case.dims[one] != case.dims[other] for case in cases],
        )


def _threshold_rules(name: str, cases: Sequence[Case], wrong: Sequence[bool]) -> Iterator[Rule]:
    """Bounds are taken from sizes that may be told; hidden ones only have to agree."""
    told = [(c.dims[name], bad) for c, bad in zip(cases, wrong, strict=True) if c.group != "hidden"]
    bad_sizes = [size for size, bad in told if bad]
    good_sizes = [size for size, bad in told if not bad]
    if not bad_sizes or not good_sizes:
        return
    low, high = max(good_sizes), min(bad_sizes)
    yield (
        f"right up to {name} = {low:,}, wrong from {name} = {high:,} on",
        [case.dims[name] > low for case in cases],
    )
    high, low = max(bad_sizes), min(good_sizes)
    yield (
        f"wrong up to {name} = {high:,}, right from {name} = {low:,} on",
        [case.dims[name] < low for case in cases],
    )
