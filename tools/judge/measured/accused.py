"""A second measurement for whoever is accused, or of whom nobody can tell."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from cuda_llm.outcomes import InfraFailed, Quarantined

T = TypeVar("T")


async def unless_repeated(
    measure: Callable[[], Awaitable[T]], verdict_of: Callable[[T], object]
) -> T:
    """What `measure` says; if that is QUARANTINED or INFRA, what it says with fresh runners.

    A runner whose own process is held up all the while looks like one that dawdles: one of 210
    honest kernels did, beside another GPU at work. Another process of it does not, and one of a
    cheat does. What else was under way on the machine may have ended.
    """
    found = await measure()
    again = isinstance(verdict_of(found), Quarantined | InfraFailed)
    return await measure() if again else found
