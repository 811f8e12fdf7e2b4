"""Failures of an endpoint by kind, and the one layer that repeats a request after those that may
pass.
"""

import random
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from cuda_llm.redaction import printable
from cuda_llm.settings import settings

if TYPE_CHECKING:
    from tenacity import RetryCallState

RETRIED = {"rate_limited", "server_error", "unreachable", "timed_out", "cut_off", "not_json"}
"""Failures that may be gone the next time."""

UNCERTAIN = {"timed_out", "cut_off", "not_json"}
"""Kinds of failures after which the server may have written an answer, and bill the answer."""

NO_ACCESS = {401, 402, 403}

_BROKEN = {"ReadError", "WriteError", "CloseError", "RemoteProtocolError"}
"""httpx's names of a connection that was made and then broke."""

_TOO_LONG = re.compile(
    r"context.?(length|size|window)|maximum context|too many tokens|prompt is too long", re.I
)
_NO_MODEL = re.compile(
    r"model\b.{0,200}\b(not (exist|found)|does not exist|unknown)|(unknown|invalid|no such) model",
    re.I | re.S,
)
_NO_BALANCE = re.compile(r"insufficient.{0,10}(quota|balance|fund)|exceeded.{0,20} quota", re.I)

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Failure:
    """The reason why one request gave no answer."""

    kind: str
    """Kind of the failure, as `CallFailed.kind`."""
    detail: str
    retry_after_s: float | None = None
    """Seconds that the server asks to wait; None where the server asks for no wait."""
    status: int = 0
    """Status of the HTTP answer; 0 without an HTTP answer."""

    @property
    def retried(self) -> bool:
        """Return whether the same request may succeed later."""
        return self.kind in RETRIED


def classify_error(error: BaseException) -> Failure:
    """Name what a model's client raised; it may be any client, not only OpenAI's."""
    import openai

    match error:
        case openai.APITimeoutError() | TimeoutError():
            return Failure(kind="timed_out", detail="no answer in time")
        case openai.APIStatusError():
            return _classify_status(error.status_code, _message_of(error), error.response.headers)
        case openai.APIConnectionError():
            return _classify_connection(error)
        case openai.APIError() if not isinstance(error, openai.APIResponseValidationError):
            return _classify_status(500, _message_of(error), {})
        case ValueError() if error.args and isinstance(error.args[0], dict):
            return _classify_body(error.args[0])
        case (
            RecursionError()
            | TypeError()
            | ValueError()
            | LookupError()
            | AttributeError()
            | openai.OpenAIError()
        ):
            return Failure(kind="not_json", detail=f"no chat completion: {_message_of(error)}")
        case _ if isinstance(status := getattr(error, "status_code", None), int):
            response = getattr(error, "response", None)
            return _classify_status(status, _message_of(error), getattr(response, "headers", {}))
        case _:
            return Failure(
                kind="server_error", detail=f"{type(error).__name__}: {_message_of(error)}"
            )


def _classify_status(status: int, message: str, headers: Mapping[str, str]) -> Failure:
    if 300 <= status < 400:
        message = f"it redirects to {_place(headers)}; name that address with --base-url"
    detail = f"HTTP {status}: {message}"
    if status in NO_ACCESS or (status == 429 and _NO_BALANCE.search(message)):
        kind = "no_access"
    elif status == 429:
        kind = "rate_limited"
    elif _TOO_LONG.search(message) or status == 413:  # llama.cpp has called this a 500
        kind = "too_long"
    elif status in (408, 409, 425) or status >= 500:
        kind = "server_error"
    elif _NO_MODEL.search(message):
        kind = "unknown_model"
    else:
        kind = "refused_request"
    wait_s = read_retry_after(headers, datetime.now(UTC))
    return Failure(kind=kind, detail=detail, retry_after_s=wait_s, status=status)


def _place(headers: Mapping[str, str]) -> str:
    """Return the target of a redirect, without a part that may be a secret."""
    parts = urlsplit(headers.get("location", ""))
    place = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
    return printable(place.removesuffix("/chat/completions")) or "nowhere"


def _classify_connection(error: BaseException) -> Failure:
    """Classify a connection that was never made, or one that broke, by its cause."""
    causes = []
    cause = error.__cause__
    while cause is not None:
        causes.append(cause)
        cause = cause.__cause__
    broken = next((one for one in causes if type(one).__name__ in _BROKEN), None)
    if broken is not None:
        return Failure(kind="cut_off", detail=_message_of(broken))
    return Failure(kind="unreachable", detail=_message_of(causes[-1] if causes else error))


def _classify_body(body: Mapping[str, Any]) -> Failure:
    """Classify a 200 whose body is an error, as gateways send it."""
    code = str(body.get("code"))
    status = int(code) if code.isdigit() and 400 <= int(code) < 600 else 500
    return _classify_status(status, _words(body), {})


def read_retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return seconds that `Retry-After` asks to wait, given as a number or as a date."""
    value = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d+(\.\d+)?", value):
        return float(value)
    try:
        when = parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max((when - now).total_seconds(), 0.0)


def _message_of(error: BaseException, most: int = 300) -> str:
    """Return the message in one safe line: the server's own words where it sent some."""
    body = getattr(error, "body", None)
    words = _words(body) if isinstance(body, Mapping) else str(error)
    text = printable(" ".join(words.split())) or type(error).__name__
    return text if len(text) <= most else f"{text[:most]} ..."


def _words(body: Mapping[str, Any]) -> str:
    """Return an error's message, with its code where that says more."""
    message = str(body.get("message") or body)
    code = body.get("code")
    adds = isinstance(code, str) and code and code not in message
    return f"{message} ({code})" if adds else message


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """The limits of one call: its number of requests and its time."""

    tries: int = 4
    """Requests at most. Only what may be gone the next time is asked again."""
    try_s: float = 300.0
    """Longest time of one request, in seconds."""
    deadline_s: float = 900.0
    """Longest the call may take with all tries and waits."""
    first_wait_s: float = 1.0
    """Doubled with each failure, then shortened by chance by up to half."""
    longest_wait_s: float = 30.0
    retry_after_limit_s: float = 120.0
    """A server that asks to wait longer is not waited for."""


def policy_from_settings() -> RetryPolicy:
    """Return the policy of this machine. Raises UsageError on a bad setting."""
    now = settings()
    return RetryPolicy(
        tries=now.model_tries, try_s=now.model_try_s, deadline_s=now.model_deadline_s
    )


class TryFailed(Exception):
    """Raised where one request to a model failed, with the failure."""

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
    """Return whether a request is repeated after this failure."""
    return failure.retried and (failure.retry_after_s or 0.0) <= policy.retry_after_limit_s


def find_wait(failure: Failure, number: int, policy: RetryPolicy, chance: random.Random) -> float:
    """Return the seconds to wait after try `number`, from 1: no less than the server asks."""
    grown = min(policy.first_wait_s * 2 ** (number - 1), policy.longest_wait_s)
    if failure.retry_after_s is None:
        return float(grown * chance.uniform(0.5, 1.0))
    return failure.retry_after_s + chance.uniform(0.0, policy.first_wait_s)


def _failure(state: "RetryCallState") -> Failure:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, TryFailed)
    return error.failure
