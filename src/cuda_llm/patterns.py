"""What wrong results have in common: patterns of elements within an output, and of cases."""

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
