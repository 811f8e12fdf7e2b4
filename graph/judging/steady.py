"""Broken machinery as data: tried again a little, then told like any other verdict."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from cuda_llm.errors import BrokenByWork, CudaLLMError, DeviceLost, InfrastructureError
from cuda_llm.log import Log
from cuda_llm.outcomes import InfraFailed

T = TypeVar("T")

_log = Log(__name__)

TRIES = 3
DETAIL = 500
"""Most characters of what is kept of an exception."""


async def steady(component: str, work: Callable[[], Awaitable[T]]) -> T | InfraFailed:
    """The result of `work`. An InfraFailed, or an exception as one, is tried again, then kept.

    What has broken a device twice is not tried again. Raises what no other try and no other
    candidate could escape: a MissingError, a TaskError, a DeviceLost.
    """
    try:
        for number in range(1, TRIES):
            outcome = await _tried(component, work)
            if not isinstance(outcome, InfraFailed):
                return outcome
            _log.info("try again", component=component, number=number, reason=outcome.detail)
        return await _tried(component, work)
    except BrokenByWork as error:
        return InfraFailed(component=error.component, detail=say(error))


def say(error: BaseException) -> str:
    """`ValueError: what it says` in one line; our own errors are sentences already."""
    text = str(error) if isinstance(error, CudaLLMError) else f"{type(error).__name__}: {error}"
    return " ".join(text[:DETAIL].split())


async def _tried(component: str, work: Callable[[], Awaitable[T]]) -> T | InfraFailed:
    try:
        return await work()
    except (BrokenByWork, DeviceLost):
        raise
    except InfrastructureError as error:
        return InfraFailed(component=component, detail=say(error))
    except CudaLLMError:
        raise
    except Exception as error:
        _log.warning("unexpected error", component=component, exc_info=error)
        return InfraFailed(component=component, detail=say(error))
