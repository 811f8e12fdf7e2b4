"""What wrong results have in common: patterns of elements within an output, and of cases, as data
and in words.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class RegionKind(StrEnum):
    """Where in an output wrong elements lie, if that is one place or a regular one."""

    FIRST_ELEMENT = "first-element"
    LAST_ELEMENT = "last-element"
    LAST_ROWS = "last-rows"
    LAST_COLUMNS = "last-columns"
    LAST_ELEMENTS = "last-elements"
    LAST_CORNER = "last-corner"
    EVERY_NTH = "every-nth"


@dataclass(frozen=True, kw_only=True)
class Region:
    """A part of an output."""

    kind: RegionKind
    share: float | None = None
    """Of the rows, columns or elements, 0 to 1. A ratio: the size may be hidden."""
    period: int | None = None
    """Of `EVERY_NTH`."""


class ElementKind(StrEnum):
    """What the wrong elements of an output look like."""

    UNWRITTEN = "unwritten"
    NAN = "nan"
    INFINITE = "infinite"
    ZEROS = "zeros"
    CONSTANT = "constant"
    COPIED = "copied"
    TRANSPOSED = "transposed"
    SHIFTED = "shifted"
    REVERSED = "reversed"
    MULTIPLE = "multiple"
    FRACTION = "fraction"
    NEGATED = "negated"
    ONE_TOO_MANY = "one-too-many"
    ONE_TOO_FEW = "one-too-few"
    TOO_MANY = "too-many"
    TOO_FEW = "too-few"
    ROUNDED_TO_TF32 = "rounded-to-tf32"
    """Or to half precision: both keep as many bits."""
    ROUNDED_TO_BF16 = "rounded-to-bf16"
    LOCATED = "located"
    """Nothing but where they are."""
    ROW_SUMS = "row-sums"
    """Random sums over a row are off; which element it is was not told apart."""


@dataclass(frozen=True, kw_only=True)
class ElementPattern:
    """What wrong elements look like, with what belongs to the kind."""

    kind: ElementKind
    region: Region | None = None
    """Of `LOCATED`, and of `UNWRITTEN` where these elements and no others are wrong."""
    share: float | None = None
    """Of the elements that are so, of counts that are lost; 0 to 1."""
    factor: int | None = None
    """How many times too much of `MULTIPLE`, too little of `FRACTION`."""
    buffer: str | None = None
    """The input of `COPIED`."""


LONGEST_VECTOR = 8
"""Elements of one vector access, at most: what fails at other multiples is a tile."""


class CaseKind(StrEnum):
    """A rule that splits right cases from wrong ones exactly."""

    EXACTNESS_PROBE = "exactness-probe"
    """Wrong where sums of whole numbers have to be exact."""
    MULTIPLE_OF = "multiple-of"
    """Right where the dimensions are multiples of `step`."""
    EQUAL_DIMS = "equal-dims"
    """Right where two dimensions are equal."""
    ABOVE = "above"
    """Wrong from `wrong_at` on."""
    BELOW = "below"
    """Wrong up to `wrong_at`."""
    DISTRIBUTION = "distribution"
    """Wrong on inputs drawn from some distributions."""


@dataclass(frozen=True, kw_only=True)
class CasePattern:
    """What the wrong cases have in common that the right ones have not."""

    kind: CaseKind
    dims: tuple[str, ...] = ()
    """Names of the dimensions it is about."""
    step: int | None = None
    right_at: int | None = None
    """Nearest extent, of those that may be told, at which all is right."""
    wrong_at: int | None = None
    distributions: tuple[str, ...] = ()

    @property
    def is_vector(self) -> bool:
        """Whether the step is that of a vector rather than of a tile."""
        return len(self.dims) == 1 and self.step is not None and self.step <= LONGEST_VECTOR


_PHRASES: Mapping[ElementKind, str] = {
    ElementKind.INFINITE: "infinity: an overflow or a division by zero",
    ElementKind.ZEROS: "all zeros",
    ElementKind.CONSTANT: "one constant everywhere",
    ElementKind.TRANSPOSED: "the transpose of what it should be",
    ElementKind.SHIFTED: "every element is one place off",
    ElementKind.REVERSED: "in reverse order",
    ElementKind.NEGATED: "the negative of what it should be",
    ElementKind.ONE_TOO_MANY: "off by one: too many",
    ElementKind.ONE_TOO_FEW: "off by one: too few",
    ElementKind.TOO_MANY: "too many: counters are not reset, or values are counted twice",
    ElementKind.ROUNDED_TO_TF32: "rounding to TF32 or half precision: the task asks for strict "
    "float32",
    ElementKind.ROUNDED_TO_BF16: "rounding to bfloat16, or sums kept in half precision",
    ElementKind.ROW_SUMS: "sums over this row are off by more than rounding of its elements "
    "explains",
}


def describe_elements(pattern: ElementPattern) -> str:
    """Describe the wrong elements in one phrase. Ratios, no counts: a size may be hidden."""
    kind, factor = pattern.kind, pattern.factor
    of_all = "" if pattern.share is None else f" in {percent(pattern.share)} of the elements"
    match kind:
        case ElementKind.UNWRITTEN:
            if pattern.region is not None:
                return f"never written: {describe_region(pattern.region)}"
            if pattern.share in (None, 1.0):
                return "the output is never written"
            return f"{percent(pattern.share or 0.0)} of the elements are never written"
        case ElementKind.NAN:
            return f"NaN{of_all}"
        case ElementKind.COPIED:
            return f"a copy of {pattern.buffer}"
        case ElementKind.MULTIPLE:
            return f"{factor} times what it should be: terms are counted {factor} times"
        case ElementKind.FRACTION:
            return f"one {factor}th of what it should be: most terms are lost"
        case ElementKind.TOO_FEW:
            lost = "" if pattern.share is None else f": {pattern.share:.2g} of all are lost"
            return f"too few{lost}"
        case ElementKind.LOCATED:
            return "" if pattern.region is None else describe_region(pattern.region)
        case _:
            return _PHRASES[kind]


def describe_region(region: Region) -> str:
    """Describe where the elements are."""
    match region.kind:
        case RegionKind.FIRST_ELEMENT | RegionKind.LAST_ELEMENT:
            return f"the {region.kind.value.removesuffix('-element')} element only"
        case RegionKind.LAST_CORNER:
            return "the last corner: the last rows and columns"
        case RegionKind.EVERY_NTH:
            return f"every {region.period}th element"
        case _:
            what = region.kind.value.removeprefix("last-")
            share = "" if region.share is None else f" ({percent(region.share)} of them)"
            return f"the last {what} are wrong{share}: a tail or last tile"


def describe_cases(pattern: CasePattern) -> str:
    """Describe what the wrong cases have in common, in one phrase."""
    dims = " and ".join(pattern.dims)
    match pattern.kind:
        case CaseKind.EXACTNESS_PROBE:
            return (
                "only the exactness probe is wrong: sums of whole numbers that float32 holds "
                "exactly come out rounded"
            )
        case CaseKind.MULTIPLE_OF if len(pattern.dims) > 1:
            return f"right only where {dims} are multiples of {pattern.step}"
        case CaseKind.MULTIPLE_OF:
            rest = "the tail after whole vectors" if pattern.is_vector else "the last partial tile"
            every = f"every size where {dims} is a multiple of {pattern.step} is right"
            return f"{every}: {rest} is not handled"
        case CaseKind.EQUAL_DIMS:
            return f"right only where {' equals '.join(pattern.dims)}"
        case CaseKind.ABOVE:
            right, wrong = pattern.right_at or 0, pattern.wrong_at or 0
            return f"right up to {dims} = {right:,}, wrong from {dims} = {wrong:,} on"
        case CaseKind.BELOW:
            right, wrong = pattern.right_at or 0, pattern.wrong_at or 0
            return f"wrong up to {dims} = {wrong:,}, right from {dims} = {right:,} on"
        case CaseKind.DISTRIBUTION:
            return f"only inputs drawn from {' or '.join(pattern.distributions)} are wrong"


def percent(share: float) -> str:
    """Return `3.1 %`."""
    return f"{100 * share:.2g} %"
