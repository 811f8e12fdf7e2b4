"""Agents and generators at arm's length: whatever they raise or answer, the run goes on without."""

import asyncio
import json
import math
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from cuda_llm.codec import decode, encode
from cuda_llm.errors import CudaLLMError, describe_error
from cuda_llm.log import Log
from cuda_llm.outcomes import InfraFailed

T = TypeVar("T")

_log = Log(__name__)

MOST_CHARACTERS = 1 << 18
"""Of one answer as JSON. Notes stand in the state, and in every checkpoint from then on."""
MOST_SOURCE = 1 << 21
"""Of an answer that holds a source."""


async def contained(
    component: str,
    work: Callable[[], Awaitable[T]],
    *kinds: type[Any],
    limit_s: float = math.inf,
    most: int = MOST_CHARACTERS,
) -> T | InfraFailed:
    """What `work` answers, as `fit` leaves it; or as data what it raised, or that it hung."""
    limit = asyncio.timeout(None if math.isinf(limit_s) else limit_s)
    failed: BaseException
    try:
        async with limit:
            return fit(await work(), kinds, most)  # type: ignore[no-any-return]
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        failed = error
    except (Exception, SystemExit) as error:
        failed = error
    detail = f"not done within {limit_s:g} s" if limit.expired() else describe_error(failed)
    trace = None if limit.expired() or isinstance(failed, CudaLLMError) else failed
    _log.warning("a part of the run failed", component=component, error=detail, exc_info=trace)
    return InfraFailed(component=component, detail=detail)


def fit(made: object, kinds: tuple[type[Any], ...], most: int) -> Any:
    """`made` anew by way of JSON: it has the types it declares and shares nothing with its maker.

    Raises TypeError and ValueError where it is none of `kinds`, no plain data, or too much of it.
    """
    kind = next((one for one in kinds if isinstance(made, one)), None)
    if kind is None:
        expected = " or ".join(one.__name__ for one in kinds)
        raise TypeError(f"answered with {type(made).__name__}; expected {expected}")
    text = json.dumps(encode(made), allow_nan=False)
    if len(text) > most:
        raise ValueError(f"answered with {len(text):,} characters; at most {most:,} are taken")
    try:
        return decode(kind, json.loads(text))
    except ValueError as error:
        raise ValueError(f"{kind.__name__}.{error}") from None
