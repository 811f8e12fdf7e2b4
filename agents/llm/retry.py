"""The one layer that repeats a request, and its policy."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from cuda_llm.agents.llm.classify import Failure

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How often one call may ask, and how long it may take."""

    tries: int = 4
    """Requests at most. Only what may be gone the next time is asked again."""
    try_s: float = 300.0
    """Longest one request may take."""
    deadline_s: float = 900.0
    """Longest the call may take with all tries and waits."""
    first_wait_s: float = 1.0
    """Doubled with each failure, then shortened by chance by up to half."""
    longest_wait_s: float = 30.0
    retry_after_limit_s: float = 120.0
    """A server that asks to wait longer is not waited for."""


def policy_from_settings() -> RetryPolicy:
    """The policy of this machine. Raises UsageError on a bad setting."""
    from cuda_llm.settings import settings

    now = settings()
    return RetryPolicy(
        tries=now.model_tries, try_s=now.model_try_s, deadline_s=now.model_deadline_s
    )


class TryFailed(Exception):
    """One request failed."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


async def ask_again(
    ask: Callable[[], Awaitable[T]],
    policy: RetryPolicy,
    chance: random.Random,
    on_retry: Callable[[Failure, float], None],
    deadline_s: float,
) -> T:
    """Call `ask` until it answers or the policy says no. Raises the last TryFailed.

    `on_retry` is called with each failure that another try follows, and the seconds until then. No
    wait is begun that would end after `deadline_s`.
    """
    from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, stop_before_delay

    def wait_s(state: "RetryCallState") -> float:
        return find_wait(_failure(state), state.attempt_number, policy, chance)

    def before_sleep(state: "RetryCallState") -> None:
        on_retry(_failure(state), state.upcoming_sleep)

    def may_help(error: BaseException) -> bool:
        return isinstance(error, TryFailed) and is_waited_for(error.failure, policy)

    retrying = AsyncRetrying(
        stop=stop_after_attempt(policy.tries) | stop_before_delay(deadline_s),
        wait=wait_s,
        retry=retry_if_exception(may_help),
        before_sleep=before_sleep,
        reraise=True,
    )
    return await retrying(ask)


def is_waited_for(failure: Failure, policy: RetryPolicy) -> bool:
    """Whether a failure is one to ask again after."""
    return failure.retried and (failure.retry_after_s or 0.0) <= policy.retry_after_limit_s


def find_wait(failure: Failure, number: int, policy: RetryPolicy, chance: random.Random) -> float:
    """Seconds to wait after try `number`, from 1: never less than the server asks."""
    grown = min(policy.first_wait_s * 2 ** (number - 1), policy.longest_wait_s)
    if failure.retry_after_s is None:
        return float(grown * chance.uniform(0.5, 1.0))
    return failure.retry_after_s + chance.uniform(0.0, policy.first_wait_s)


def _failure(state: "RetryCallState") -> Failure:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, TryFailed)
    return error.failure
