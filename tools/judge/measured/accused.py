"""A second measurement for whoever is accused."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from cuda_llm.outcomes import Quarantined

T = TypeVar("T")


async def unless_repeated(
    measure: Callable[[], Awaitable[T]], verdict_of: Callable[[T], object]
) -> T:
    """What `measure` says; if that is QUARANTINED, what it says with fresh runners.

    A runner whose own process is held up all the while looks like one that dawdles: one of 210
    honest kernels did, beside another GPU at work. Another process of it does not, and one of a
    cheat does.
    """
    found = await measure()
    return await measure() if isinstance(verdict_of(found), Quarantined) else found
