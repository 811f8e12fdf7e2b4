"""What the wrong elements of one output have in common, as data and in words."""

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


def percent(share: float) -> str:
    """Return `3.1 %`."""
    return f"{100 * share:.2g} %"
