"""A second measurement for whoever is accused, or of whom nobody can tell."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias, TypeVar

from cuda_llm.outcomes import InfraFailed, Quarantined, Verdict
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.device import Session, Site

T = TypeVar("T")
Hold: TypeAlias = Callable[[Compiled], AbstractAsyncContextManager[Session | Verdict]]
"""How the baseline's session is had."""


async def unless_repeated(
    site: Site, measure: Callable[[Hold], Awaitable[T]], verdict_of: Callable[[T], object]
) -> T:
    """What `measure` says; if that is QUARANTINED or INFRA, what it says with fresh runners.

    A runner whose own process is held up all the while looks like one that dawdles: one of 210
    honest kernels did, beside another GPU at work. Another process of it does not, and one of a
    cheat does. The baseline's is another too, and what else was under way on the machine may have
    ended.
    """
    found = await measure(site.keep)
    again = isinstance(verdict_of(found), Quarantined | InfraFailed)
    return await measure(site.open) if again else found
