"""Where agents ask their chat model: one desk a model, one answer a call.

A reply on the disk is never asked for again. Whatever goes wrong with a model or its endpoint is a
CallFailed; only a broken machine raises, such as a disk that is full.
"""

import asyncio
import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from cuda_llm.agents.llm.answer import ask_model, read_answer, takes_json_mode
from cuda_llm.agents.llm.budget import Bound, Budget, Reservation, Spent, lost_by
from cuda_llm.agents.llm.chat_model import without_retries
from cuda_llm.agents.llm.classify import UNCERTAIN, Failure, classify_error
from cuda_llm.agents.llm.prices import Price
from cuda_llm.agents.llm.retry import RetryPolicy, TryFailed, ask_again
from cuda_llm.agents.llm.secrets import reply_without, secrets_of, without
from cuda_llm.agents.llm.usage import count_prompt_tokens
from cuda_llm.conversation import Call, CallFailed, Reply, Usage, Vault
from cuda_llm.log import bound
from cuda_llm.redaction import hide
from cuda_llm.traces.events import ModelCalled, ModelRetried, Record

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

ASSUMED_OUTPUT_TOKENS = 16384
"""Reserved for an answer whose length no option limits."""

CALLS_AT_ONCE = 8


class Desk:
    """Asks one chat model. Is an `Ask`."""

    def __init__(
        self,
        *,
        model: "BaseChatModel",
        name: str,
        vault: Vault,
        record: Record,
        budget: Budget | None = None,
        slots: asyncio.Semaphore | None = None,
        policy: RetryPolicy | None = None,
        price: Price | None = None,
        output_tokens: int = 0,
        seed: int = 0,
        ends_run: bool = True,
    ) -> None:
        """`slots` are calls in flight, shared by all desks that are given the same.

        `output_tokens` is the longest answer that the model is told to give, 0 where it is told
        nothing; `seed` decides how long retries wait. With `ends_run` the run is over when the
        endpoint gives no access or the budget has no room for a call; else only the call fails.
        """
        self.name = name
        self.model = without_retries(model)
        self.secrets = secrets_of(model)
        hide(*self.secrets)
        self.record = record
        self.budget = budget or Budget()
        self.policy = policy or RetryPolicy()
        self.price = price
        self.output_tokens = output_tokens or ASSUMED_OUTPUT_TOKENS
        self.seed = seed
        self.ends_run = ends_run
        self.json_mode = takes_json_mode(model)
        """Ends with the first server that refuses it."""
        self._vault = vault
        self._slots = slots or asyncio.Semaphore(CALLS_AT_ONCE)

    async def __call__(self, call: Call) -> Reply | CallFailed:
        """The answer: from the disk where it is there, else from the model."""
        with bound(agent=call.agent, model=self.name):
            return await self._answer(call)

    async def _answer(self, call: Call) -> Reply | CallFailed:
        kept = self._vault.load_reply(call.id)
        if kept is not None:
            self._count_once(call, kept)
            return kept
        self._vault.keep_prompt(call)
        async with self._slots:
            asking = _Asking(self, call)
            try:
                answer = await asking.answer()
            except asyncio.CancelledError:
                asking.tell("cancelled", "nobody waits for it any longer")
                raise
            if isinstance(answer, Reply):
                self._vault.keep_reply(call.id, answer)
                asking.tell("ok", "", answer)
            else:
                asking.tell(answer.kind, answer.detail)
            return answer

    def bound(self, call: Call) -> Bound:
        """The most that one request of `call` may use."""
        asked = count_prompt_tokens(call.messages)
        most = self.output_tokens
        if self.price is None:
            return Bound(tokens=asked + most)
        usd = self.price.usd(input_tokens=asked, output_tokens=most)
        return Bound(tokens=asked + most, usd=usd)

    def _count_once(self, call: Call, reply: Reply) -> None:
        """A process killed between a reply's arrival and its event has told nobody of it."""
        if not self.budget.counts(call.id):
            self.budget.count(call.id, reply.usage)
            asking = _Asking(self, call)
            asking.tries = reply.tries
            asking.tell("ok", "kept by an earlier process", reply)


class _Asking:
    """One call under way: its tries and what they cost."""

    def __init__(self, desk: Desk, call: Call) -> None:
        self.desk = desk
        self.call = call
        self.bound = desk.bound(call)
        self.tries = 0
        self.lost = Spent()
        self.began_s = time.monotonic()
        self.reservation: Reservation | None = None

    async def answer(self) -> Reply | CallFailed:
        """Ask under one deadline, which begins when the budget has room."""
        desk = self.desk
        try:
            self.reservation = await self._reserve()
            self.began_s = time.monotonic()
            limit_s = min(desk.policy.deadline_s, max(desk.budget.seconds_left(), 0.0))
            async with asyncio.timeout(limit_s):
                chance = random.Random(f"{desk.seed}:{self.call.id}")
                reply = await ask_again(self._try, desk.policy, chance, self._tell_retry, limit_s)
            return replace(reply, tries=self.tries, seconds=self._seconds())
        except TryFailed as error:
            return self._failed(error.failure)
        except TimeoutError:
            over = desk.budget.over()
            late = Failure(kind="timed_out", detail=f"no answer within {limit_s:g} s")
            return self._failed(Failure(kind="over_budget", detail=over) if over else late)
        finally:
            if self.reservation is not None:
                self.reservation.free()

    async def _try(self) -> Reply:
        """One request. Raises TryFailed."""
        json_mode = self.call.as_json and self.desk.json_mode
        try:
            return await self._request(json_mode=json_mode)
        except TryFailed as error:
            if not json_mode or error.failure.kind != "refused_request":
                raise
            self._tell_retry(error.failure, 0.0)
            reply = await self._request(json_mode=False)
            self.desk.json_mode = False
            return reply

    async def _request(self, *, json_mode: bool) -> Reply:
        desk = self.desk
        reservation = self.reservation or await self._reserve()
        self.reservation = None
        self.tries += 1
        try:
            async with asyncio.timeout(desk.policy.try_s):
                message = await ask_model(desk.model, self.call, json_mode=json_mode)
            answer = read_answer(desk.model, message, self.call, desk.price)
            reply = reply_without(desk.secrets, answer)
        except asyncio.CancelledError:
            self._lose(reservation)
            raise
        except Exception as error:
            failure = error.failure if isinstance(error, TryFailed) else classify_error(error)
            failure = replace(failure, detail=without(desk.secrets, failure.detail))
            if failure.kind in UNCERTAIN:
                self._lose(reservation)
            reservation.free()
            raise TryFailed(failure) from error
        reservation.settle(self.call.id, reply.usage)
        return reply

    async def _reserve(self) -> Reservation:
        found = await self.desk.budget.reserve(self.bound, ends_run=self.desk.ends_run)
        if isinstance(found, str):
            raise TryFailed(Failure(kind="over_budget", detail=found))
        return found

    def _lose(self, reservation: Reservation) -> None:
        reservation.lose()
        self.lost += lost_by(self.bound)

    def _failed(self, failure: Failure) -> CallFailed:
        asked_s = failure.retry_after_s or 0.0
        limit_s = self.desk.policy.retry_after_limit_s
        waits = f"; it asks to wait {asked_s:g} s, more than {limit_s:g} s" * (asked_s > limit_s)
        if failure.kind == "no_access" and self.desk.ends_run:
            self.desk.budget.close(f"{self.desk.name}: {failure.detail}")
        return CallFailed(
            kind=failure.kind,
            detail=failure.detail + waits,
            tries=self.tries,
            seconds=self._seconds(),
        )

    def _seconds(self) -> float:
        return time.monotonic() - self.began_s

    def _tell_retry(self, failure: Failure, wait_s: float) -> None:
        reason = f"{failure.kind}: {failure.detail}"
        retried = ModelRetried(call=self.call.id, attempt=self.tries, reason=reason, wait_s=wait_s)
        self.desk.record(retried)

    def tell(self, outcome: str, detail: str, reply: Reply | None = None) -> None:
        """Tell that the call has ended."""
        usage = reply.usage if reply else Usage()
        self.desk.record(
            ModelCalled(
                call=self.call.id,
                agent=self.call.agent,
                model=(reply and reply.model) or self.desk.name,
                outcome=outcome,
                detail=detail,
                tries=self.tries,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cached_tokens=usage.cached_tokens,
                reasoning_tokens=usage.reasoning_tokens,
                usd=usage.usd,
                estimated=usage.estimated,
                lost_tries=self.lost.lost_tries,
                lost_tokens=self.lost.lost_tokens,
                lost_usd=None if self.desk.price is None else self.lost.lost_usd,
                seconds=reply.seconds if reply else self._seconds(),
            )
        )
