"""What a run may spend: money, tokens, minutes. Calls in flight count as what they may cost.

A call is reserved before it is asked and settled afterwards. Reservations are upper bounds, so the
limits hold however many calls are in flight; near a limit calls wait for each other instead of
being refused. A try that was cut off stays booked at its bound: the server may bill it.
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from cuda_llm.conversation import Usage
from cuda_llm.errors import UsageError
from cuda_llm.traces.events import Event, ModelCalled

if TYPE_CHECKING:
    from cuda_llm.agents.llm.pricing import Price


ASSUMED_OUTPUT_TOKENS = 16384
"""Reserved for an answer whose length no option limits."""
OUTPUT_SETTING = "CUDA_LLM_MODEL_OUTPUT_TOKENS"


@dataclass(frozen=True, kw_only=True)
class Bound:
    """The most that one request may use."""

    tokens: int = 0
    usd: float | None = None
    """None where the price is unknown."""


def find_bound(asked: int, answered: int, price: "Price | None") -> Bound:
    """Return the bound of a request with so many tokens in, and at most so many out."""
    usd = None if price is None else price.usd(input_tokens=asked, output_tokens=answered)
    return Bound(tokens=asked + answered, usd=usd)


@dataclass(frozen=True, kw_only=True)
class Spent:
    """The tokens and the money that a run has spent."""

    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Part of `input_tokens`."""
    reasoning_tokens: int = 0
    """Part of `output_tokens`."""
    usd: float = 0.0
    """Cost of the calls with a known price, in US dollars."""
    unpriced_calls: int = 0
    """Calls that `usd` leaves out."""
    lost_tries: int = 0
    lost_tokens: int = 0
    """Most tokens that requests which were cut off may have used."""
    lost_usd: float = 0.0
    """Highest cost of requests that were cut off, in US dollars."""

    def __add__(self, other: "Spent") -> "Spent":
        names = [one.name for one in fields(self)]
        return Spent(**{name: getattr(self, name) + getattr(other, name) for name in names})

    @property
    def tokens(self) -> int:
        """Return tokens in and out, what may have been lost included."""
        return self.input_tokens + self.output_tokens + self.lost_tokens

    @property
    def most_usd(self) -> float:
        """Return the dollars spent, what may have been lost included."""
        return self.usd + self.lost_usd


def spent_by(usage: Usage) -> Spent:
    """Return one answered call as spending."""
    return Spent(
        model_calls=1,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        usd=usage.usd or 0.0,
        unpriced_calls=int(usage.usd is None),
    )


def lost_by(bound: Bound) -> Spent:
    """Return one request without an answer as spending."""
    return Spent(lost_tries=1, lost_tokens=bound.tokens, lost_usd=bound.usd or 0.0)


class Budget:
    """The limits of one run, and the spending of the run. Without limits a budget only counts."""

    def __init__(
        self,
        *,
        usd: float | None = None,
        tokens: int | None = None,
        minutes: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.usd = usd
        self.tokens = tokens
        self.minutes = minutes
        self.spent = Spent()
        self._clock = clock
        self._began_s = clock()
        self._counted: set[str] = set()
        self._in_flight: list[Reservation] = []
        self._changed = asyncio.Event()
        self._refused: Bound | None = None
        self._closed = ""

    def restore(self, events: Iterable[Event], seconds: float = 0.0) -> None:
        """Count the spending of an earlier process of this run, which ran for `seconds`."""
        for event in events:
            if isinstance(event, ModelCalled):
                self.spent += _spent_by_event(event)
                if event.outcome == "ok":
                    self._counted.add(event.call)
        self._began_s -= seconds

    def leave_out(self, seconds: float) -> None:
        """Take back time in which the run waited for a person."""
        self._began_s += seconds

    def counts(self, call: str) -> bool:
        """Return whether the answer to `call` is counted already."""
        return call in self._counted

    def count(self, call: str, usage: Usage) -> None:
        """Count an answered call."""
        self._counted.add(call)
        self.spent += spent_by(usage)

    def close(self, reason: str) -> None:
        """End the run's spending, whatever is left: the endpoint takes no more calls."""
        self._closed = self._closed or reason

    def over(self) -> str:
        """Return the reason why the run has to end, in a few words; empty while the budget
        lasts."""
        if self._closed:
            return self._closed
        if self.seconds_left() <= 0:
            return f"{self.minutes:g} minutes are over"
        if self.tokens is not None and self.spent.tokens >= self.tokens:
            return f"{self.spent.tokens:,} of {self.tokens:,} tokens are used"
        if self.usd is not None and self.spent.most_usd >= self.usd:
            return f"${self.spent.most_usd:.4f} of ${self.usd:g} are used"
        return self._exceeded(self._refused, in_flight=False) if self._refused else ""

    def seconds_left(self) -> float:
        """Return the seconds until the minutes are over; infinite without such a limit."""
        if self.minutes is None:
            return math.inf
        return self.minutes * 60 - (self._clock() - self._began_s)

    async def reserve(self, bound: Bound, *, ends_run: bool = True) -> "Reservation | str":
        """Return room for one request, or why there is none; wait while others may free it.

        With `ends_run` a request that finds no room is what the run ends for.
        """
        while True:
            if self._closed or self.seconds_left() <= 0:
                return self.over()
            if reason := self._exceeded(bound, in_flight=False):
                if ends_run:
                    self._refused = bound
                return reason
            if not self._exceeded(bound, in_flight=True):
                reservation = Reservation(self, bound)
                self._in_flight.append(reservation)
                return reservation
            await self._wait_for_change()

    def release(self, reservation: "Reservation") -> None:
        """Take a reservation back; only a Reservation calls this."""
        self._in_flight.remove(reservation)
        self._changed.set()
        self._changed = asyncio.Event()

    async def _wait_for_change(self) -> None:
        left = self.seconds_left()
        try:
            async with asyncio.timeout(None if math.isinf(left) else max(left, 0.0)):
                await self._changed.wait()
        except TimeoutError:
            return

    def _exceeded(self, bound: Bound, *, in_flight: bool) -> str:
        """Return the limit that `bound` would pass, in words."""
        flying = self._in_flight if in_flight else []
        if self.tokens is not None:
            used = self.spent.tokens + sum(one.bound.tokens for one in flying)
            if used + bound.tokens > self.tokens:
                return _describe_excess(f"{used:,}", f"{self.tokens:,} tokens", f"{bound.tokens:,}")
        if self.usd is not None:
            if bound.usd is None:
                return f"${self.usd:g} are allowed and the model's price is unknown"
            paid = self.spent.most_usd + sum(one.bound.usd or 0.0 for one in flying)
            if paid + bound.usd > self.usd:
                return _describe_excess(f"${paid:.4f}", f"${self.usd:g}", f"${bound.usd:.4f}")
        return ""


class Reservation:
    """Room in a budget for one request. Ends once: settled, lost or freed."""

    def __init__(self, budget: Budget, bound: Bound) -> None:
        self.bound = bound
        self._budget = budget
        self._open = True

    def settle(self, call: str, usage: Usage) -> None:
        """Record that the request was answered."""
        self._end()
        self._budget.count(call, usage)

    def lose(self) -> None:
        """Record that the request was cut off; the request may have cost all that was reserved."""
        self._end()
        self._budget.spent += lost_by(self.bound)

    def free(self) -> None:
        """Free the reservation: the request cost nothing. Does nothing for a reservation that
        has ended."""
        if self._open:
            self._end()

    def _end(self) -> None:
        assert self._open, "a reservation ends once"
        self._open = False
        self._budget.release(self)


def _spent_by_event(event: ModelCalled) -> Spent:
    lost = Spent(
        lost_tries=event.lost_tries, lost_tokens=event.lost_tokens, lost_usd=event.lost_usd or 0.0
    )
    if event.outcome != "ok":
        return lost
    usage = Usage(
        input_tokens=event.input_tokens,
        output_tokens=event.output_tokens,
        cached_tokens=event.cached_tokens,
        reasoning_tokens=event.reasoning_tokens,
        usd=event.usd,
    )
    return lost + spent_by(usage)


def _describe_excess(used: str, limit: str, more: str) -> str:
    return f"{used} of {limit} used, and the next request may take {more}"


@dataclass(frozen=True, kw_only=True)
class Round:
    """An estimate of the calls of one round to a model."""

    calls: int
    prompt_tokens: int = 6000
    """Tokens of a prompt after the first round, with the incumbent, its profile and a history."""
    answer_tokens: int = 4000
    """Tokens of an answer: a kernel with a short explanation or some reasoning."""

    def __str__(self) -> str:
        answers = f"answers of about {self.answer_tokens:,}"
        return f"{self.calls} prompts of about {self.prompt_tokens:,} tokens and {answers}"


def check_limits(
    model: str,
    budget: Budget,
    price: "Price | None",
    round: Round,
    output_tokens: int = 0,
) -> None:
    """Check that what is left allows one round. Raises UsageError saying what one may take.

    `model` is its name and where it is, as a person reads it.
    """
    if budget.usd is not None and price is None:
        raise UsageError(
            f"--budget-usd: the price of {model} is unknown; "
            "name your price table with CUDA_LLM_PRICES, or limit --max-tokens instead"
        )
    longest = output_tokens or ASSUMED_OUTPUT_TOKENS
    one = find_bound(round.prompt_tokens, longest, price)
    whole = find_bound(
        round.calls * round.prompt_tokens, round.calls * min(round.answer_tokens, longest), price
    )
    for bound, what, remedy in (
        (whole, f"one round takes {{}}: {round}", "raise it, or ask for fewer --candidates"),
        (
            one,
            f"one request may take {{}}: {round.prompt_tokens:,} in, {longest:,} out",
            f"raise it, or lower {OUTPUT_SETTING}",
        ),
    ):
        _check_bound(bound, budget, what, remedy)


def _check_bound(bound: Bound, budget: Budget, what: str, remedy: str) -> None:
    spent = budget.spent
    if budget.tokens is not None and spent.tokens + bound.tokens > budget.tokens:
        left = f"--max-tokens {budget.tokens:,}" + _spent(f"{spent.tokens:,}", spent.tokens)
        raise UsageError(
            f"{left} is too small: {what.format(f'{bound.tokens:,} tokens')}; {remedy}"
        )
    if budget.usd is not None and spent.most_usd + (bound.usd or 0.0) > budget.usd:
        left = f"--budget-usd {budget.usd:g}" + _spent(f"${spent.most_usd:.4f}", spent.most_usd)
        raise UsageError(f"{left} is too small: {what.format(f'${bound.usd:.4f}')}; {remedy}")


def _spent(shown: str, amount: float) -> str:
    return f" ({shown} of it used)" if amount else ""
