"""What the wrong cases of a kernel have in common, as data and in words."""

from dataclasses import dataclass
from enum import StrEnum

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
