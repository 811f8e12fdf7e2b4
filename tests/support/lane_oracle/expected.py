"""What an oracle says a result must be."""

from collections.abc import Callable
from dataclasses import dataclass

from lane_oracle.formats import Format


@dataclass(frozen=True)
class AnyNan:
    """Any NaN of the format: PTX leaves its payload open."""

    form: Format


@dataclass(frozen=True)
class Near:
    """An encoding at most `steps` away in one direction or the other, or an alternative."""

    bits: int
    steps: int
    alternative: int | None = None


Expected = int | AnyNan | Near
Oracle = Callable[[tuple[int, ...]], tuple[Expected, ...]]


def agrees(expected: Expected, bits: int) -> bool:
    """Is `bits` the result that was expected?"""
    match expected:
        case AnyNan(form=form):
            return bits & ((1 << (form.width - 1)) - 1) > (form.infinity or form.largest)
        case Near(bits=near, steps=steps, alternative=alternative):
            return abs(bits - near) <= steps or bits == alternative
        case _:
            return bits == expected
